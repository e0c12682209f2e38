"""Observes how a driver compiles pipelines: the progress, and the pipelines that take too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nnvk.base.log import NOTABLE_S, logger
from nnvk.driver.vulkan.shaders.commands import Dispatch

_log = logger("driver")
_LOOKS = 4
"""Looks at the running compilations within the limit."""


@dataclass(slots=True, eq=False)
class _RunningCompilation:
    """A pipeline that a thread is compiling."""

    dispatch: Dispatch
    cpu_s: float = 0.0
    """Its share of the processor time of the process."""


class Watch:
    """Observes the compilation of a plan's pipelines.

    A pipeline takes too long by processor time, because other load on the machine must not count. Threads that compile
    at the same time share what the process uses. A pipeline never gets more than the time that has passed.
    """

    def __init__(
        self,
        device: str = "the device",
        limit_s: float = 0,
        progress: Callable[[int, int], None] | None = None,
        too_slow: Callable[[Dispatch], str] | None = None,
        is_wanted: Callable[[], bool] | None = None,
    ) -> None:
        """``progress`` gets the number of finished steps and of all steps, on the thread that compiles a model.

        ``too_slow`` gets the dispatch of a pipeline that takes more than ``limit_s`` seconds, once, and returns what
        follows from that, for the log. 0: there is no limit. If ``is_wanted`` is given, the plan is compiled in the
        background, and compilations that are not wanted any more do not begin.
        """
        self.device = device
        """The name of the device, for the log."""
        self._limit_s = limit_s
        self._progress = progress
        self._too_slow = too_slow
        self._is_wanted = is_wanted
        self._lock = threading.Lock()
        self._running: list[_RunningCompilation] = []
        self._last = 0.0, 0.0
        self._named: set[int] = set()

    @property
    def in_background(self) -> bool:
        """Whether the plan is compiled while another one is executed."""
        return self._is_wanted is not None

    @property
    def patience_s(self) -> float | None:
        """The seconds that a thread waits at most before it calls `look`; None if there is no limit."""
        return self._limit_s / _LOOKS or None

    @contextmanager
    def compiling(self, dispatch: Dispatch) -> Iterator[None]:
        """The block compiles the pipeline of a dispatch. RuntimeError: that is not wanted any more."""
        if self._is_wanted is not None and not self._is_wanted():
            raise RuntimeError("nobody needs the pipelines any more")
        begin, running = time.monotonic(), _RunningCompilation(dispatch)
        with self._lock:
            self._share()
            self._running.append(running)
        try:
            yield
        finally:
            self.look()
            with self._lock:
                self._running.remove(running)
            seconds = time.monotonic() - begin
            if seconds >= NOTABLE_S:
                _log.info("%s: a pipeline of shader %s took %.1f s", self.device, dispatch.shader.name, seconds)

    def look(self) -> None:
        """Name the pipelines that take too long."""
        with self._lock:
            self._share()
            if not self._limit_s:
                return
            slow = [each.dispatch for each in self._running if each.cpu_s >= self._limit_s]
            slow = [dispatch for dispatch in slow if id(dispatch) not in self._named]
            self._named.update(map(id, slow))
        for dispatch in slow:
            follows = "" if self._too_slow is None else self._too_slow(dispatch)
            message = "%s: the driver takes more than %g s to compile a pipeline of shader %s%s"
            _log.warning(message, self.device, self._limit_s, dispatch.shader.name, follows and f"; {follows}")

    def progressed(self, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` steps are finished."""
        if self._progress is not None:
            self._progress(done, total)

    def _share(self) -> None:
        """Share the processor time since the last call among the running compilations."""
        passed, used = time.monotonic() - self._last[0], time.process_time() - self._last[1]
        self._last = time.monotonic(), time.process_time()
        for each in self._running:
            each.cpu_s += min(passed, used / len(self._running))
