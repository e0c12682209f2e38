"""Event: an execution under way, or a sync fence of somebody else."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable
from functools import partial

from nnvk.base import forks
from nnvk.base.background import in_background
from nnvk.base.checks import LARGEST_DESCRIPTOR, whole
from nnvk.base.detached_work import expect_detached_work, leave_detached_work
from nnvk.base.errors import NnapiError, ResultCode, bad_data, driver_error, driving, op_failed, system_error
from nnvk.base.limits import poll
from nnvk.base.log import logger
from nnvk.base.pinned import Pinned
from nnvk.hal import IFencedExecution
from nnvk.types.request import ExecutionResult, is_unlimited

_log = logger("execution")
_LONGEST_POLL_MS = 2**31 - 1


class Event(Pinned):
    """The end of an asynchronous execution (``ANeuralNetworksEvent``).

    `wait` writes the outputs; before it they are not defined. When an event is dropped its execution still comes to
    its end, in the background. For that of `start_compute` the next computation that this thread begins waits, and so
    does the interpreter's exit.
    """

    def __init__(
        self,
        fence: IFencedExecution,
        finish: Callable[[IFencedExecution], None],
        *,
        has_sync_fence: bool = False,
        writes_host: bool = False,
    ) -> None:
        self.fence = fence
        """The object that signals."""
        self._finish: Callable[[IFencedExecution], None] = finish
        self._has_sync_fence = has_sync_fence
        self._writes_host = writes_host
        self._done = False
        self._error: Exception | None = None
        if not isinstance(fence, _SyncFence):
            expect_detached_work()
        self._lock = forks.lock()

    @classmethod
    def create_from_sync_fence_fd(cls, sync_fence_fd: int) -> Event:
        """An event that signals when a descriptor becomes readable (``ANeuralNetworksEvent_createFromSyncFenceFd``).

        The descriptor is duplicated. BAD_DATA: it is not one.
        """
        descriptor = whole("sync_fence_fd", sync_fence_fd, -LARGEST_DESCRIPTOR, LARGEST_DESCRIPTOR)
        return cls(_SyncFence(descriptor), _await, has_sync_fence=True)

    def wait(self) -> None:
        """Wait for the end (``ANeuralNetworksEvent_wait``).

        Raises what the execution raised. Any number of threads may wait, and as often as they like.
        """
        with self._lock:
            if not self._done:
                try:
                    self._finish(self.fence)
                except Exception as error:
                    self._error = error
                self._done = True
        if self._error is not None:
            failure = driver_error("the execution fails", self._error)
            raise NnapiError(failure.code, failure.reason) from failure.__cause__ or failure

    def check(self) -> None:
        """Raise the error of an execution that has ended badly already; don't wait for one that has not ended."""
        with driving("an execution that is to be waited for fails"):
            if self.fence.wait(0):
                _await(self.fence)

    @property
    def writes_host(self) -> bool:
        """Whether memory of the host is still to be written when the fence signals: by `wait`."""
        return self._writes_host and not self._done

    def get_sync_fence_fd(self) -> int:
        """A descriptor that becomes readable when the event signals (``ANeuralNetworksEvent_getSyncFenceFd``).

        The outputs are written then. The caller owns and closes it. It is a Linux sync file where the device exports
        its VkFence as one, else a descriptor that polls the same. BAD_DATA: the event is not backed by a sync fence;
        those of `Execution.start_compute_with_dependencies` and `create_from_sync_fence_fd` are.
        """
        if not self._has_sync_fence:
            raise bad_data("the event is not backed by a sync fence: it comes from start_compute")
        with driving("the event has no descriptor"):
            exported = None if self.writes_host else self.fence.export_sync_fd()
        return exported if exported is not None and exported >= 0 else self._pollable()

    def _pollable(self) -> int:
        """A descriptor of a pipe that becomes readable after `wait`, for what no sync file of a device can tell."""
        try:
            readable, writable = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            raise system_error("there is no descriptor for the event", error) from error

        def signal() -> None:
            try:
                self.wait()
            except Exception as error:  # an execution that failed has ended too; `wait` tells its caller why
                _log.debug("an event with a descriptor ended with %r", error)
            finally:
                with contextlib.suppress(BrokenPipeError):  # the other end is closed: nobody polls it any more
                    os.write(writable, b"\0")  # to close it does not do: a forked child may have it too
                os.close(writable)

        try:
            in_background(signal)
        except NnapiError:
            os.close(readable)
            os.close(writable)
            raise
        return readable

    def __del__(self) -> None:
        if not hasattr(self, "_lock") or self._done or isinstance(self.fence, _SyncFence) or sys.is_finalizing():
            return
        finish = partial(_finish_quietly, self._finish, self.fence)
        # A fenced execution may wait for somebody else's fence, which may never signal. So nothing waits for its end.
        leave_detached_work(finish, in_order=not self._has_sync_fence)


def _finish_quietly(finish: Callable[[IFencedExecution], None], fence: IFencedExecution) -> None:
    try:
        finish(fence)
    except BaseException as error:  # nobody is left to hear it
        _log.debug("an event that was dropped ended with %r", error)


def _await(fence: IFencedExecution) -> None:
    result = fence.result()
    if result.code is not ResultCode.NO_ERROR:
        raise NnapiError(result.code, "the execution has no outputs: a buffer was too small")


class _SyncFence(IFencedExecution):
    """A sync fence made by somebody else."""

    def __init__(self, fd: int) -> None:
        try:
            self._fd = os.dup(fd)
        except OSError as error:
            raise system_error(
                f"{fd} is no file descriptor that can be duplicated", error, ResultCode.BAD_DATA
            ) from error

    def wait(self, timeout_ns: int = -1) -> bool:
        give_up = None if is_unlimited(timeout_ns) else time.monotonic_ns() + timeout_ns
        while True:
            left_ms = None if give_up is None else max(0, -(-(give_up - time.monotonic_ns()) // 1_000_000))
            ready = poll(self._fd, select.POLLIN, None if left_ms is None else min(left_ms, _LONGEST_POLL_MS))
            if ready or left_ms is None or left_ms <= _LONGEST_POLL_MS:
                break
        if ready and not ready & (select.POLLIN | select.POLLHUP):
            raise op_failed("the sync fence is in error")
        return bool(ready)

    def result(self) -> ExecutionResult:
        self.wait()
        return ExecutionResult(ResultCode.NO_ERROR, ())

    def export_sync_fd(self) -> int | None:
        try:
            return os.dup(self._fd)
        except OSError as error:
            raise system_error("the sync fence's descriptor can't be duplicated", error) from error

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)
