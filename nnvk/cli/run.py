"""``nnvk run``."""

from __future__ import annotations

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
from nnvk.cli.models import choose_devices, compile_model, load_model, placement
from nnvk.cli.output import milliseconds, print_table, working
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
            help="An image or a .npy for an input, once for each; or one .npz with arrays 0, 1, ...",
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
    if output is not None and output.suffix != ".npz":
        raise ValueError(f"{output}: the name of --output must end in .npz")
    normalization = Normalization.parse(mean, std)
    imported = load_model(model)
    arrays = imported.encode(read_inputs(inputs or (), imported.inputs, normalization))
    names = None if labels is None else _read_labels(labels)
    with nullcontext() if trace is None else tracing.record() as recorded:
        with working(f"Compiling {model.name}"):
            compilation = compile_model(imported.model, choose_devices(device, not no_fallback))
        with working(f"Running {model.name}"):
            started = time.perf_counter_ns()
            results = run_compilation(compilation, arrays)
            elapsed = time.perf_counter_ns() - started
    outputs, _ = imported.decode(results)
    typer.echo(f"{model.name}: {milliseconds(elapsed)} ms, {placement(compilation)}")
    _print_outputs(imported.outputs, outputs)
    if top is not None or names is not None:
        _print_classes(outputs[0], imported.outputs[0], names, top or DEFAULT_TOP)
    if trace is not None and recorded is not None:
        recorded.write(trace)
        typer.echo(f"wrote {trace}")
    if output is not None:
        np.savez(output, **{str(index): result for index, result in enumerate(outputs)})  # type: ignore[arg-type]
        typer.echo(f"wrote {output}")


def _print_outputs(ports: Sequence[Port], results: Sequence[np.ndarray]) -> None:
    rows = []
    for index, (port, result) in enumerate(zip(ports, results, strict=True)):
        limits = [f"{value:.6g}" for value in (result.min(), result.max())] if result.size else ["", ""]
        rows.append([str(index), port.name, str(result.dtype), "x".join(map(str, result.shape)), *limits])
    columns = ["#", "output", "type", "dimensions", "min", "max"]
    print_table(columns, rows, right="# min max")


def _print_classes(result: np.ndarray, port: Port, labels: Sequence[str] | None, top: int) -> None:
    scores = port.dequantize(result)
    if scores.ndim == 0 or scores.size != scores.shape[-1]:
        raise ValueError(f"output {port.name!r} is {list(result.shape)}, not one row of classes: --top can't rank it")
    scores = scores.reshape(-1)
    if labels is not None and len(labels) != scores.size:
        raise ValueError(f"there are {len(labels)} labels, output {port.name!r} has {scores.size} classes")
    best = np.argsort(-scores.astype(np.float64), kind="stable")[:top]
    rows = [[f"{scores[index]:.6g}", str(index), *([labels[index]] if labels else [])] for index in best]
    print_table(["score", "class", *(["label"] if labels else [])], rows, title="Best classes", right="score class")


def _read_labels(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")
