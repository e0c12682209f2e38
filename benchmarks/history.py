"""The history of measurements by device and version: a .csv beside each device's report, and tables of it."""

from __future__ import annotations

import argparse
import csv
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import nnvk
from nnvk.base.text import milliseconds
from nnvk.cli.output import print_table

RESULTS = Path(__file__).resolve().parent / "results"
SUFFIX = ".history.csv"

COMPARED = {
    "hot_path": ("compute()", "submit and wait"),
    "layers": ("nnvk", "ncnn"),
    "models": ("vulkan", "LiteRT x1"),
    "delegate": ("delegate", "nnvk"),
    "operations": ("vulkan", "LiteRT"),
    "types": ("vulkan", "nnapi-reference"),
    "tuned": ("untuned", "tuned"),
}
"""The two contenders of each section: the first one's time is divided by the second one's. The names of contenders
begin like this; the fastest of several counts.
"""


@dataclass(frozen=True, slots=True)
class Record:
    """One median."""

    measured: str
    nnvk: str
    """The version, with the commit."""
    driver: str
    """The value of `nnvk.Device.version`."""
    load: str
    """The load average before."""
    section: str
    case: str
    contender: str
    median_ms: float

    @property
    def run(self) -> tuple[str, str, str]:
        """The key of a set of records: a version, on a driver, in a section."""
        return self.nnvk, self.driver, self.section


def version() -> str:
    """The version of nnvk, with the commit where this is a checkout, and a mark where it has been changed since."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(RESULTS.parent), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return ""

    commit = git("rev-parse", "--short=7", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", f":(exclude){RESULTS}")
    return nnvk.__version__ + (f"+{commit}" if commit else "") + (".changed" if changed else "")


def records_of(section: str, figures: Mapping[str, Any], environment: Mapping[str, Any], nnvk: str) -> list[Record]:
    """All medians of one section's figures, which nest to any depth."""
    origin = (environment["measured"], nnvk, environment["device"], str(environment["load_average"]))
    return [
        Record(*origin, section, " / ".join(path), contender, median) for *path, contender, median in _medians(figures)
    ]


def _medians(figures: Any, *path: str) -> Iterator[tuple[Any, ...]]:
    if isinstance(figures, Mapping):
        if "median_ms" in figures:
            yield *path, figures["median_ms"]
        else:
            for name, value in figures.items():
                yield from _medians(value, *path, name)


def read(path: Path) -> list[Record]:
    """A device's history, oldest first; none where there is no such file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return [Record(*texts, float(median)) for *texts, median in rows]


def add(path: Path, new: Sequence[Record]) -> list[Record]:
    """Put records into a device's history, in place of those of the same version, driver and section; all of it."""
    replaced = {record.run for record in new}
    records = [record for record in read(path) if record.run not in replaced] + list(new)
    records.sort(key=lambda record: record.measured)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Record))
        writer.writerows(map(astuple, records))
    return records


def ratios(records: Iterable[Record], ours: str, others: str) -> dict[str, float]:
    """The time of one contender divided by another's, for each case of one run."""
    found: dict[str, dict[str, float]] = {}
    for record in records:
        found.setdefault(record.case, {})[record.contender] = record.median_ms
    pairs = {case: (_fastest(times, ours), _fastest(times, others)) for case, times in found.items()}
    return {case: mine / theirs for case, (mine, theirs) in pairs.items() if mine and theirs}


def _fastest(times: Mapping[str, float], name: str) -> float | None:
    if name in times:
        return times[name]
    return min((value for contender, value in times.items() if contender.startswith(name)), default=None)


def runs(records: Iterable[Record], section: str) -> list[list[Record]]:
    """One section's records, apart by run, oldest first."""
    found: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.section == section:
            found.setdefault(record.run, []).append(record)
    return list(found.values())


def summary(records: Sequence[Record], titles: Mapping[str, str]) -> list[list[str]]:
    """A row for each run: the geometric mean of its ratios, which compare where times of two runs don't."""
    rows = []
    for section, (ours, others) in COMPARED.items():
        for run in runs(records, section):
            if values := ratios(run, ours, others).values():
                mean = math.exp(sum(map(math.log, values)) / len(values))
                first = run[0]
                compared = f"{ours} / {others}"
                title = titles.get(section, section)
                rows.append([title, first.measured, first.nnvk, first.load, str(len(values)), compared, f"{mean:.2f}"])
    return rows


SUMMARY = ("section", "measured", "nnvk", "load", "cases", "ratio", "geometric mean")
"""The columns of a `summary`."""


def _details(found: Sequence[Sequence[Record]], contender: str | None, over: str | None) -> list[list[str]]:
    """Rows for each case and contender, with a cell for each run."""
    keys = list(dict.fromkeys((record.case, record.contender) for run in found for record in run))
    if over is not None:
        by_run = [ratios(run, contender or "", over) for run in found]
        cases = dict.fromkeys(case for case, _ in keys)
        rows = [[case, *(f"{run[case]:.2f}" if case in run else "-" for run in by_run)] for case in cases]
        return [row for row in rows if set(row[1:]) != {"-"}]
    times = [{(record.case, record.contender): record.median_ms for record in run} for run in found]
    return [
        [f"{case}: {name}", *(milliseconds(run[case, name] * 1e6) if (case, name) in run else "-" for run in times)]
        for case, name in keys
        if contender is None or name.startswith(contender)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was measured over time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", nargs="?", help="the name of a report, such as llvmpipe; all, if left out")
    parser.add_argument("--section", choices=COMPARED, help="each case of this one")
    parser.add_argument("--contender", metavar="NAME", help="with --section: this one's times")
    parser.add_argument("--over", metavar="NAME", help="with --contender: divided by this one's in the same run")
    parser.add_argument("--last", type=int, default=5, metavar="N", help="with --section: the last N runs (5)")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where the reports are")
    options = parser.parse_args(arguments)
    if options.over is not None and options.contender is None:
        parser.error("--over needs --contender")
    paths = [path for path in sorted(options.folder.glob("*" + SUFFIX)) if options.device in (None, _device(path))]
    if not paths:
        print(f"{parser.prog}: no history in {options.folder}", file=sys.stderr)
        return 2
    for path in paths:
        records = read(path)
        if options.section is None:
            print_table(SUMMARY, summary(records, {}), title=_device(path), right="load cases geometric_mean")
            continue
        found = runs(records, options.section)[-options.last :]
        columns = ["case", *(f"{run[0].measured[:16]} {run[0].nnvk}" for run in found)]
        right = " ".join(name.replace(" ", "_") for name in columns[1:])
        print_table(columns, _details(found, options.contender, options.over), title=_device(path), right=right)
    return 0


def _device(path: Path) -> str:
    return path.name.removesuffix(SUFFIX)


if __name__ == "__main__":
    sys.exit(main())
