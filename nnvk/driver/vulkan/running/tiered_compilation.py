"""Tiered compilation: the best plan is compiled in the background, and replaces one that compiled quickly.

A thread compiles. When the interpreter ends, it stops at the next pipeline, and the process waits for that: a driver
must not compile while its library is being unloaded.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable

from nnvk.base import forks
from nnvk.base.background import in_background
from nnvk.base.errors import NnapiError
from nnvk.base.log import logger

_log = logger("driver")


class _Compilations:
    """The compilations that are under way."""

    def __init__(self) -> None:
        self.renew()
        forks.renew_in_child(self)
        atexit.register(self.wait)

    def renew(self) -> None:
        """Begin without compilations; a forked child has none."""
        self._condition = threading.Condition()
        self.count = 0

    def wait(self) -> None:
        """Wait until no compilation is under way."""
        with self._condition:
            self._condition.wait_for(lambda: not self.count)

    def change(self, by: int) -> None:
        with self._condition:
            self.count += by
            self._condition.notify_all()


_running = _Compilations()


def compile_best(what: str, work: Callable[[], None]) -> None:
    """Call ``work`` in the background. If it fails, this is logged for ``what``, and nothing is replaced.

    ``work`` must compile with a `Watch` whose compilations are wanted as long as `is_time_left`.
    """

    def run() -> None:
        try:
            work()
        except (NnapiError, RuntimeError, MemoryError) as error:
            _log.info("%s: the plan that was compiled quickly stays: %s", what, error)
        finally:
            _running.change(-1)

    _running.change(1)
    try:
        in_background(run)
    except NnapiError as error:
        _running.change(-1)
        _log.info("%s: the plan that was compiled quickly stays: %s", what, error)


def is_time_left() -> bool:
    """Whether the interpreter goes on, as far as is known."""
    return threading.main_thread().is_alive()


def is_compiling() -> bool:
    """Whether a plan is being made or compiled in the background."""
    return _running.count > 0


def wait_for_best_plans() -> None:
    """Wait until no plan is being made or compiled in the background."""
    _running.wait()
