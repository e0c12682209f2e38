"""The limits that the operating system sets for this process."""

from __future__ import annotations

import errno
import os
import select


def cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def can_open(count: int) -> bool:
    """Whether this number of descriptors can still be opened."""
    opened: list[int] = []
    try:
        for _ in range(count):
            opened.append(os.open("/", os.O_PATH | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return True


def poll(descriptor: int, events: int, milliseconds: float | None) -> int:
    """Wait for POLLIN or POLLOUT of a descriptor, without limit if ``milliseconds`` is None.

    Returns the events that happened, or 0.

    OSError, ValueError: it is no descriptor.
    """
    waiting = select.poll()
    waiting.register(descriptor, events)
    try:
        return sum(happened for _, happened in waiting.poll(milliseconds))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    # poll() takes no more descriptors than RLIMIT_NOFILE, which may be 0; select() takes those that are open.
    to_read, to_write = ([descriptor] if events & event else [] for event in (select.POLLIN, select.POLLOUT))
    seconds = None if milliseconds is None else milliseconds / 1000
    readable, writable, _ = select.select(to_read, to_write, [], seconds)
    return (select.POLLIN if readable else 0) | (select.POLLOUT if writable else 0)
