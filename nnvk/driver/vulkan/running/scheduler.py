"""The order in which executions reach a device's queue.

The queue runs submissions in order, so priorities apply before submission. At most `IN_FLIGHT` submissions are on the
device. The others wait here, the highest priority first, and equal priorities in order of arrival. If nothing waits, a
submission costs a lock and a check of the fences in flight.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from nnvk.base.errors import NnapiError, ResultCode

IN_FLIGHT = 2
"""The submissions on the device: enough to keep it busy while the host prepares the next one."""


class Fence(Protocol):
    """The fence of a submission: `nnvk._native.Fence`."""

    def wait(self, timeout_ns: int = -1) -> bool:
        """Whether it signalled in time."""
        ...

    @property
    def signaled(self) -> bool:
        """Whether it has signalled."""
        ...

    def export_sync_fd(self) -> int:
        """The fence as a sync file."""
        ...


class Ticket:
    """A submission that waits for its turn. It can be awaited like any other fence."""

    def __init__(self, lock: threading.Lock, start: Callable[[], Fence]) -> None:
        self._lock = lock
        """The lock of the scheduler, which holds it when it calls `begin`."""
        self._start: Callable[[], Fence] | None = start
        """None after the turn has come or was given up, because the function may keep large objects alive."""
        self._begun = threading.Event()
        self._fence: Fence | None = None
        self._error: Exception | None = None

    def begin(self) -> Fence | None:
        """Submit; waiters get an error. Nothing happens after `cancel`."""
        start, self._start = self._start, None
        if start is None:
            return None
        try:
            self._fence = start()
        except Exception as error:  # raised again by `wait`
            self._error = error
        self._begun.set()
        return self._fence

    def cancel(self) -> bool:
        """Give up the turn. False: the turn has come, and the device does the work."""
        with self._lock:
            start, self._start = self._start, None
        if start is None:
            return False
        self._begun.set()
        return True

    def wait(self, timeout_ns: int = -1) -> bool:
        """Wait for the turn and then for the fence, together at most ``timeout_ns`` (-1: without limit)."""
        if timeout_ns < 0:
            self._begun.wait()
        else:
            give_up = time.monotonic_ns() + timeout_ns
            if not self._begun.wait(timeout_ns / 1e9):
                return False
            timeout_ns = max(0, give_up - time.monotonic_ns())
        if self._error is not None:
            raise self._error
        return self._fence is None or self._fence.wait(timeout_ns)

    @property
    def fence(self) -> Fence | None:
        """The submission's own fence; None before its turn, and if the turn was given up."""
        return self._fence

    def export_sync_fd(self) -> int:
        """The submission's fence as a sync file, once it has had its turn (-1: signalled already, or given up)."""
        self._begun.wait()
        if self._error is not None:
            raise self._error
        return -1 if self._fence is None else self._fence.export_sync_fd()

    @property
    def signaled(self) -> bool:
        """Whether the fence has signalled, or never will because the turn was given up."""
        if self._fence is not None:
            return self._fence.signaled
        return self._begun.is_set() and self._error is None


class Scheduler:
    """Submits to one queue in the order of priorities."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._in_flight: deque[Fence] = deque()
        self._waiting: list[tuple[int, int, Ticket]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def submit(self, priority: int, start: Callable[[], Fence]) -> Fence:
        """Call ``start``, which submits, at once or when its turn comes. Larger priorities come first.

        RESOURCE_EXHAUSTED_TRANSIENT: the thread that gives turns cannot be started.
        """
        with self._lock:
            self._forget_signaled()
            if not self._waiting and len(self._in_flight) < IN_FLIGHT:
                fence = start()
                self._in_flight.append(fence)
                return fence
        # Not made under the lock, as far as that can be: what allocates may run finalisers, and they may come here.
        ticket = Ticket(self._lock, start)
        entry = -priority, next(self._numbers), ticket
        with self._lock:
            self._start_serving()
            heapq.heappush(self._waiting, entry)
            self._changed.notify()
        return ticket

    def _start_serving(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="nnvk-scheduler", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                reason = f"submissions that wait for their turn need a thread, and none can be started: {error}"
                raise NnapiError(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, reason) from error
            self._thread = thread

    def _forget_signaled(self) -> None:
        while self._in_flight and _is_over(self._in_flight[0]):
            self._in_flight.popleft()

    def _serve(self) -> None:
        """Give waiting submissions their turn whenever one in flight ends."""
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                self._forget_signaled()
                if len(self._in_flight) < IN_FLIGHT:
                    fence = heapq.heappop(self._waiting)[2].begin()
                    if fence is not None:
                        self._in_flight.append(fence)
                    continue
                oldest = self._in_flight[0]
            with contextlib.suppress(RuntimeError):  # whoever waits for it hears of it; here it is just over
                oldest.wait()


def _is_over(fence: Fence) -> bool:
    """Whether the device has finished a submission, or never will."""
    try:
        return fence.signaled
    except RuntimeError:
        return True
