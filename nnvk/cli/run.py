"""``nnvk run``."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nnvk.api import run as run_compilation
from nnvk.base import tracing
from nnvk.cli.images import Normalization
from nnvk.cli.inputs import read_inputs
from nnvk.cli.lines import print_line
from nnvk.cli.models import choose_devices, compile_model, load_model, placement
from nnvk.cli.output import check_writable, milliseconds, plural, print_table, working, writing
from nnvk.importers.tflite import Port

DEFAULT_TOP = 5
"""Classes that are printed where --labels is given without --top."""


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.")],
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="An image or a .npy for an input, once for each; or one .npz with arrays 0, 1, ... "
            "What is transparent in an image is white, unless the input has four channels.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="OUT.npz", help="Write the outputs as arrays 0, 1, ...")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="NAME", help="Run on this device.")] = None,
    no_fallback: Annotated[
        bool, typer.Option("--no-fallback", help="Fail where the device doesn't support an operation.")
    ] = False,
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="The names of the classes, one a line.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="K", min=1, help="Print the K best classes of the first output."),
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option("--mean", metavar="M", help="Subtract this from pixels; a number, or one per channel."),
    ] = None,
    std: Annotated[
        str | None, typer.Option("--std", metavar="S", help="Then divide them by this (255); as for --mean.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Write what happened when, for chrome://tracing or Perfetto."),
    ] = None,
) -> None:
    """Run a model on images or arrays.

    An image is resized and scaled as the input's type wants it: uint8 gets the pixels as they are, int8 the
    pixels minus 128, float the pixels divided by 255, unless --mean or --std say otherwise.
    """
    if output is not None and output.suffix.lower() != ".npz":
        raise ValueError(f"{output}: the name of --output must end in .npz")
    check_writable(output, trace)
    normalization = Normalization.parse(mean, std)
    names = None if labels is None else _read_labels(labels)
    imported = load_model(model)
    wants_classes = top is not None or names is not None
    if wants_classes:
        _check_classes(imported.outputs, names)
    arrays = imported.encode(read_inputs(inputs or (), imported.inputs, normalization))
    with nullcontext() if trace is None else tracing.record() as recorded:
        with working(f"Compiling {model.name}"):
            compilation = compile_model(imported.model, choose_devices(device, not no_fallback))
        with working(f"Running {model.name}"):
            started = time.perf_counter_ns()
            results = run_compilation(compilation, arrays)
            elapsed = time.perf_counter_ns() - started
    outputs, _ = imported.decode(results)
    if output is not None:  # before anything else that can fail
        _save(output, outputs)
    if trace is not None and recorded is not None:
        with writing(trace):
            recorded.write(trace)
    print_line(f"{model.name}: {milliseconds(elapsed)} ms, {placement(compilation)}")
    _print_outputs(imported.outputs, outputs)
    for written in (trace, output):
        if written is not None:
            print_line(f"wrote {written}")
    if wants_classes:
        _print_classes(outputs[0], imported.outputs[0], names, top or DEFAULT_TOP)


def _save(path: Path, outputs: Sequence[np.ndarray]) -> None:
    arrays = {str(index): result for index, result in enumerate(outputs)}
    with writing(path), path.open("wb") as file:  # an open file keeps its name, np.savez would add to .NPZ
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _print_outputs(ports: Sequence[Port], results: Sequence[np.ndarray]) -> None:
    rows = []
    for index, (port, result) in enumerate(zip(ports, results, strict=True)):
        limits = [f"{value:.6g}" for value in (result.min(), result.max())] if result.size else ["", ""]
        rows.append([str(index), port.name, str(result.dtype), "x".join(map(str, result.shape)), *limits])
    columns = ["#", "output", "type", "dimensions", "min", "max"]
    print_table(columns, rows, right="# min max")


def _check_classes(ports: Sequence[Port], labels: Sequence[str] | None) -> None:
    """Raise ValueError where it is known before the model runs that its first output has no such classes."""
    if not ports:
        raise ValueError("the model has no output whose classes could be ranked")
    if ports[0].type.is_fully_specified:
        _check_row(ports[0].shape, ports[0], labels)


def _check_row(shape: Sequence[int], port: Port, labels: Sequence[str] | None) -> None:
    if not shape or math.prod(shape) != shape[-1]:
        raise ValueError(f"output {port.name!r} is {list(shape)}, not one row of classes: they can't be ranked")
    if labels is not None and len(labels) != shape[-1]:
        there_are = "there is" if len(labels) == 1 else "there are"
        classes = f"{shape[-1]} class" if shape[-1] == 1 else f"{shape[-1]} classes"
        raise ValueError(f"{there_are} {plural(len(labels), 'label')}, output {port.name!r} has {classes}")


def _print_classes(result: np.ndarray, port: Port, labels: Sequence[str] | None, top: int) -> None:
    _check_row(result.shape, port, labels)
    scores = port.dequantize(result).reshape(-1)
    best = np.argsort(-scores.astype(np.float64), kind="stable")[:top]
    rows = [[f"{scores[index]:.6g}", str(index), *([labels[index]] if labels else [])] for index in best]
    print_table(["score", "class", *(["label"] if labels else [])], rows, title="Best classes", right="score class")


def _read_labels(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: {error}") from error
