"""How a workload ends, for the harness and its tests."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Outcome(Enum):
    """How a workload ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    HANG = "hang"
    CRASH = "crash"


Run = Callable[..., tuple[Outcome, str]]
"""Runs a workload by name on devices in turn; its outcome and what it printed."""
