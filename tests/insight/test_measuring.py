"""Measurements of models."""

from __future__ import annotations

import pytest

import nnvk
from nnvk.demo.assets import DATA
from nnvk.importers import tflite
from nnvk.insight import measuring
from nnvk.insight.limits import Limits
from nnvk.insight.measuring import measure


def test_the_devices_own_time_is_taken_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise other load of the machine can make it longer than the median of the runs."""
    order: list[int] = []
    compute = nnvk.Execution.compute

    def recorded(execution: nnvk.Execution) -> None:
        order.append(id(execution))
        compute(execution)

    monkeypatch.setattr(nnvk.Execution, "compute", recorded)
    model = tflite.load(DATA / "digits_int8.tflite").model
    found = measure("digits", model, nnvk.get_device("nnapi-reference"), Limits(4, 60))
    plain, measured = order[-2:]
    assert plain != measured
    assert order[-8:] == [plain, measured] * 4
    assert found.runs == 4
    assert found.hardware_ns


def test_the_devices_own_time_is_no_longer_than_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the runs between the others may be the longer ones."""
    monkeypatch.setattr(measuring, "_hardware", lambda execution: 1 << 60)
    model = tflite.load(DATA / "digits_int8.tflite").model
    found = measure("digits", model, nnvk.get_device("nnapi-reference"), Limits(4, 60))
    assert found.hardware_ns == found.median_ns
