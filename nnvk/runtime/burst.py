"""Burst: a rapid sequence of executions."""

from __future__ import annotations

import threading

from nnvk.base.checks import instance
from nnvk.base.errors import bad_state, driving
from nnvk.base.pinned import Pinned
from nnvk.hal import IBurst
from nnvk.runtime.compilation import Compilation


class Burst(Pinned):
    """A lane for a rapid sequence of executions of one compilation (``ANeuralNetworksBurst``).

    At most one execution is in it at a time. BAD_STATE: the compilation is not finished.
    """

    def __init__(self, compilation: Compilation) -> None:
        single = instance("the compilation", compilation, Compilation).plan.single
        self.compilation = compilation
        """The compilation of its executions."""
        self.lane: IBurst | None = None
        """The driver's burst if one device runs the whole model, otherwise None."""
        if single is not None:
            with driving(f"{single.device.name} has no burst"):
                self.lane = single.prepared.configure_execution_burst()
        self._busy = threading.Lock()

    def enter(self) -> None:
        """Take the lane. BAD_STATE: another execution is in it."""
        if not self._busy.acquire(blocking=False):
            raise bad_state("another execution is under way in the burst")

    def leave(self) -> None:
        """Free the lane."""
        self._busy.release()
