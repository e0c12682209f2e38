"""``nnvk check``."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from nnvk.api import get_devices
from nnvk.base.settings import override, settings
from nnvk.base.text import plural
from nnvk.check.checks import Kind, Result, Status, run_checks
from nnvk.check.device import Checked, in_a_process_of_its_own
from nnvk.check.report import Report
from nnvk.cli.lines import CHECK_FAILED, print_line
from nnvk.cli.modes import Reproducible
from nnvk.cli.output import check_writable, deliver, print_table, progress
from nnvk.cli.usage import JsonFile
from nnvk.loading.devices import find_device

MINUTES = 2.0
"""How long cases are run unless something else is asked for."""
CASE_SECONDS = 60.0
"""How long one case may take unless something else is asked for."""


def command(
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Check this device.", show_default="the preferred one"),
    ] = None,
    minutes: Annotated[
        float,
        typer.Option("--minutes", metavar="M", min=0.0, help="For how long to begin cases, the most used first."),
    ] = MINUTES,
    case_seconds: Annotated[
        float,
        typer.Option("--case-seconds", metavar="S", min=0.0, help="How long one case may take; 0: without limit."),
    ] = CASE_SECONDS,
    in_process: Annotated[
        bool,
        typer.Option("--in-process", help="Run the driver in this process, for a debugger. A crash ends the command."),
    ] = False,
    reproducible: Reproducible = False,
    json_file: JsonFile = None,
) -> None:
    """Check a device against the reference, shader by shader.

    Runs what the Vulkan driver takes for granted of devices, then operations of all types, each at a small and at a
    usual size, then the demo's models. Names the shaders of what fails. A case that crashes the driver fails, too,
    and so does one that takes too long.
    Exits with 1 where anything fails. The JSON has driver, device, limits and versions, but no path and no name of a
    user: attach it to a report.
    """
    check_writable(json_file)
    found = get_devices()[0] if device is None else find_device(device)
    checked = Checked(found if in_process else in_a_process_of_its_own(found), case_seconds)
    checks = checked.checks()
    started = time.monotonic()
    results: list[Result] = []
    failures = 0
    is_reproducible = reproducible or settings().reproducible
    with (
        override(reproducible=is_reproducible),
        progress(f"Checking {checked.device.name}", len(checks)) as advance,
    ):
        for result in run_checks(checks, 60 * minutes, checked.revive):
            results.append(result)
            failures += result.status is Status.FAILED
            advance(f"{plural(failures, 'failure')}, {result.check.name}")
    report = Report(checked.facts(), checked.avoided, results, time.monotonic() - started)
    deliver(json_file, report.as_json(), lambda: _print(checked, report))
    if failures:
        raise typer.Exit(CHECK_FAILED)


def _print(checked: Checked, report: Report) -> None:
    total = ", ".join(f"{report.count(status)} {status.value}" for status in Status)
    print_table(["device", "driver and version"], [[checked.device.name, checked.device.version]])
    print_line(f"{plural(len(report.results), 'check')} in {report.seconds:.1f} s: {total}")
    statuses = [status.value for status in Status]
    for kind, column in ((Kind.ASSUMPTION, "assumption"), (Kind.CASE, "operations"), (Kind.MODEL, "model")):
        rows = [
            [name, *(str(counts[status] or "") for status in Status)] for name, counts in report.by_name(kind).items()
        ]
        if rows:
            print_table([column, *statuses], rows, right=" ".join(status.replace(" ", "_") for status in statuses))
    _print_reasons(report)
    left = sum(not result.outcome.reason for result in report.with_status(Status.NOT_RUN))
    if left:
        why = "because the device was lost" if report.is_lost else "for lack of time: --minutes gives more"
        print_line(f"{plural(left, 'check')} not run {why}")
    if report.avoided:
        print_line(f"avoided (NNVK_AVOID_SHADERS): {', '.join(report.avoided)}")
    if report.suspects:
        print_line(f"to plan without the shaders that are likely wrong: NNVK_AVOID_SHADERS={','.join(report.suspects)}")


def _print_reasons(report: Report) -> None:
    """Print the failures, and the reasons for which checks were not run."""
    failed = report.with_status(Status.FAILED)
    rows = [
        [each.check.name, " ".join(each.outcome.shaders), each.check.details, each.outcome.reason] for each in failed
    ]
    if rows:
        print_table(["operations", "shaders", "types and sizes", "first difference"], rows, title="Failed")
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in report.with_status(Status.UNSUPPORTED, Status.NOT_RUN):
        if each.outcome.reason:
            names = reasons.setdefault((each.status.value, each.outcome.reason), [])
            names += [each.check.name] if each.check.name not in names else []
    for (status, reason), names in reasons.items():
        print_line(f"{status}: {', '.join(names)}: {reason}")
