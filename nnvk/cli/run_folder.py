"""``nnvk run`` on a folder: each model once, on random numbers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nnvk.base.text import milliseconds, plural, title
from nnvk.cli.importing import Importing
from nnvk.cli.lines import REPORTED_ERRORS, Failures, print_line
from nnvk.cli.models import find_models
from nnvk.cli.output import deliver, print_table, progress


def run_folder(
    folder: Path,
    device: str | None,
    fallback: bool,
    seed: int,
    importing: Importing,
    json_file: Path | None,
    failures: Failures,
) -> None:
    """Run the models of a folder and show a row for each; what fails is counted in ``failures``."""
    paths = find_models([folder])
    done: list[dict[str, Any]] = []
    own = importing.for_each(paths)
    with progress("Running", len(paths)) as advance:
        for path, options in zip(paths, own, strict=True):
            name = title(path, paths)
            try:
                model = options.open(path, device, fallback=fallback)
                arrays = model.random(seed)
                model.prepare(*arrays)
                started = time.perf_counter_ns()
                model.compute(arrays)
                elapsed = time.perf_counter_ns() - started
                compilations, placed = model.compilations, model.where()
            except REPORTED_ERRORS as error:
                failures.add(error, what=name)
            else:
                places = Counter(one.device for one in placed)
                row = {"model": name, "placement": dict(places), "first_execution_ns": elapsed}
                done.append({**row, "partitions": sum(len(one.plan.partitions) for one in compilations)})
            advance(name)
    failed = [{"model": what, "why": why} for what, why in failures.lines]
    deliver(json_file, {"seed": seed, "models": done, "failures": failed}, lambda: _print(done, failures))


def _print(done: Sequence[dict[str, Any]], failures: Failures) -> None:
    print_line(f"{plural(len(done), 'model')} ran on random numbers, {failures.count} could not")
    rows = [
        [
            one["model"],
            ", ".join(f"{count} on {name}" for name, count in one["placement"].items()),
            str(one["partitions"]),
            milliseconds(one["first_execution_ns"]),
        ]
        for one in done
    ]
    print_table(["model", "operations", "partitions", "first ms"], rows, right="partitions first_ms")
