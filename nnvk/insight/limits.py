"""How often and how long something is measured; the same for ``nnvk bench`` and for the benchmarks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
DEFAULT_RUNS = 100
DEFAULT_SECONDS = 10.0
"""Without --runs, no model is measured for longer than this, save for `LEAST_RUNS`."""
LEAST_RUNS = 5
"""Runs that are made however long they take, unless fewer are asked for."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Runs and seconds, of which that counts which is reached first."""

    runs: float
    seconds: float

    @classmethod
    def of(cls, runs: int | None, seconds: float | None) -> Limits:
        """The limits of ``--runs`` and ``--seconds``. An absent one does not limit; if both are absent, defaults do."""
        if runs is None and seconds is None:
            return cls(DEFAULT_RUNS, DEFAULT_SECONDS)
        return cls(math.inf if runs is None else runs, math.inf if seconds is None else seconds)

    @property
    def least(self) -> int:
        """Runs that are made in any case."""
        return int(min(self.runs, LEAST_RUNS))

    def repeat(self, action: Callable[[], T]) -> list[T]:
        """Return the results of ``action``, one for each time."""
        end = time.monotonic() + self.seconds
        values: list[T] = []
        while len(values) < self.runs and (len(values) < self.least or time.monotonic() < end):
            values.append(action())
        return values
