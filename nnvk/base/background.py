"""Threads for work in the background, and for work in parallel."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from nnvk.base import forks
from nnvk.base.errors import NnapiError, ResultCode

_IDLE_SECONDS = 5.0


class _Workers:
    """Threads that end when nothing has come for a while.

    Work never waits for a thread: what it waits for itself may be what comes later. The threads are daemons, so that
    a fence that never signals does not keep the process from ending.
    """

    def __init__(self) -> None:
        self._lock = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Begin without threads and work. A forked child has none."""
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = 0

    def submit(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._work.put(work)
                return
        thread = threading.Thread(target=self._serve, args=(work,), name="nnvk-deferred", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            reason = f"an execution needs a thread of its own, and none can be started: {error}"
            raise NnapiError(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, reason) from error

    def _serve(self, work: Callable[[], None]) -> None:
        while True:
            work()
            del work  # with all that it refers to, which may be large
            with self._lock:
                self._idle += 1
            try:
                work = self._work.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                work = self._work.get()  # somebody has counted on this thread just now


_workers = _Workers()


def in_background(work: Callable[[], None]) -> None:
    """Call ``work``, which must not raise, on a thread of its own; returns at once.

    Not from finalisers: `nnvk.base.detached_work` is for them. RESOURCE_EXHAUSTED_TRANSIENT: no thread can be
    started.
    """
    _workers.submit(work)


class _CallingThread(Executor):
    """Does work on the thread that submits it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The result, or the error, of the call."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def executor(threads: int, name: str = "") -> Executor:
    """Up to ``threads`` threads, or the calling thread if none can be started, as in a handler of `atexit`."""
    pool = ThreadPoolExecutor(threads, name)
    try:
        pool.submit(bool)
    except RuntimeError:
        return _CallingThread()
    return pool
