"""Processes at their last descriptors."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited(count: int, pid: int = 0) -> Iterator[None]:
    """Leave a process, which is this one for 0, so many free descriptors."""
    folder = f"/proc/{pid or 'self'}/fd"
    # One of this process's own descriptors is that of the list.
    used = {int(name) for name in os.listdir(folder) if os.path.lexists(f"{folder}/{name}")}
    limit = 0
    while count > 0 or limit in used:
        count -= limit not in used
        limit += 1
    with lowered(limit, pid):
        yield


@contextmanager
def lowered(limit: int, pid: int = 0) -> Iterator[None]:
    """Set a process's limit of descriptors, of which more may be open."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
