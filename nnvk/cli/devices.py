"""``nnvk devices``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nnvk.api import Device, get_devices, unavailable
from nnvk.cli.lines import print_line
from nnvk.cli.output import print_json, print_table


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the devices, and why one is absent.

    The first is the one that nnvk prefers.
    """
    devices, reasons = get_devices(), unavailable()
    if as_json:
        print_json({"devices": [_describe(device) for device in devices], "unavailable": reasons})
        return
    rows = [[device.name, device.type.name, device.version, device.feature_level.name] for device in devices]
    print_table(["device", "type", "version", "feature level"], rows)
    for reason in reasons:
        print_line(f"not available: {reason}")


def _describe(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "type": device.type.name,
        "version": device.version,
        "feature_level": int(device.feature_level),
        "extensions": list(device.extensions),
        "capabilities": {
            "relative_time": device.capabilities.relative_time,
            "relative_power": device.capabilities.relative_power,
        },
    }
