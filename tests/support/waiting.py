"""Waiting for what other threads do."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], object]) -> bool:
    """Whether something becomes true in time."""
    give_up = time.monotonic() + 10
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.001)
    return bool(condition())
