"""Work that finalisers leave behind.

A finaliser may run within any call, so within any lock: it must neither wait nor take one, nor start a thread.
It leaves its work in a queue instead, for a thread that was started before.
"""

from __future__ import annotations

import atexit
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from nnvk.base import forks
from nnvk.base.background import in_background
from nnvk.base.errors import NnapiError
from nnvk.base.log import logger

_log = logger("execution")
_RETRY_SECONDS = 1.0


class _Item(NamedTuple):
    work: Callable[[], None]
    in_order: bool
    left_by: int
    """The thread of the finaliser, or 0."""


class _DetachedWork:
    """A thread that does the work of finalisers, in order."""

    def __init__(self) -> None:
        self._starting = forks.lock()
        self._serving = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Begin without a thread and with nothing to do. The parent does the work that was left to it."""
        self._items: deque[_Item] = deque()
        """The work that is not done; the first item is in progress."""
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._postponed: list[_Item] = []
        self._thread: threading.Thread | None = None
        self._server = 0

    def start(self) -> bool:
        """Have the thread running; not from finalisers. False: no thread can be started now."""
        if self._thread is not None and self._thread.is_alive():
            return True
        with self._starting:
            if self._thread is not None and self._thread.is_alive():
                return True
            thread = threading.Thread(target=self._serve, name="nnvk-dropped", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # what is left waits for the next call
                _log.debug("no thread for what was dropped: %s", error)
                return False
            self._thread = thread
            return True

    def leave(self, work: Callable[[], None], *, in_order: bool) -> None:
        """Leave work; all that a finaliser may call: both containers can be added to while they are added to."""
        self._items.append(_Item(work, in_order, threading.get_ident()))
        self._wake.put(None)

    def settle(self, *, own: bool = False) -> None:
        """Wait until all that was left to be done in order is done; ``own``: only if this thread has left some."""
        if not self._items:
            return
        me = threading.get_ident()
        if self._server == me:  # a finaliser within that work; it would wait for itself
            return
        if own and all(item.left_by != me for item in self._items.copy()):
            return
        if self.start():
            ended = threading.Event()
            self._items.append(_Item(ended.set, True, 0))
            self._wake.put(None)
            ended.wait()
        else:
            while self._serve_next():
                pass

    def _serve(self) -> None:
        while True:
            try:
                self._wake.get(timeout=_RETRY_SECONDS if self._postponed else None)
            except queue.Empty:
                postponed, self._postponed = self._postponed, []
                self._items.extend(postponed)
                del postponed
            while self._serve_next():
                pass

    def _serve_next(self) -> bool:
        """Do the first piece of work. False if there is none."""
        with self._serving:
            if not self._items:
                return False
            self._server = threading.get_ident()
            item = self._items[0]
            try:
                if item.in_order:
                    item.work()
                else:
                    in_background(item.work)
            except NnapiError as error:  # of `in_background`: all threads are taken
                _log.debug("what was dropped has to wait: %s", error)
                self._postponed.append(item)
            finally:
                self._items.popleft()
                self._server = 0
            return True


_dropped = _DetachedWork()


def expect_detached_work() -> None:
    """Call before making what will call `leave_detached_work` when it is dropped."""
    _dropped.start()


def leave_detached_work(work: Callable[[], None], *, in_order: bool) -> None:
    """Have ``work``, which must not raise, called soon by another thread; safe in a finaliser.

    ``in_order``: it comes to its end by itself, and what is left after it may wait for that; the interpreter's exit
    does. Otherwise it gets a thread of its own.
    """
    _dropped.leave(work, in_order=in_order)


def settle_detached_work(*, own: bool = False) -> None:
    """Wait for the end of all that was left to be done in order; ``own``: only if this thread has left some of it."""
    _dropped.settle(own=own)


atexit.register(settle_detached_work)
