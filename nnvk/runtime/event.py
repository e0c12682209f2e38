"""Event: an execution under way, or a sync fence of somebody else."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

from nnvk.base.errors import NnapiError, ResultCode, bad_data, op_failed
from nnvk.hal import IFencedExecution
from nnvk.types.request import ExecutionResult


class Event:
    """The end of an asynchronous execution (``ANeuralNetworksEvent``).

    `wait` writes the outputs; before it they are not defined. An event that is dropped waits first.
    """

    def __init__(
        self,
        fence: IFencedExecution,
        finish: Callable[[IFencedExecution], None],
        *,
        has_sync_fence: bool = False,
    ) -> None:
        self.fence = fence
        """What signals."""
        self._finish: Callable[[IFencedExecution], None] | None = finish
        self._has_sync_fence = has_sync_fence
        self._error: NnapiError | None = None
        self._lock = threading.Lock()

    @classmethod
    def create_from_sync_fence_fd(cls, sync_fence_fd: int) -> Event:
        """An event that signals when a descriptor becomes readable (``ANeuralNetworksEvent_createFromSyncFenceFd``).

        The descriptor is duplicated. BAD_DATA: it is not one.
        """
        return cls(_SyncFence(sync_fence_fd), _await, has_sync_fence=True)

    def wait(self) -> None:
        """Wait for the end (``ANeuralNetworksEvent_wait``). Raises what the execution raised; may be called again."""
        with self._lock:
            if self._finish is not None:
                finish, self._finish = self._finish, None
                try:
                    finish(self.fence)
                except NnapiError as error:
                    self._error = error
        if self._error is not None:
            raise self._error

    @property
    def error(self) -> NnapiError | None:
        """How it ended badly, as far as anybody has waited for it."""
        return self._error

    def get_sync_fence_fd(self) -> int:
        """A descriptor that becomes readable when the event signals (``ANeuralNetworksEvent_getSyncFenceFd``).

        The caller owns and closes it. It is a Linux sync file where the device exports its VkFence as one, else a
        descriptor that polls the same. BAD_DATA: the event is not backed by a sync fence; those of
        `Execution.start_compute_with_dependencies` and `create_from_sync_fence_fd` are.
        """
        if not self._has_sync_fence:
            raise bad_data("the event is not backed by a sync fence: it comes from start_compute")
        exported = self.fence.export_sync_fd()
        return exported if exported is not None and exported >= 0 else _pollable(self.fence)

    def __del__(self) -> None:
        try:
            if hasattr(self, "_lock"):
                self.wait()
        except NnapiError:
            pass  # nobody is left to hear it


def _await(fence: IFencedExecution) -> None:
    fence.result()


class _SyncFence(IFencedExecution):
    """A sync fence made by somebody else."""

    def __init__(self, fd: int) -> None:
        try:
            self._fd = os.dup(fd)
        except OSError as error:
            raise bad_data(f"{fd} is no file descriptor: {error}") from error

    def wait(self, timeout_ns: int = -1) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        ready = poll.poll(None if timeout_ns < 0 else -(-timeout_ns // 1_000_000))
        if ready and not ready[0][1] & (select.POLLIN | select.POLLHUP):
            raise op_failed("the sync fence is in error")
        return bool(ready)

    def result(self) -> ExecutionResult:
        self.wait()
        return ExecutionResult(ResultCode.NO_ERROR, ())

    def export_sync_fd(self) -> int | None:
        return os.dup(self._fd)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)


def _pollable(fence: IFencedExecution) -> int:
    """A descriptor that becomes readable when ``fence`` signals, for devices that export none of their own."""
    readable, writable = os.pipe2(os.O_CLOEXEC)

    def signal() -> None:
        try:
            fence.wait()
        except NnapiError:
            pass  # an execution that failed has ended too; `Event.wait` tells why
        finally:
            os.close(writable)  # the other end polls readable from now on

    threading.Thread(target=signal, name="nnvk-sync-fence", daemon=True).start()
    return readable
