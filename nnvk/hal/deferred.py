"""A fenced execution by a thread: for work that no device queue can hold, or that must wait for foreign fences."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from nnvk.base import forks
from nnvk.base.background import in_background
from nnvk.base.errors import NnapiError, ResultCode
from nnvk.hal.device import IFencedExecution
from nnvk.types.request import NOT_MEASURED, ExecutionResult, Timing, is_unlimited


class DeferredExecution(IFencedExecution):
    """Runs ``work`` on a thread once everything in ``wait_for`` has ended well; if one failed, so does this.

    ``deadline_ns`` limits how long it waits for them. The durations of the result count from the start of the work,
    and beside these there are those that count from now, with the time spent waiting.
    """

    def __init__(
        self,
        work: Callable[[], ExecutionResult],
        wait_for: Sequence[IFencedExecution] = (),
        deadline_ns: int | None = None,
    ) -> None:
        launched = time.perf_counter_ns()
        dependencies = tuple(wait_for)
        self._origin = forks.Origin()
        self._end = end = _End()

        def run() -> None:
            try:
                for dependency in dependencies:
                    _await(dependency, deadline_ns)
                waited = time.perf_counter_ns() - launched
                result = work()
                end.outcome = _with_waiting(result, waited) if dependencies else result
            except BaseException as error:  # raised again by `result`
                end.outcome = error
            finally:
                end.reached.set()

        in_background(run)

    def wait(self, timeout_ns: int = -1) -> bool:
        """Wait for the end of the work. DEAD_OBJECT in a forked child, unless that came before the fork."""
        if self._end.outcome is not None:
            return True
        self._origin.check("an execution")
        return self._end.reached.wait(None if is_unlimited(timeout_ns) else timeout_ns / 1e9)

    def result(self) -> ExecutionResult:
        """The work's result; raises what it raised, and what `wait` raises."""
        self.wait()
        outcome = self._end.outcome
        assert outcome is not None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class _End:
    """The end of an execution; its thread knows no more of it, so that it can be dropped."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.outcome: ExecutionResult | BaseException | None = None


class FinishedExecution(IFencedExecution):
    """An execution that had ended before it was asked about."""

    def __init__(self, result: ExecutionResult) -> None:
        self._result = result

    def wait(self, timeout_ns: int = -1) -> bool:
        """It has ended."""
        return True

    def result(self) -> ExecutionResult:
        """The result that the execution ended with."""
        return self._result


def _await(dependency: IFencedExecution, deadline_ns: int | None) -> None:
    if deadline_ns is not None and not dependency.wait(max(0, deadline_ns - time.monotonic_ns())):
        raise NnapiError(ResultCode.MISSED_DEADLINE_TRANSIENT, "the deadline passed before what was waited for")
    result = dependency.result()
    if result.code is not ResultCode.NO_ERROR:
        raise NnapiError(result.code, "an execution that was waited for has no outputs: a buffer was too small")


def _with_waiting(result: ExecutionResult, waited_ns: int) -> ExecutionResult:
    """The result with the time spent waiting in its durations, and without it in the fenced ones."""
    timing = result.timing
    if timing.in_driver_ns == NOT_MEASURED:
        return result
    return replace(result, timing=Timing(timing.on_hardware_ns, timing.in_driver_ns + waited_ns), fenced_timing=timing)
