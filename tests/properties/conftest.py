"""Profiles of the property tests, and the helpers' folders on the path.

The same examples in every run, unless NNVK_HYPOTHESIS_PROFILE=explore: then others each time, and more of them.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings

_TESTS = Path(__file__).parent.parent
for folder in ("support", "importers"):
    if str(_TESTS / folder) not in sys.path:
        sys.path.insert(0, str(_TESTS / folder))

_COMMON = {"deadline": timedelta(seconds=3), "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, max_examples=20, database=None, **_COMMON)
settings.register_profile("explore", max_examples=500, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("NNVK_HYPOTHESIS_PROFILE", "ci"))
