"""Verified executions: the option, and the counts of what was found wrong."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Literal

from nnvk.base.checks import flag
from nnvk.types.request import Redundancy

Verified = bool | Literal["all", "repair"]
"""Whether devices check their results.

``"all"``: they compute everything twice, in place of checksums and bounds. ``"repair"``: a wrong result is computed
again.
"""
ALL: Literal["all"] = "all"
REPAIR: Literal["repair"] = "repair"


def verified_option(value: Verified) -> Verified:
    """The option, checked. TypeError or BAD_DATA: it is neither a truth value, nor "all", nor "repair"."""
    if isinstance(value, str) and value in (ALL, REPAIR):
        return value
    return flag(f'verified (True, False, "{ALL}" or "{REPAIR}")', value)


def verified_setting(value: str) -> Verified:
    """The option as the variable ``NNVK_VERIFIED`` has it."""
    return verified_option(value) if value in (ALL, REPAIR) else value == "1"


def redundancy_of(verified: Verified) -> Redundancy:
    """The redundancy that the option asks of devices."""
    if verified == ALL:
        return Redundancy.DUPLICATION
    return Redundancy.CHECKSUMS if verified else Redundancy.NONE


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of this process."""

    failed_verifications: int = 0
    """Executions on a device, each try of them, whose results turned out to be wrong."""
    repaired_by_device: int = 0
    """Executions that the same device did again by other strategies, with a result that is right."""
    repaired_by_cpu: int = 0
    """Executions that the CPU reference took over because the device failed again."""


_stats = Stats()
_lock = threading.Lock()


def stats() -> Stats:
    """The counts of this process so far."""
    return _stats


def count(*, failed: int = 0, by_device: int = 0, by_cpu: int = 0) -> None:
    """Add to the counts."""
    global _stats
    with _lock:
        _stats = replace(
            _stats,
            failed_verifications=_stats.failed_verifications + failed,
            repaired_by_device=_stats.repaired_by_device + by_device,
            repaired_by_cpu=_stats.repaired_by_cpu + by_cpu,
        )
