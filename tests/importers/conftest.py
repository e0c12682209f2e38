"""Puts the helper beside the tests, `tflite_oracle`, on the path."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def same_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every test draw the same random constants, whatever ran before it, and go through the delegate too."""
    if oracle := sys.modules.get("tflite_oracle"):
        oracle.reseed()
        monkeypatch.setattr(oracle, "THROUGH_DELEGATE", True)
