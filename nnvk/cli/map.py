"""``nnvk map``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from nnvk.api import get_devices
from nnvk.base.text import plural
from nnvk.batch.classes import CLASSES, write_classes
from nnvk.batch.failures import ERRORS
from nnvk.batch.mapping import ENGINES, IN_FLIGHT, Outcome, map_files
from nnvk.batch.task import Task
from nnvk.cli.importing import DEFAULT, Importing, note, note_image, takes_options
from nnvk.cli.lines import CHECK_FAILED, print_line
from nnvk.cli.modes import has_modes
from nnvk.cli.output import check_writable, counted, deliver, print_table
from nnvk.cli.ranking import print_rankings, ranking_json
from nnvk.cli.usage import JsonFile
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.insight.classes import Ranker, Ranking, read_labels
from nnvk.loading.devices import find_device, is_auto

SHOWN = 20
"""Errors and classes that are printed; files have all."""


@has_modes
@takes_options
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.")],
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="INPUT", help="Images, .npy and .npz arrays, Parquet files, or folders of these."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the results go, or are already.")],
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, help="Rows in one execution.")] = 1,
    devices: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="NAME", help="Run on this device, or auto.", show_default="all GPUs"),
    ] = None,
    in_flight: Annotated[
        int, typer.Option("--in-flight", metavar="N", min=1, help="Executions at once on each device.")
    ] = IN_FLIGHT,
    engine: Annotated[
        str, typer.Option("--engine", metavar="NAME", help=f"What spreads the work: {' or '.join(ENGINES)}.")
    ] = ENGINES[0],
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="The names of the classes, one a line.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            metavar="K",
            min=1,
            help=f"Write the K best classes of each row to {CLASSES} in the folder, and print the first ones.",
            show_default="1 with --labels",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, help="Processes with --engine ray.", show_default="one per GPU"),
    ] = None,
    images: ImageOptions = AS_IS,
    importing: Importing = DEFAULT,
    json_file: JsonFile = None,
) -> None:
    """Run a model on many inputs, and keep the results in a folder.

    A file is a row, and so is each of an array that has one dimension more than the input, and each of a Parquet file,
    whose columns are numbers or the bytes of images. Rows with a result in the folder are not computed again. Exits
    with 1 if rows have failed; the other rows are computed.
    """
    check_writable(json_file)
    if engine == "ray" and len(devices or ()) > 1:
        raise ValueError("with --engine ray each process uses one device: give --device once, or not")
    auto = any(map(is_auto, devices)) if devices else is_auto(None)
    if auto and len(devices or ()) > 1:
        raise ValueError("--device auto is one device or a library: give no other --device")
    chosen = get_devices()[:1] if auto else list(dict.fromkeys(map(find_device, devices))) if devices else None
    task = Task(
        model,
        batch,
        shapes=importing.shapes,
        constants=importing.constants,
        round_hybrid=importing.round_hybrid,
        relaxed=importing.relaxed,
        images=images,
        auto=auto,
        say=note_image,
        tell=note,
    )
    names = None if labels is None else read_labels(labels)
    ranker = None if labels is None and top is None else Ranker(task.load().described, names)
    started = time.monotonic()
    with counted(f"Compiling {model.name}", f"Mapping {model.name}") as begin:
        outcome = map_files(
            task, inputs, out, devices=chosen, in_flight=in_flight, engine=engine, workers=workers, begin=begin
        )
    seconds = time.monotonic() - started
    ranked = [] if ranker is None else write_classes(out, ranker, top or 1)
    content = {
        "model": str(model),
        "folder": str(out),
        "done": outcome.done,
        "before": outcome.before,
        "seconds": round(seconds, 3),
        "failed": outcome.failed,
        **({} if ranker is None else {"classes": [{"row": name, **ranking_json(each)} for name, each in ranked]}),
        "failures": [{"row": failure.name, "reason": failure.reason} for failure in outcome.failures],
    }
    deliver(json_file, content, lambda: _print(out, outcome, seconds, ranked), out)
    if outcome.failed:
        raise typer.Exit(CHECK_FAILED)


def _print(out: Path, outcome: Outcome, seconds: float, ranked: Sequence[tuple[str, Ranking]]) -> None:
    before = f", {outcome.before} were there" if outcome.before else ""
    failed = f", {outcome.failed} failed" if outcome.failed else ""
    rate = f" ({outcome.done / seconds:.1f} a second)" if outcome.done else ""
    print_line(f"{plural(outcome.done, 'row')} done in {seconds:.1f} s{rate}{before}{failed}")
    if ranked:
        print_rankings("row", ranked[:SHOWN])
        more = outcome.done + outcome.before - SHOWN
        print_line(f"{f'and {more} more; ' if more > 0 else ''}all classes are in {out / CLASSES}")
    if outcome.failed:
        rows = [[failure.name, failure.reason] for failure in outcome.failures[:SHOWN]]
        print_table(["row", "error"], rows)
        more = outcome.failed - SHOWN
        print_line(f"{f'and {more} more; ' if more > 0 else ''}all errors are in {out / ERRORS}")
