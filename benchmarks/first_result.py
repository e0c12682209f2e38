"""Measure the time from the start of a process to the first result of a model, and what it is spent on.

    python benchmarks/first_result.py FOLDER_OR_MODEL ... [--device NAME] [--runs N] [--save]

Models are found as in `models.py`. Every run is a new process. Its caches are in new folders, except in a run whose
case says otherwise. Processor time hardly depends on other load on the machine; it exceeds the time from start to
result where several cores compile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from harness import Section, Table, Times, device_of, options, report
from models import parse_with_models

import nnvk
from nnvk.cli.output import progress

RUNS = 3
"""Runs of each case."""
MOST_FIRST = 1.5
"""The limit of the first execution's time, relative to the second one's."""
LEAST_S = 0.01
"""The first execution may take this much longer than the second one at any rate: it touches memory."""
PARTS = ("package", "model", "compilation", "first", "second")
"""The parts of a run: imports of the package and of the model, the compilation, and two executions."""
_RUN = """
import json, sys, time
sys.path[:] = [folder for folder in sys.path if folder]  # the source tree would hide the installed package
begin = time.perf_counter()
import nnvk
from nnvk.importers import tflite
imported = time.perf_counter()
model = tflite.load(sys.argv[1]).model
loaded = time.perf_counter()
import numpy as np
compilation = nnvk.Compilation(model, [nnvk.get_device(sys.argv[2])])
compilation.finish()
compiled = time.perf_counter()
inputs = [np.zeros(type_.dimensions, type_.dtype) for type_ in model.frozen.input_types()]
seconds = []
for _ in range(2):
    start = time.perf_counter()
    nnvk.run(compilation, inputs)
    seconds.append(time.perf_counter() - start)
    cpu = time.process_time() if len(seconds) == 1 else cpu
print(json.dumps([imported - begin, loaded - imported, compiled - loaded, *seconds, cpu]))
"""


@dataclass(frozen=True, slots=True)
class Case:
    """The circumstances of a run."""

    name: str
    settings: Mapping[str, str]
    """Environment variables beside those of the caches."""
    processes: int = 1
    """The processes with the same caches, the last of which counts."""


CASES = (
    Case("nothing kept", {}),
    Case("second process", {}, processes=2),
    Case("driver's cache off", {"MESA_SHADER_CACHE_DISABLE": "true"}),
    Case("fast, nothing kept", {"NNVK_COMPILE": "fast"}),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of a case: seconds of each of `PARTS`, and of the processor until the first result."""

    runs: np.ndarray

    @property
    def total(self) -> Times:
        """From the start to the first result."""
        return Times(self.runs[:, :4].sum(1) * 1e9)

    @property
    def cpu_s(self) -> float:
        """The median of the processor time."""
        return float(np.median(self.runs[:, 5]))

    def part_s(self, name: str) -> float:
        """The median of one of `PARTS`."""
        return float(np.median(self.runs[:, PARTS.index(name)]))


def measure(path: Path, device: str, case: Case, runs: int) -> Measured:
    """The runs of a case."""
    rows = []
    for _ in range(runs):
        with TemporaryDirectory(prefix="nnvk-first-") as folder:
            caches = {"NNVK_CACHE_DIR": f"{folder}/nnvk", "MESA_SHADER_CACHE_DIR": f"{folder}/mesa"}
            environment = {**os.environ, **caches, **case.settings}
            for _ in range(case.processes):
                row = _run(path, device, environment)
            rows.append(row)
    return Measured(np.array(rows))


def _run(path: Path, device: str, environment: Mapping[str, str]) -> list[float]:
    command = [sys.executable, "-c", _RUN, str(path), device]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    seconds: list[float] = json.loads(done.stdout)
    return seconds


def table(results: Mapping[str, Mapping[str, Measured]]) -> Table:
    """Times of all cases."""
    rows = [
        [
            model,
            case,
            f"{one.total.median / 1e9:.2f}",
            f"{one.cpu_s:.2f}",
            *(f"{one.part_s(part):.3f}" for part in PARTS),
        ]
        for model, cases in results.items()
        for case, one in cases.items()
    ]
    return Table(
        "Time to the first result in s",
        ["model", "case", "total", "processor", *PARTS],
        rows,
        left=2,
        note="Medians. The total has no part of the second execution.",
    )


def failures(results: Mapping[str, Mapping[str, Measured]]) -> list[str]:
    """The limits that are not kept."""
    return [
        f"{model}, {case}: the first execution takes {one.part_s('first'):.3f} s, the second {one.part_s('second'):.3f}"
        for model, cases in results.items()
        for case, one in cases.items()
        if one.part_s("first") > MOST_FIRST * one.part_s("second") + LEAST_S
    ]


def figures(results: Mapping[str, Mapping[str, Measured]]) -> dict[str, Any]:
    """The numbers."""
    return {
        model: {
            case: {
                **one.total.figures(),
                "processor_s": round(one.cpu_s, 3),
                **{f"{part}_s": round(one.part_s(part), 4) for part in PARTS},
            }
            for case, one in cases.items()
        }
        for model, cases in results.items()
    }


def measure_all(models: Sequence[tuple[str, Path]], device: nnvk.Device, runs: int) -> dict[str, dict[str, Measured]]:
    """All cases of all models."""
    results: dict[str, dict[str, Measured]] = {}
    with progress("Measuring", len(models) * len(CASES)) as advance:
        for name, path in models:
            results[name] = {}
            for case in CASES:
                results[name][case.name] = measure(path, device.name, case, runs)
                advance(f"{name}, {case.name}")
    return results


def main() -> int:
    """Measure the models of the command line."""
    parser = options("The time to the first result, in processes of their own.")
    arguments, models = parse_with_models(parser)
    device = device_of(arguments)
    runs = 1 if arguments.quick else arguments.runs or RUNS
    results = measure_all(models, device, runs)
    section = Section("first_result", "Time to the first result", [table(results)], figures(results), failures(results))
    return report(section, device, arguments)


if __name__ == "__main__":
    sys.exit(main())
