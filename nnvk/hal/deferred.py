"""A fenced execution by a thread: for work that no device queue can hold, or that must wait for foreign fences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout

from nnvk.hal.device import IFencedExecution
from nnvk.types.request import ExecutionResult

_workers = ThreadPoolExecutor(max_workers=64, thread_name_prefix="nnvk-deferred")


class DeferredExecution(IFencedExecution):
    """Runs ``work`` on a thread once everything in ``wait_for`` has ended well; if one failed, so does this.

    Workers take executions in the order of their making, and an execution depends on earlier ones only: the first
    of those that wait can always go on, so that a full pool can't lock itself up.
    """

    def __init__(self, work: Callable[[], ExecutionResult], wait_for: Sequence[IFencedExecution] = ()) -> None:
        dependencies = tuple(wait_for)

        def run() -> ExecutionResult:
            for dependency in dependencies:
                dependency.result()
            return work()

        self._future: Future[ExecutionResult] = _workers.submit(run)

    def wait(self, timeout_ns: int = -1) -> bool:
        """Wait for the end of the work."""
        try:
            self._future.exception(None if timeout_ns < 0 else timeout_ns / 1e9)
        except FutureTimeout:
            return False
        return True

    def result(self) -> ExecutionResult:
        """The work's result; raises what it raised."""
        return self._future.result()


class FinishedExecution(IFencedExecution):
    """An execution that had ended before it was asked about."""

    def __init__(self, result: ExecutionResult) -> None:
        self._result = result

    def wait(self, timeout_ns: int = -1) -> bool:
        """It has ended."""
        return True

    def result(self) -> ExecutionResult:
        """The result it was made with."""
        return self._result
