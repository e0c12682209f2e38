"""Fenced executions by threads."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref

import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.hal import DeferredExecution, FinishedExecution
from nnvk.types.request import NOT_MEASURED, ExecutionResult, Timing

DONE = ExecutionResult(ResultCode.NO_ERROR, ())


def test_the_result_of_the_work() -> None:
    execution = DeferredExecution(lambda: DONE)
    assert execution.wait(10**10)
    assert execution.result() is execution.result() is DONE
    assert execution.export_sync_fd() is None


def test_an_error_of_the_work() -> None:
    def fail() -> ExecutionResult:
        raise KeyError("something")

    execution = DeferredExecution(fail)
    assert execution.wait()
    for _ in range(2):
        with pytest.raises(KeyError):
            execution.result()


def test_it_begins_when_all_it_waits_for_have_ended() -> None:
    gates = [threading.Event() for _ in range(3)]

    def opened(gate: threading.Event) -> ExecutionResult:
        assert gate.wait(20)
        return DONE

    dependencies = [DeferredExecution(lambda gate=gate: opened(gate)) for gate in gates]
    began = threading.Event()
    execution = DeferredExecution(lambda: (began.set(), DONE)[1], [*dependencies, FinishedExecution(DONE)])
    for gate in reversed(gates):
        assert not began.is_set()
        assert not execution.wait(5 * 10**6)
        gate.set()
    assert execution.result() is not None
    assert began.is_set()


def test_the_failure_of_what_it_waits_for_is_its_own() -> None:
    def fail() -> ExecutionResult:
        raise NnapiError(ResultCode.OP_FAILED, "it fails")

    began = threading.Event()
    execution = DeferredExecution(lambda: (began.set(), DONE)[1], [DeferredExecution(fail)])
    with pytest.raises(NnapiError, match="it fails"):
        execution.result()
    assert not began.is_set()


def test_what_has_no_outputs_has_failed() -> None:
    short = FinishedExecution(ExecutionResult(ResultCode.OUTPUT_INSUFFICIENT_SIZE, ()))
    with pytest.raises(NnapiError) as caught:
        DeferredExecution(lambda: DONE, [short]).result()
    assert caught.value.code is ResultCode.OUTPUT_INSUFFICIENT_SIZE


def test_a_deadline_ends_the_waiting() -> None:
    gate = threading.Event()
    slow = DeferredExecution(lambda: (gate.wait(20), DONE)[1])
    execution = DeferredExecution(lambda: DONE, [slow], time.monotonic_ns() + 10**7)
    with pytest.raises(NnapiError) as caught:
        execution.result()
    assert caught.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT
    gate.set()
    slow.result()


def test_durations_with_and_without_the_waiting() -> None:
    slow = DeferredExecution(lambda: (time.sleep(0.03), DONE)[1])
    measured = ExecutionResult(ResultCode.NO_ERROR, (), Timing(5, 7))
    result = DeferredExecution(lambda: measured, [slow]).result()
    assert result.fenced_timing == Timing(5, 7)
    assert result.timing.on_hardware_ns == 5
    assert result.timing.in_driver_ns >= 20 * 10**6
    assert DeferredExecution(lambda: measured).result() is measured
    unmeasured = DeferredExecution(lambda: DONE, [slow]).result()
    assert unmeasured.timing.in_driver_ns == NOT_MEASURED


def test_work_never_waits_for_a_thread() -> None:
    """Each of many waits for the one that was made after it."""
    gates = [threading.Event() for _ in range(150)]
    executions = [
        DeferredExecution(lambda this=this, after=after: (after.wait(20), this.set(), DONE)[2])
        for this, after in itertools.pairwise(gates)
    ]
    last = DeferredExecution(lambda: (gates[-1].set(), DONE)[1])
    assert all(execution.wait(20 * 10**9) for execution in [last, *executions])


def test_what_has_ended_is_let_go() -> None:
    class Big:
        pass

    big = Big()
    alive = weakref.ref(big)
    execution = DeferredExecution(lambda big=big: DONE)
    execution.result()
    del big
    deadline = time.monotonic() + 5
    while alive() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
        gc.collect()
    assert alive() is None
