"""Options and arguments of executions."""

from __future__ import annotations

import numpy as np

from nnvk.types.request import ExecuteOptions, InputArgument, Timing


def test_a_duration_becomes_a_deadline_when_the_work_begins() -> None:
    assert ExecuteOptions().started(100) == ExecuteOptions()
    assert ExecuteOptions(duration_ns=30).started(100) == ExecuteOptions(deadline_ns=130)
    assert ExecuteOptions(deadline_ns=120, duration_ns=30).started(100) == ExecuteOptions(deadline_ns=120)
    assert ExecuteOptions(deadline_ns=200, duration_ns=30).started(100) == ExecuteOptions(deadline_ns=130)
    unlimited = ExecuteOptions(measure=True, deadline_ns=7)
    assert unlimited.started(100) is unlimited


def test_the_shape_of_an_input() -> None:
    assert InputArgument(np.zeros((2, 3))).shape == (2, 3)
    assert InputArgument(None).shape is None
    assert InputArgument(None, 5, (4,)).shape == (4,)


def test_durations_are_not_measured_by_default() -> None:
    assert Timing() == Timing(2**64 - 1, 2**64 - 1)
