"""Common code of the benchmarks: options, interleaved timing, and reports on the terminal and on disk."""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib.metadata
import json
import math
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import history
import numpy as np

import nnvk
from nnvk.base.machine import processor
from nnvk.base.text import milliseconds
from nnvk.cli.output import print_table, write_json
from nnvk.driver.vulkan import VulkanDevice
from nnvk.insight.limits import Limits

PACKAGES = ("nnvk", "numpy", "ai-edge-litert", "ncnn")
SECTIONS = (
    "hot_path",
    "layers",
    "models",
    "delegate",
    "operations",
    "types",
    "kernels",
    "tuned",
    "tokens",
    "first_result",
)
"""The order of a report."""

Run = Callable[[], object]
"""The measured function: from inputs on the host to outputs on the host."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure."""

    seconds: float
    """For each contender."""
    least: int
    """Runs of each contender, however long they take."""
    turn_seconds: float = 0.03
    """How long a contender goes on before the next has its turn."""
    most: float = math.inf
    """Runs after which a contender is done."""

    def is_done(self, runs: int, nanoseconds: int) -> bool:
        """Whether a contender has had enough."""
        return runs >= self.most or (nanoseconds >= self.seconds * 1e9 and runs >= self.least)


QUICK = Effort(seconds=0.0, least=2, turn_seconds=0.0)


@dataclass(frozen=True, slots=True)
class Times:
    """Durations of one contender's counted runs, in nanoseconds."""

    runs: np.ndarray

    @property
    def median(self) -> float:
        """The middle one."""
        return float(np.median(self.runs))

    @property
    def minimum(self) -> float:
        """The least disturbed one."""
        return float(self.runs.min())

    def figures(self) -> dict[str, float | int]:
        """The figures that reports keep, in milliseconds."""
        p90 = float(np.percentile(self.runs, 90))
        values = {"median_ms": self.median, "min_ms": self.minimum, "p90_ms": p90}
        return {"runs": len(self.runs), **{name: round(value / 1e6, 5) for name, value in values.items()}}


RUNS_OF_A_TURN = 20
"""The number of runs that `alternate` does in a turn."""


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the garbage collector out of what is timed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def interleave(contenders: Mapping[str, Run], effort: Effort) -> dict[str, Times]:
    """Time contenders in turns, so that the noise of the machine hits all of them alike.

    The turn is always with the one that has had the least time so far. A turn begins with a run that isn't counted:
    it finds the caches full of another's data, and another's threads still spinning.
    """
    runs: dict[str, list[int]] = {name: [] for name in contenders}
    used = dict.fromkeys(contenders, 0)
    with _no_collector():
        while waiting := [name for name in contenders if not effort.is_done(len(runs[name]), used[name])]:
            name = min(waiting, key=lambda name: used[name])
            began = time.perf_counter_ns()
            runs[name] += _turn(contenders[name], effort, first=not runs[name])
            used[name] += time.perf_counter_ns() - began
    most = int(min(effort.most, max(map(len, runs.values()))))
    return {name: Times(np.array(values[:most])) for name, values in runs.items()}


def _turn(run: Run, effort: Effort, *, first: bool) -> list[int]:
    warm_up = timed(run)
    # A run that takes longer than a turn warms itself up.
    counted = [warm_up] if not first and warm_up > effort.turn_seconds * 1e9 > 0 else [timed(run)]
    while sum(counted) < effort.turn_seconds * 1e9:
        counted.append(timed(run))
    return counted


@dataclass(frozen=True, slots=True)
class Turns:
    """One contender's runs, many in a row in each turn."""

    first: Times
    """The first of each turn, which finds caches, processes and cores as others and a pause have left them."""
    following: Times
    """Those after it, as in a loop."""


def alternate(contenders: Mapping[str, Run], runs: int) -> dict[str, Turns]:
    """Time short contenders, at least ``runs`` of each, in turns of `RUNS_OF_A_TURN` in a row."""
    for run in contenders.values():
        for _ in range(RUNS_OF_A_TURN):
            run()
    timings: dict[str, list[list[int]]] = {name: [] for name in contenders}
    order = list(contenders)
    with _no_collector():
        for _ in range(-(-runs // RUNS_OF_A_TURN)):
            for name in order:
                timings[name].append([timed(contenders[name]) for _ in range(RUNS_OF_A_TURN)])
            order.append(order.pop(0))
    arrays = {name: np.array(values) for name, values in timings.items()}
    return {name: Turns(Times(array[:, 0]), Times(array[:, 1:].ravel())) for name, array in arrays.items()}


def timed(run: Run) -> int:
    """Nanoseconds that one run takes."""
    began = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - began


# --- reports ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a report, its cells as they are printed."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    """How many columns, from the first, are text; the others are aligned right."""
    note: str = ""

    def print(self) -> None:
        """Print it, as a table or as aligned text."""
        right = " ".join(name.replace(" ", "_") for name in self.columns[self.left :])
        print()
        print_table(self.columns, self.rows, title=self.title, right=right)
        if self.note:
            print(self.note)


@dataclass(frozen=True, slots=True)
class Section:
    """The results of one benchmark on one device."""

    name: str
    """The name of the benchmark, one of `SECTIONS`."""
    title: str
    tables: Sequence[Table]
    figures: Mapping[str, Any]
    """The numbers, for programs."""
    failures: Sequence[str] = field(default=())
    """Limits that were not kept."""


def ratio(value: float, of: float) -> str:
    """How many times as long as another."""
    return f"{value / of:.2f}" if of else "-"


def cell(times: Times | None) -> str:
    """A median."""
    return milliseconds(None if times is None else times.median)


def options(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", metavar="NAME", help="measure this device of nnvk (the preferred one)")
    parser.add_argument("--runs", type=int, metavar="N", help="runs of each measurement")
    parser.add_argument("--seconds", type=float, metavar="S", help="time for each measurement; with --runs, the first")
    parser.add_argument("--quick", action="store_true", help="a run or two of everything, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument(
        "--save",
        nargs="?",
        type=Path,
        const=history.RESULTS,
        metavar="FOLDER",
        help="put the tables into the device's report",
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is not kept")
    return parser


def effort_of(arguments: argparse.Namespace, default: Effort) -> Effort:
    """How long to measure, as the command line says."""
    if arguments.quick:
        return QUICK
    if arguments.runs is None and arguments.seconds is None:
        return default
    limits = Limits.of(arguments.runs, arguments.seconds)
    return Effort(limits.seconds, limits.least, default.turn_seconds, limits.runs)


def device_of(arguments: argparse.Namespace, *, vulkan: bool = True) -> nnvk.Device:
    """The device that the command line names. Exits with 2 where there is none, or it is no Vulkan device."""
    try:
        device = nnvk.get_device(arguments.device) if arguments.device else nnvk.get_devices()[0]
    except nnvk.NnapiError as error:
        give_up(str(error))
    if vulkan and device.type is not nnvk.DeviceTypeCode.GPU:
        give_up(f"{device.name} is no Vulkan device" + "".join(f"; {reason}" for reason in nnvk.unavailable()))
    return device


def driver_of(device: nnvk.Device) -> VulkanDevice:
    """The driver's side of a Vulkan device."""
    assert isinstance(device.driver, VulkanDevice)
    return device.driver


def give_up(reason: str) -> NoReturn:
    """Say why there is nothing to measure."""
    print(f"{Path(sys.argv[0]).name}: {reason}", file=sys.stderr)
    sys.exit(2)


def report(section: Section, device: nnvk.Device, arguments: argparse.Namespace) -> int:
    """Print a section and write it where the command line says; the exit status."""
    return report_all([section], device, arguments)


def report_all(sections: Sequence[Section], device: nnvk.Device, arguments: argparse.Namespace) -> int:
    """The same of several sections."""
    environment = environment_of(device)
    for section in sections:
        for table in section.tables:
            table.print()
        for failure in section.failures:
            print(f"\nLimit not kept: {failure}")
    if arguments.json is not None:
        figures = {key: value for section in sections for key, value in section.figures.items()}
        write_json(arguments.json, {"environment": environment, **figures})
    if arguments.save is not None:
        for section in sections:
            save(section, environment, arguments.save)
    return 1 if arguments.check and any(section.failures for section in sections) else 0


def environment_of(device: nnvk.Device) -> dict[str, Any]:
    """Where figures come from: they mean nothing without."""
    return {
        "device": device.version,
        "cpu": f"{processor()}, {os.cpu_count()} cores",
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES if _version(name)},
        "measured": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def save(section: Section, environment: Mapping[str, Any], folder: Path) -> None:
    """Replace one section of the device's report, and write it anew: JSON, its history, and Markdown made from both."""
    name = device_name(environment["device"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file_name(name)}.json"
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    content[section.name] = {**asdict(section), "environment": environment}
    content = {key: content[key] for key in SECTIONS if key in content}
    write_json(path, content)
    new = history.records_of(section.name, section.figures, environment, history.version())
    records = history.add(path.with_suffix(history.SUFFIX), new)
    path.with_suffix(".md").write_text(_markdown(name, content, records), encoding="utf-8")
    print(f"\nWritten: {path.with_suffix('.md')}")


def device_name(version: str) -> str:
    """The physical device's own name, from what `nnvk.Device.version` says."""
    return re.split(r" \(|, ", version)[0]


def file_name(device: str) -> str:
    """A device's name as a file's."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def _markdown(device: str, content: Mapping[str, Any], records: Sequence[history.Record]) -> str:
    lines = [f"# {device}", "", "<!-- Written by the benchmarks (--save): don't edit, run them. -->"]
    for section in content.values():
        environment = section["environment"]
        packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
        lines += [
            "",
            f"## {section['title']}",
            "",
            f"{environment['measured']}. {environment['device']}. {environment['cpu']}, load average "
            f"{environment['load_average']}. Python {environment['python']}, {packages}.",
        ]
        for table in section["tables"]:
            lines += ["", f"### {table['title']}", "", *_table(table["columns"], table["rows"], table["left"])]
            if table["note"]:
                lines += ["", table["note"]]
        for failure in section["failures"]:
            lines += ["", f"**Limit not kept:** {failure}"]
    rows = history.summary(records, {name: section["title"] for name, section in content.items()})
    lines += ["", "## History", "", *_table(history.SUMMARY, rows, left=3)]
    return "\n".join(lines) + "\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> list[str]:
    rule = ["---"] * left + ["--:"] * (len(columns) - left)
    return [f"| {' | '.join(row)} |" for row in (columns, rule, *rows)]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return nnvk.__version__ if package == "nnvk" else ""
