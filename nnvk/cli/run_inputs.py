"""``nnvk run`` on a folder of inputs: a row of a table for each."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from nnvk.base.text import dimensions, plural
from nnvk.batch.input_rows import Reader, list_rows
from nnvk.cli.lines import FAILURE, REPORTED_ERRORS, Failures, print_line
from nnvk.cli.output import deliver, print_table, progress
from nnvk.cli.ranking import described, for_json, limits_cells, limits_of, print_rankings, ranking_json
from nnvk.inputs.images import UnfitInputError
from nnvk.insight.classes import Ranker, Ranking
from nnvk.loading import LoadedModel


def run_inputs(
    model: LoadedModel, folder: Path, ranker: Ranker | None, top: int, json_file: Path | None, failures: Failures
) -> None:
    """Run a model on each input of a folder and show the best classes, or the limits of outputs that have none.

    ValueError: the folder has no inputs, or the model takes no image. Exits with 2 if inputs have failed; the others
    are shown.
    """
    if ranker is None and len(model.outputs) == 1:
        with suppress(ValueError):
            ranker = Ranker(model.described)
    files = list_rows(model.reader, [folder])
    reader = Reader(model.reader)
    rankings: list[tuple[str, Ranking]] = []
    numbers: list[tuple[str, list[dict[str, Any]], list[list[str]]]] = []
    started = time.monotonic()
    with progress(f"Running {model.name}", sum(rows.count for rows in files)) as advance:
        for row in (row for rows in files for row in rows):
            name = os.path.relpath(row.name, folder)
            try:
                outputs = model.compute(reader.read(row))
                if ranker is not None:
                    rankings.append((name, ranker.best(outputs[0], top)))
                else:
                    numbers.append((name, *_numbers(model, outputs)))
            except UnfitInputError:
                raise
            except REPORTED_ERRORS as error:
                failures.add(error, what=name)
            advance(name)
    seconds = time.monotonic() - started
    done = len(rankings) + len(numbers)

    def show() -> None:
        where = f": {model.placement}" if done else ""
        failed = f", {failures.count} failed" if failures.count else ""
        print_line(f"{model.name}{where}")
        print_line(f"{plural(done, 'input')} in {seconds:.1f} s{failed}")
        if rankings:
            print_rankings("input", rankings)
        _print_numbers(numbers)

    content = {
        "model": model.name,
        "folder": str(folder),
        "inputs": [
            *({"input": name, **ranking_json(ranking)} for name, ranking in rankings),
            *({"input": name, "outputs": outputs} for name, outputs, _ in numbers),
        ],
        "failed": [{"input": what, "why": why} for what, why in failures.lines],
    }
    deliver(json_file, content, show)
    if failures.count:
        raise typer.Exit(FAILURE)


def _numbers(model: LoadedModel, outputs: Sequence[Any]) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """The outputs of an input, for programs and for a table."""
    values, cells = [], []
    for port, array in zip(model.outputs, map(described, outputs), strict=True):
        about = {"name": port.name, "type": port.elements, "dimensions": list(array.shape)}
        values.append({**about, **for_json(limits_of(array))})
        cells.append([port.name, f"{port.elements} {dimensions(array.shape)}", *limits_cells(array)])
    return values, cells


def _print_numbers(numbers: Sequence[tuple[str, Any, Sequence[Sequence[str]]]]) -> None:
    if numbers:
        rows = [["" if place else name, *cells] for name, _, each in numbers for place, cells in enumerate(each)]
        print_table(["input", "output", "type", "min", "max"], rows, right="min max")
