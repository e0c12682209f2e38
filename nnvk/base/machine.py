"""The machine that a measurement was made on, for people."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def processor() -> str:
    """The name of the processor, or of its architecture where the system does not say."""
    try:
        names = re.findall(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def describe_machine() -> str:
    """The processor, the number of cores that this process may use, and the system."""
    return f"{processor()}, {len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.release()}"
