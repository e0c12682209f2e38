"""``nnvk conformance``."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nnvk.api import get_devices
from nnvk.base.text import did_you_mean, plural
from nnvk.cli.lines import CHECK_FAILED, print_line
from nnvk.cli.output import check_writable, deliver, print_table, progress
from nnvk.cli.usage import JsonFile
from nnvk.conformance.export import export, find_sets
from nnvk.conformance.paths import EXECUTION_PATHS
from nnvk.conformance.pool import Result, run_cases
from nnvk.conformance.runner import Status, connect
from nnvk.conformance.vectors import find_cases
from nnvk.loading.devices import find_device

MOST_JOBS = 8
"""Processes that are started unasked: each opens the device and takes some of its memory."""


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Vector files, or folders of them.")],
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Run on exactly this device.", show_default="the preferred one"),
    ] = None,
    pattern: Annotated[
        str,
        typer.Option(
            "--filter",
            metavar="REGEX",
            help="Only tests whose name, SET/SPEC/TEST, or operation has this in it, ignoring case.",
        ),
    ] = "",
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            min=0,
            help="Processes; 0: only this one.",
            show_default=f"one per processor, at most {MOST_JOBS}",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long a test may take.")
    ] = 120.0,
    checkout: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="AOSP_FOLDER",
            help="Run nothing, but make vectors in the folder PATH out of a checkout of AOSP's NeuralNetworks.",
        ),
    ] = None,
    execution_path: Annotated[
        str, typer.Option("--path", metavar="NAME", help=f"How to execute: {', '.join(EXECUTION_PATHS)}.")
    ] = "sync",
    json_file: JsonFile = None,
) -> None:
    """Run conformance vectors on one device.

    Nothing falls back to another device: a test with an operation that the device doesn't support is
    counted as unsupported. Exits with 1 where a test fails. A test that crashes or hangs has failed, the
    others go on.
    """
    if execution_path not in EXECUTION_PATHS:
        hint = did_you_mean(execution_path, EXECUTION_PATHS)
        raise ValueError(f"there is no execution path {execution_path!r}; there are {', '.join(EXECUTION_PATHS)}{hint}")
    check_writable(json_file)
    if checkout is not None:
        _export(checkout, paths, json_file)
        return
    name = find_device(device).name if device else get_devices()[0].name
    cases = find_cases(paths, pattern)
    started = time.monotonic()
    results: list[Result] = []
    failures = 0
    with progress(f"Conformance of {name}", len(cases)) as advance:
        for result in run_cases(
            cases,
            partial(connect, name, execution_path),
            jobs=min(len(os.sched_getaffinity(0)), MOST_JOBS) if jobs is None else jobs,
            timeout=timeout,
        ):
            results.append(result)
            failures += result.verdict.status is Status.FAILED
            advance(plural(failures, "failure"))
    results.sort(key=lambda result: result.case.name)
    seconds = time.monotonic() - started
    deliver(json_file, _report(name, execution_path, results, seconds), lambda: _print(name, results, seconds))
    if failures:
        raise typer.Exit(CHECK_FAILED)


def _export(checkout: Path, paths: Sequence[Path], json_file: Path | None) -> None:
    """Make vectors, a folder for each set of specs, and show how many."""
    if len(paths) != 1:
        raise ValueError("--export takes one PATH, the folder for the vectors")
    sets = find_sets(checkout)
    counts: dict[str, dict[str, int]] = {}
    with progress("Exporting", len(sets)) as advance:
        for specs in sets:
            written = (line.rpartition(": ") for line in export(checkout, specs, paths[0]))
            counts[specs.name] = {spec: int(count) for spec, _, count in written}
            advance(specs.name)

    def show() -> None:
        rows = [[name, str(len(specs)), str(sum(specs.values()))] for name, specs in counts.items()]
        print_table(["set", "specs", "tests"], rows, right="specs tests")

    deliver(json_file, {"sets": counts}, show, paths[0])


def _with_status(results: Sequence[Result], status: Status) -> list[Result]:
    return [result for result in results if result.verdict.status is status]


def _report(device: str, execution_path: str, results: Sequence[Result], seconds: float) -> Mapping[str, object]:
    report: dict[str, object] = {"device": device, "path": execution_path, "seconds": round(seconds, 3)}
    for status in Status:
        report[status.value] = [result.case.name for result in _with_status(results, status)]
    report["reasons"] = {result.case.name: result.verdict.reason for result in results if result.verdict.reason}
    return report


def _print(device: str, results: Sequence[Result], seconds: float) -> None:
    total = Counter(result.verdict.status for result in results)
    summary = ", ".join(f"{total[status]} {status.value}" for status in Status)
    print_line(f"{device}: {plural(len(results), 'test')}, {summary} in {seconds:.1f} s")
    counts: dict[str, Counter[Status]] = {}
    for result in results:
        counts.setdefault(result.case.operation, Counter())[result.verdict.status] += 1
    rows = [[operation, *(str(count[status]) for status in Status)] for operation, count in sorted(counts.items())]
    columns = ["operation", *(status.value for status in Status)]
    print_table(columns, rows, right=" ".join(columns[1:]))
    for result in _with_status(results, Status.FAILED):
        print_line(f"FAILED {result.case.name}: {result.verdict.reason}")
