"""``nnvk devices``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from nnvk.api import get_devices, survey_vulkan, unavailable
from nnvk.cli.lines import print_line
from nnvk.cli.output import check_writable, deliver, print_table
from nnvk.cli.usage import JsonFile
from nnvk.driver.vulkan import Survey


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
    survey = survey_vulkan() if show_all else None
    content = {} if survey is None else {"vulkan": asdict(survey)}
    deliver(json_file, {"unavailable": unavailable(), **content}, lambda: _print(survey))


def _print(survey: Survey | None) -> None:
    rows = [[one.name, one.type.name, str(int(one.feature_level) % 1000), one.version] for one in get_devices()]
    print_table(["device", "type", "level", "driver and version"], rows)
    for reason in unavailable():
        print_line(f"not available: {reason}")
    if survey is not None:
        _print_survey(survey)


def _print_survey(survey: Survey) -> None:
    if survey.failure and not any(survey.failure in reason for reason in unavailable()):
        print_line(f"Vulkan does not start: {survey.failure}")
    if survey.devices:
        rows = [[one.device or "", one.name, one.type, one.vulkan, one.driver, one.problem] for one in survey.devices]
        columns = ["device", "physical device", "type", "Vulkan", "driver", "problem"]
        print_table(columns, rows, title="Vulkan's devices", optional="problem")
    if survey.drivers:
        rows = [[one.manifest, ", ".join(one.devices), one.problem] for one in survey.drivers]
        of = f", as {survey.listed_by} names them" if survey.listed_by else ""
        print_table(["manifest", "devices", "problem"], rows, title=f"Vulkan's drivers{of}")
