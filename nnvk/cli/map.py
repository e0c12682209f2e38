"""``nnvk map``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from nnvk.base.text import plural
from nnvk.batch.failures import ERRORS
from nnvk.batch.mapping import ENGINES, IN_FLIGHT, Outcome, map_files
from nnvk.batch.task import Task
from nnvk.cli.importing import DEFAULT, Importing, note, takes_options
from nnvk.cli.lines import CHECK_FAILED, print_line
from nnvk.cli.output import check_writable, counted, deliver, print_table
from nnvk.cli.usage import JsonFile
from nnvk.cli.verified import may_verify
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.loading.devices import find_device

SHOWN = 20
"""Errors that are printed; the file has all."""


@may_verify
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
        list[str] | None, typer.Option("--device", metavar="NAME", help="Run on this device.", show_default="all GPUs")
    ] = None,
    in_flight: Annotated[
        int, typer.Option("--in-flight", metavar="N", min=1, help="Executions at once on each device.")
    ] = IN_FLIGHT,
    engine: Annotated[
        str, typer.Option("--engine", metavar="NAME", help=f"What spreads the work: {' or '.join(ENGINES)}.")
    ] = ENGINES[0],
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
    chosen = list(dict.fromkeys(map(find_device, devices))) if devices else None
    task = Task(
        model,
        batch,
        shapes=importing.shapes,
        constants=importing.constants,
        round_hybrid=importing.round_hybrid,
        relaxed=importing.relaxed,
        images=images,
        say=note,
    )
    started = time.monotonic()
    with counted(f"Compiling {model.name}", f"Mapping {model.name}") as begin:
        outcome = map_files(
            task, inputs, out, devices=chosen, in_flight=in_flight, engine=engine, workers=workers, begin=begin
        )
    seconds = time.monotonic() - started
    content = {
        "model": str(model),
        "folder": str(out),
        "done": outcome.done,
        "before": outcome.before,
        "seconds": round(seconds, 3),
        "failed": outcome.failed,
        "failures": [{"row": failure.name, "reason": failure.reason} for failure in outcome.failures],
    }
    deliver(json_file, content, lambda: _print(out, outcome, seconds), out)
    if outcome.failed:
        raise typer.Exit(CHECK_FAILED)


def _print(out: Path, outcome: Outcome, seconds: float) -> None:
    before = f", {outcome.before} were there" if outcome.before else ""
    failed = f", {outcome.failed} failed" if outcome.failed else ""
    rate = f" ({outcome.done / seconds:.1f} a second)" if outcome.done else ""
    print_line(f"{plural(outcome.done, 'row')} done in {seconds:.1f} s{rate}{before}{failed}")
    if outcome.failed:
        rows = [[failure.name, failure.reason] for failure in outcome.failures[:SHOWN]]
        print_table(["row", "error"], rows)
        more = outcome.failed - SHOWN
        print_line(f"{f'and {more} more; ' if more > 0 else ''}all errors are in {out / ERRORS}")
