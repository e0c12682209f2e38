"""``nnvk run``."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nnvk.base import tracing
from nnvk.base.files import writing
from nnvk.base.text import dimensions, milliseconds, plural
from nnvk.cli.importing import DEFAULT, Importing, takes_options
from nnvk.cli.lines import FAILURE, Failures, print_line
from nnvk.cli.models import Seed
from nnvk.cli.output import check_writable, deliver, print_table, working
from nnvk.cli.run_folder import run_folder
from nnvk.cli.usage import JsonFile
from nnvk.cli.verified import may_verify
from nnvk.importers.ports import ImportedModel, Port
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.inputs.randoms import random_ports
from nnvk.insight.placement import device_of_operations, placement
from nnvk.loading.devices import choose_devices

DEFAULT_TOP = 5
"""Classes that are printed where there are labels and no --top."""


@may_verify
@takes_options
def command(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="A model, or a folder of them.")],
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="An image or a .npy for an input, once for each; or one .npz with arrays 0, 1, ... "
            "What is transparent in an image is white, unless the input has four channels.",
            show_default="random numbers",
        ),
    ] = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="OUT.npz", help="Write the outputs as arrays 0, 1, ...")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Run on this device.", show_default="the preferred one"),
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
            help="Print the K best classes of the first output.",
            show_default=f"{DEFAULT_TOP} with labels",
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
    Labels in the file are those of the classes without --labels.
    """
    if path.is_dir():
        if inputs or output or trace or labels or top is not None:
            raise ValueError(f"models of a folder run on random numbers, without what is for one of them: {path}")
        check_writable(json_file)
        failures = Failures(ctx.find_root().params["traceback"])
        choose_devices(device, not no_fallback)  # a wrong name is one error, not one for each model
        run_folder(path, device, not no_fallback, seed, importing, json_file, failures)
        if failures.count:
            raise typer.Exit(FAILURE)
        return
    if output is not None and output.suffix.lower() != ".npz":
        raise ValueError(f"the name of --output must end in .npz: {output}")
    check_writable(output, trace, json_file)
    names = None if labels is None else _read_labels(labels)
    model = importing.open(path, device, fallback=not no_fallback, images=images)
    imported = model.imported
    if names is None:
        names = _own_labels(imported)
    wants_classes = top is not None or names is not None
    if wants_classes:
        _check_classes(imported.outputs, names)
    given = model.reader.files(inputs) if inputs else random_ports(imported, seed)
    with nullcontext() if trace is None else tracing.record() as recorded:
        with working(f"Compiling {path.name}"):
            model.prepare(*given)
        with working(f"Running {path.name}"):
            started = time.perf_counter_ns()
            outputs = model.compute(given)
            elapsed = time.perf_counter_ns() - started
    compilations = model.compilations
    if output is not None:  # before anything else that can fail
        _save(output, outputs)
    if trace is not None and recorded is not None:
        with writing(trace):
            recorded.write(trace)
    classes = _best(outputs[0], imported.outputs[0], names, top or DEFAULT_TOP) if wants_classes else []

    def show() -> None:
        print_line(f"{path.name}: {placement(compilations)}")
        print_line(f"first execution: {milliseconds(elapsed)} ms{'' if inputs else ', on random numbers'}")
        _print_outputs(imported.outputs, outputs)
        if wants_classes:
            _print_classes(classes)

    ranked = [{**asdict(one), **_for_json({"score": one.score})} for one in classes]
    content = {
        "model": str(path),
        "seed": None if inputs else seed,
        "placement": dict(Counter(name for one in compilations for name in device_of_operations(one))),
        "first_execution_ns": elapsed,
        "outputs": [
            {"name": port.name, "type": str(array.dtype), "dimensions": list(array.shape), **_for_json(_limits(array))}
            for port, array in zip(imported.outputs, outputs, strict=True)
        ],
        **({"classes": ranked} if wants_classes else {}),
    }
    deliver(json_file, content, show, trace, output)


@dataclass(frozen=True, slots=True)
class Class:
    """A class of a classifier's output."""

    score: float
    number: int
    label: str | None


def _save(path: Path, outputs: Sequence[np.ndarray]) -> None:
    arrays = {str(index): result for index, result in enumerate(outputs)}
    with writing(path), path.open("wb") as file:  # an open file keeps its name, np.savez would add to .NPZ
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _limits(array: np.ndarray) -> dict[str, float]:
    """The least and the largest element, of complex numbers by magnitude."""
    array = np.abs(array) if np.iscomplexobj(array) else array
    return {"min": array.min().item(), "max": array.max().item()} if array.size else {}


def _for_json(limits: dict[str, float]) -> dict[str, float | None]:
    """JSON has no NaN and no infinities: they are null."""
    return {name: value if math.isfinite(value) else None for name, value in limits.items()}


def _print_outputs(ports: Sequence[Port], results: Sequence[np.ndarray]) -> None:
    rows = []
    for index, (port, result) in enumerate(zip(ports, results, strict=True)):
        limits = [f"{value:.6g}" for value in _limits(result).values()] or ["", ""]
        rows.append([str(index), port.name, f"{result.dtype} {dimensions(result.shape)}", *limits])
    print_table(["#", "output", "type", "min", "max"], rows, right="# min max")


def _check_classes(ports: Sequence[Port], labels: Sequence[str] | None) -> None:
    """Raise ValueError where it is known before the model runs that its first output has no such classes."""
    if not ports:
        raise ValueError("the model has no output whose classes could be ranked")
    if ports[0].dtype.kind == "c":
        raise ValueError(f"output {ports[0].name!r} has complex numbers: they can't be ranked")
    if ports[0].type.is_fully_specified:
        _check_row(ports[0].shape, ports[0], labels)


def _check_row(shape: Sequence[int], port: Port, labels: Sequence[str] | None) -> None:
    count = math.prod(shape)
    if not shape or count != max(shape):  # 1x1000x1x1 is a row, too
        raise ValueError(f"output {port.name!r} is {dimensions(shape)}, not one row of classes: they can't be ranked")
    if labels is not None and len(labels) != count:
        there_are = "there is" if len(labels) == 1 else "there are"
        classes = f"{count} class" if count == 1 else f"{count} classes"
        raise ValueError(f"{there_are} {plural(len(labels), 'label')}, output {port.name!r} has {classes}")


def _best(result: np.ndarray, port: Port, labels: Sequence[str] | None, top: int) -> list[Class]:
    _check_row(result.shape, port, labels)
    scores = port.dequantize(result).reshape(-1)
    best = np.argsort(-scores.astype(np.float64), kind="stable")[:top]
    return [Class(float(scores[index]), int(index), labels[index] if labels else None) for index in best]


def _print_classes(classes: Sequence[Class]) -> None:
    has_labels = any(one.label is not None for one in classes)
    rows = [[f"{one.score:.6g}", str(one.number), *([one.label or ""] if has_labels else [])] for one in classes]
    columns = ["score", "class", *(["label"] if has_labels else [])]
    print_table(columns, rows, title="Best classes", right="score class")


def _own_labels(imported: ImportedModel) -> list[str] | None:
    """The labels in the file, where they are those of the classes of the first output; else None."""
    if not imported.outputs or not imported.metadata.outputs or imported.outputs[0].dtype.kind == "c":
        return None
    labels, shape = imported.metadata.outputs[0].labels, imported.outputs[0].shape
    return list(labels) if shape and labels and math.prod(shape) == max(shape) == len(labels) else None


def _read_labels(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"not a text in UTF-8: {path} ({error})") from error
