"""Stress: processes of their own, which must neither fail nor hang nor crash."""

from __future__ import annotations

import pytest
from stress_types import Outcome, Run

import nnvk


@pytest.mark.parametrize(
    ("workload", "outcome"),
    [
        ("succeeds", Outcome.SUCCESS),
        ("fails", Outcome.FAILURE),
        ("hangs", Outcome.HANG),
        ("crashes", Outcome.CRASH),
    ],
)
def test_outcomes_are_told_apart(run: Run, workload: str, outcome: Outcome) -> None:
    ended, printed = run(workload, timeout_s=6 if outcome is Outcome.HANG else 30)
    assert ended is outcome, printed
    if outcome is not Outcome.SUCCESS:
        assert workload in printed  # the traceback says where


@pytest.mark.parametrize(
    "workload",
    [
        "many_models",
        "many_threads",
        "frees_in_every_order",
        "memory_exhausted",
        "ten_thousand_executions",
        "many_compilations",
        "deadlines_amid_work",
        "exits_amid_work",
    ],
)
def test_stress(run: Run, workload: str) -> None:
    ended, printed = run(workload, *(device.name for device in nnvk.get_devices()))
    assert ended is Outcome.SUCCESS, printed
