"""Puts the helpers of the importers' tests on the path, `tflite_oracle` among them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "importers"))


@pytest.fixture(autouse=True)
def same_constants() -> None:
    """Let every test draw the same random constants, whatever ran before it."""
    if oracle := sys.modules.get("tflite_oracle"):
        oracle.reseed()
