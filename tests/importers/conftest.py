"""Puts the helper beside the tests, `tflite_oracle`, on the path, and numbers the cases of tests."""

import sys
from pathlib import Path

import in_turn
import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def same_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every test draw the same random constants, whatever ran before it, and go through the delegate too."""
    if oracle := sys.modules.get("tflite_oracle"):
        oracle.reseed()
        monkeypatch.setattr(oracle, "THROUGH_DELEGATE", True)


@pytest.fixture(autouse=True)
def in_turn_number(request: pytest.FixtureRequest) -> None:
    """Let `in_turn.devices` choose the devices of the case."""
    in_turn.begin(request.node)
