"""``nnvk devices``."""

from __future__ import annotations

from nnvk.api import get_devices, unavailable
from nnvk.cli.lines import print_line
from nnvk.cli.output import check_writable, deliver, print_table
from nnvk.cli.usage import JsonFile


def command(json_file: JsonFile = None) -> None:
    """List the devices, and why one is absent.

    The first is the one that nnvk prefers.
    """
    check_writable(json_file)
    deliver(json_file, {"unavailable": unavailable()}, _print)


def _print() -> None:
    rows = [[one.name, one.type.name, str(int(one.feature_level) % 1000), one.version] for one in get_devices()]
    print_table(["device", "type", "level", "driver and version"], rows)
    for reason in unavailable():
        print_line(f"not available: {reason}")
