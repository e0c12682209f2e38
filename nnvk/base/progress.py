"""Compilations that take long: each is logged once, and one of them is shown on a terminal until it is over.

A thread looks at the compilations that are under way now and then, and ends when there are none.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from nnvk.base import forks
from nnvk.base.files import cache_folder
from nnvk.base.log import NOTABLE_S, logger
from nnvk.base.settings import settings
from nnvk.base.text import printable

_log = logger("compilation")
_LOOK_S = 0.25
"""Seconds between two looks."""


class _Compilation:
    """A compilation of one thread: the whole, and what of it is under way, down to the smallest step."""

    def __init__(self, what: str) -> None:
        self.begin = time.monotonic()
        self.steps = [printable(what)]
        self.done = ""
        """How much of the smallest step is done."""
        self.is_logged = False

    def __str__(self) -> str:
        whole, *inner = self.steps.copy()
        step, folder = f": {inner[-1]}" if inner else "", cache_folder()
        once, kept = ("", "nothing is kept") if folder is None else (", once", f"kept in {folder}")
        return f"compiling {whole}{once}{step}{self.done}, {time.monotonic() - self.begin:.0f} s; {kept}"


class _Display:
    """Shows the first of the compilations that take long."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Begin without compilations; a forked child has no thread that looks at them."""
        self._running: list[_Compilation] = []
        self._is_looking = False
        self._terminal: int | None = None
        """The descriptor that a line was written to which was not erased yet."""

    def begin(self, compilation: _Compilation) -> None:
        with self._lock:
            self._running.append(compilation)
            if not self._is_looking:
                with suppress(RuntimeError):  # no thread starts at the end of the interpreter: nothing is said then
                    threading.Thread(target=self._look, name="nnvk-progress", daemon=True).start()
                    self._is_looking = True

    def leave(self) -> None:
        """Write nothing more, and erase nothing: a shell may have the terminal already."""
        with self._lock:
            self._running.clear()
            self._terminal = None

    def end(self, compilation: _Compilation | None = None) -> None:
        """End one, or all of them."""
        with self._lock:
            self._running = [one for one in self._running if compilation not in (None, one)]
            if self._terminal is not None:
                with suppress(OSError):
                    os.write(self._terminal, b"\r\x1b[K")
                self._terminal = None

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            with self._lock:
                late = [one for one in self._running if time.monotonic() - one.begin >= NOTABLE_S]
                if not self._running:
                    self._is_looking = False
                    return
            for one in [each for each in late if not each.is_logged]:
                one.is_logged = True
                _log.info("%s", str(one))  # as it is now
            with self._lock, suppress(OSError, ValueError):  # the terminal has gone, or standard error is closed
                if late and late[0] in self._running:
                    self._show(str(late[0]))

    def _show(self, text: str) -> None:
        """Write a line over the last one. The cursor stays at its begin, so that other lines do not follow it."""
        stream = sys.__stderr__
        if stream is None or stream is not sys.stderr or not settings().progress or not stream.isatty():
            return  # what stands in for standard error, such as rich's progress bars, has lines of its own
        if os.environ.get("TERM", "dumb") not in ("dumb", "unknown"):
            self._terminal = stream.fileno()
            columns, line = os.get_terminal_size(self._terminal).columns, f"nnvk: {text}"
            line = (line if len(line) < columns else line.rpartition("; ")[0])[: columns - 1]
            os.write(self._terminal, f"\r\x1b[K{line}\r".encode())


_display = _Display()
_thread = threading.local()
leave = _display.leave
atexit.register(_display.end)


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """The block compiles ``what``, or a part of what its thread compiles already.

    Once the whole has taken `NOTABLE_S`, it is logged, and shown on standard error if that is a terminal.
    """
    outer: _Compilation | None = getattr(_thread, "compilation", None)
    if outer is not None:
        outer.steps.append(what)
        try:
            yield
        finally:
            outer.steps.pop()
            outer.done = ""
        return
    _thread.compilation = compilation = _Compilation(what)
    try:
        _display.begin(compilation)
        yield
    finally:
        _thread.compilation = None
        _display.end(compilation)


def progressed(callback: Callable[[int, int], None] | None, done: int, total: int) -> None:
    """Show that ``done`` of ``total`` steps of what this thread compiles are done, and call ``callback``, if any."""
    if (compilation := getattr(_thread, "compilation", None)) is not None:
        compilation.done = f" {100 * done // total} %"
    if callback is not None:
        callback(done, total)
