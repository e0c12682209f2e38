"""Puts the helpers beside the tests, `tflite_net` and `tflite_oracle`, on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
