"""``nnvk run``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nnvk.base import tracing
from nnvk.base.files import writing
from nnvk.base.text import dimensions, milliseconds
from nnvk.cli.importing import DEFAULT, Importing, takes_options
from nnvk.cli.lines import FAILURE, Failures, print_line
from nnvk.cli.models import Seed
from nnvk.cli.modes import has_modes
from nnvk.cli.output import check_suffix, check_writable, deliver, print_table, working
from nnvk.cli.ranking import described, for_json, limits_cells, limits_of, print_ranking, ranking_json
from nnvk.cli.run_folder import run_folder
from nnvk.cli.run_inputs import run_inputs
from nnvk.cli.usage import JsonFile
from nnvk.importers.ports import Port
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.insight.classes import Ranker, own_labels, read_labels
from nnvk.loading.devices import choose_devices

DEFAULT_TOP = 5
"""Classes that are printed where there are labels and no --top."""


@has_modes
@takes_options
def command(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="A model, or a folder of them.")],
    others: Annotated[list[Path] | None, typer.Argument(metavar="INPUT", hidden=True)] = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="PATH",
            help="An image or a .npy for an input, once for each; one .npz with arrays 0, 1, ... or by name; or a "
            "folder, each of whose files is run. What is transparent in an image is white, unless the input has four "
            "channels.",
            show_default="random numbers",
        ),
    ] = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None, typer.Option("--out", metavar="OUT.npz", help="Write the outputs as arrays 0, 1, ...")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Run on this device, or auto.", show_default="the preferred one"),
    ] = None,
    no_fallback: Annotated[
        bool, typer.Option("--no-fallback", help="Fail where the device doesn't support an operation.")
    ] = False,
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="The names of the classes, one a line.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            metavar="K",
            min=1,
            help="Print the K best classes of the first output, with the softmax of logits as scores.",
            show_default=f"{DEFAULT_TOP} with labels, 1 for each file of a folder",
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Write what happened when, for chrome://tracing or Perfetto."),
    ] = None,
    images: ImageOptions = AS_IS,
    importing: Importing = DEFAULT,
    json_file: JsonFile = None,
) -> None:
    """Run a model on images or arrays, or on random numbers.

    An image is resized and laid out as the input wants it. uint8 gets the pixels as they are, int8 the pixels minus
    128. float gets what --mean, --std and --scale say, or else the file's metadata, or else a guess that is printed.
    Labels in the file are those of the classes without --labels. On a folder, prints a row for each file in it.
    """
    if others:
        raise ValueError(
            f"run takes one model, or a folder of models; inputs stand behind --input, many of them in a folder: "
            f"--input {others[0]}"
        )
    if path.is_dir():
        given = {"--input": inputs, "--out": output, "--trace": trace, "--labels": labels, "--top": top}
        refused = [name for name, value in given.items() if value]
        if refused:
            raise ValueError(f"{path} is a folder, whose models run on random numbers: leave out {', '.join(refused)}")
        check_writable(json_file)
        failures = Failures(ctx.find_root().params["traceback"])
        choose_devices(device, not no_fallback)  # a wrong name is one error, not one for each model
        run_folder(path, device, not no_fallback, seed, importing, json_file, failures)
        if failures.count:
            raise typer.Exit(FAILURE)
        return
    check_suffix("--out", output, (".npz",))
    check_writable(output, trace, json_file)
    names = None if labels is None else read_labels(labels)
    model = importing.open(path, device, fallback=not no_fallback, images=images)
    wants_classes = top is not None or names is not None or own_labels(model.described) is not None
    ranker = Ranker(model.described, names) if wants_classes else None
    if inputs and any(one.is_dir() for one in inputs):
        if len(inputs) > 1 or output is not None or trace is not None:
            raise ValueError(
                "a folder must be the only --input, without --out and --trace; nnvk map keeps the outputs of many "
                f"inputs: {next(one for one in inputs if one.is_dir())}"
            )
        run_inputs(model, inputs[0], ranker, top or 1, json_file, Failures(ctx.find_root().params["traceback"]))
        return
    arrays = model.reader.files(inputs) if inputs else model.random(seed)
    with nullcontext() if trace is None else tracing.record() as recorded:
        model.prepare(*arrays)
        with working(f"Running {path.name}"):
            started = time.perf_counter_ns()
            outputs = model.compute(arrays)
            elapsed = time.perf_counter_ns() - started
    placed = Counter(one.device for one in model.where())
    if output is not None:  # before anything else that can fail
        _save(output, outputs)
    if trace is not None and recorded is not None:
        with writing(trace):
            recorded.write(trace)
    ranking = None if ranker is None else ranker.best(outputs[0], top or DEFAULT_TOP)

    def show() -> None:
        print_line(f"{path.name}: {model.placement}")
        print_line(f"first execution: {milliseconds(elapsed)} ms{'' if inputs else ', on random numbers'}")
        _print_outputs(model.outputs, outputs)
        if ranking is not None:
            print_ranking(ranking)

    content = {
        "model": str(path),
        "seed": None if inputs else seed,
        "placement": dict(placed),
        "first_execution_ns": elapsed,
        "outputs": [
            {"name": port.name, "type": port.elements, "dimensions": list(array.shape), **for_json(limits_of(array))}
            for port, array in zip(model.outputs, map(described, outputs), strict=True)
        ],
        **({} if ranking is None else ranking_json(ranking)),
    }
    deliver(json_file, content, show, trace, output)


def _are_texts(array: np.ndarray) -> bool:
    return array.dtype.hasobject and all(isinstance(one, str) for one in array.flat)


def _save(path: Path, outputs: Sequence[np.ndarray]) -> None:
    arrays = {str(index): described(result) for index, result in enumerate(outputs)}
    arrays = {name: one.astype(str) if _are_texts(one) else one for name, one in arrays.items()}
    with writing(path), path.open("wb") as file:  # an open file keeps its name, np.savez would add to .NPZ
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _print_outputs(ports: Sequence[Port], results: Sequence[np.ndarray]) -> None:
    rows = []
    for index, (port, result) in enumerate(zip(ports, map(described, results), strict=True)):
        rows.append([str(index), port.name, f"{port.elements} {dimensions(result.shape)}", *limits_cells(result)])
    print_table(["#", "output", "type", "min", "max"], rows, right="# min max")
