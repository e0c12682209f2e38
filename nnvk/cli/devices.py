"""``nnvk devices``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from nnvk.api import enumerate_vulkan, get_devices, unavailable
from nnvk.cli.lines import print_line
from nnvk.cli.output import check_writable, deliver, print_table
from nnvk.cli.usage import JsonFile
from nnvk.driver.vulkan import Enumeration


def command(
    show_all: Annotated[
        bool,
        typer.Option("--all", help="Show all that Vulkan has: devices that are not used, drivers, and the reasons."),
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """List the devices, and why one is absent.

    The first is the one that nnvk prefers.
    """
    check_writable(json_file)
    every = enumerate_vulkan() if show_all else None
    content = {} if every is None else {"vulkan": asdict(every)}
    deliver(json_file, {"unavailable": unavailable(), **content}, lambda: _print(every))


def _print(every: Enumeration | None) -> None:
    rows = [[one.name, one.type.name, str(int(one.feature_level) % 1000), one.version] for one in get_devices()]
    print_table(["device", "type", "level", "driver and version"], rows)
    for reason in unavailable():
        print_line(f"not available: {reason}")
    if every is not None:
        _print_enumeration(every)


def _print_enumeration(every: Enumeration) -> None:
    if every.failure and not any(every.failure in reason for reason in unavailable()):
        print_line(f"Vulkan does not start: {every.failure}")
    if every.devices:
        rows = [[one.device or "", one.name, one.type, one.vulkan, one.driver, one.problem] for one in every.devices]
        columns = ["device", "physical device", "type", "Vulkan", "driver", "problem"]
        print_table(columns, rows, title="Vulkan's devices", optional="problem")
    if every.drivers:
        rows = [[one.manifest, ", ".join(one.devices), one.problem] for one in every.drivers]
        of = f", as {every.listed_by} names them" if every.listed_by else ""
        print_table(["manifest", "devices", "problem"], rows, title=f"Vulkan's drivers{of}")
