"""``nnvk compare``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from nnvk import __version__
from nnvk.api import get_devices
from nnvk.base.files import writing
from nnvk.base.text import dimensions, plural
from nnvk.cli.importing import DEFAULT, Importing, takes_options
from nnvk.cli.lines import CHECK_FAILED, print_line
from nnvk.cli.models import Seed
from nnvk.cli.modes import has_modes
from nnvk.cli.output import bar, check_suffix, check_writable, deliver, print_table, working
from nnvk.cli.profile import layer_name
from nnvk.cli.usage import JsonFile
from nnvk.importers.formats import format_of
from nnvk.importers.ports import Port
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.insight.comparison import Comparison, compare, joined_comparisons
from nnvk.insight.difference import LEAST_SHARE, Difference, Tolerance
from nnvk.insight.engines import PEERS, Engine, LiteRt, OnDevice, OnnxRuntime
from nnvk.loading.devices import find_device

PLOTS = (".svg", ".png")
"""The formats of --plot."""


@has_modes
@takes_options
def command(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.")],
    others: Annotated[list[Path] | None, typer.Argument(metavar="MODEL", hidden=True)] = None,
    engines: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--devices",
            metavar="ONE OTHER",
            help=f"Compare one with the other, the reference: devices, or {' or '.join(PEERS)} where installed.",
            show_default="the preferred device, and the CPU's",
        ),
    ] = None,
    bisect: Annotated[
        bool,
        typer.Option(
            "--bisect", help="Feed each operation with the reference's inputs, and name the first that is off."
        ),
    ] = False,
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="As in run: an image or a .npy for an input, or one .npz.",
            show_default="random",
        ),
    ] = None,
    seed: Seed = 0,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            metavar="SHARE",
            min=0.0,
            help="Tolerated difference of floats, as a share of their range.",
        ),
    ] = Tolerance().of_range,
    steps: Annotated[
        int,
        typer.Option(
            "--steps",
            metavar="N",
            min=0,
            help="Tolerated difference of quantised numbers, in quantisation steps.",
        ),
    ] = Tolerance().steps,
    floor: Annotated[
        float,
        typer.Option(
            "--floor",
            metavar="REAL",
            min=0.0,
            help="Tolerated difference of floats, whatever their range is.",
        ),
    ] = Tolerance().floor,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the differences: a .svg, or a .png.")
    ] = None,
    images: ImageOptions = AS_IS,
    importing: Importing = DEFAULT,
    json_file: JsonFile = None,
) -> None:
    """Compare the results of two devices, operation by operation.

    Shows the largest difference of each operation: as a number, as a share of the range of the reference's numbers, and
    in quantisation steps for quantised numbers. The first line says where differences begin. Exits with 1 if a
    difference exceeds the tolerance.
    """
    if others:
        raise ValueError(
            "compare runs one model on two devices; to compare models, give them photos: nnvk evaluate "
            f"{' '.join(map(str, (path, *others)))} --inputs FOLDER --labels FILE"
        )
    check_suffix("--plot", plot, PLOTS)
    check_writable(plot, json_file)
    drawing = None if plot is None else import_module("nnvk.insight.drawing")  # which needs matplotlib
    names = engines or (get_devices()[0].name, get_devices()[-1].name)
    one, other = (_engine(name, path) for name in names)
    model = importing.open(path, images=images)
    if model.is_mixed and not (isinstance(one, OnDevice) and isinstance(other, OnDevice)):
        raise ValueError(f"a library computes some operators of {path.name}: nnvk's own parts are compared on devices")
    given = model.read(model.reader.files(inputs)) if inputs else model.random(seed)
    parts = model.own_parts(given)
    with working(f"Comparing {path.name}"):
        limits = Tolerance(of_range=tolerance, steps=steps, floor=floor)
        comparison = joined_comparisons(
            [compare(imported, one, other, arrays, alone=bisect, tolerance=limits) for imported, arrays in parts]
        )
    if plot is not None and drawing is not None:
        chart_title = f"{path.name}: {comparison.device} against {comparison.reference}"
        with writing(plot):
            note = f"{date.today().isoformat()}, nnvk {__version__}"
            drawing.save(drawing.differences_chart(chart_title, comparison), plot, note)
    content = {"model": str(path), **as_json(comparison)}
    deliver(
        json_file,
        content,
        lambda: _print(path, [port for imported, _ in parts for port in imported.outputs], comparison),
        plot,
    )
    if comparison.is_off:
        raise typer.Exit(CHECK_FAILED)


def _engine(name: str, path: Path) -> Engine:
    runs = PEERS.get(name.lower())
    if runs is not None and (found := format_of(path).suffix) != runs:
        other = next(peer for peer, suffix in PEERS.items() if suffix == found)
        raise ValueError(f"{name} runs {runs} files, not {found} files as {path}; {other} does")
    if name.lower() == "litert":
        return LiteRt(path)
    if name.lower() == "onnxruntime":
        return OnnxRuntime(path)
    return OnDevice(find_device(name))


def as_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison for programs; what is not finite is null."""
    begins = comparison.begins
    return {
        "device": comparison.device,
        "reference": comparison.reference,
        "alone": comparison.alone,
        "is_off": comparison.is_off,
        "begins": None if begins is None else begins.number,
        "operations": comparison.operations,
        "outputs": [_difference(each) for each in comparison.outputs],
        "inside": [_difference(each) for each in comparison.inside],
    }


def _difference(difference: Difference) -> dict[str, Any]:
    values = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(difference).items()
    }
    return {**values, "is_off": difference.is_off}


def summary(comparison: Comparison) -> str:
    """Whether the engines agree, and if not, where that begins."""
    begins = comparison.begins
    count = len(comparison.inside)
    known = "1 result agrees" if count == 1 else f"{count} results agree"
    if begins is not None:
        layer = f", {layer_name(begins.layer)}" if begins.layer else ""
        how = "is the first that is off by itself" if comparison.alone else "is where it begins"
        return f"operation {begins.number} ({begins.operation}{layer}) {how}: {_size(begins)}"
    worst = max((*comparison.inside, *comparison.outputs), key=lambda each: each.of_range, default=None)
    if worst is None:
        return "nothing of it is known on both"
    if any(each.is_off for each in comparison.outputs):
        first = next(each for each in comparison.outputs if each.is_off)
        if comparison.alone:
            return f"no operation is off by itself; added up, output {first.output} of the model is: {_size(first)}"
        return f"{known}, and output {first.output} of the model does not: {_size(first)}"
    return f"{known}; the largest difference is {_size(worst)}" if worst.largest else f"{known} exactly"


def _size(difference: Difference) -> str:
    steps = "" if difference.steps is None else f" ({plural(difference.steps, 'step')})"
    return f"{difference.largest:.3g}{steps}, {difference.of_range:.2g} of the range"


def _print(path: Path, outputs: Sequence[Port], comparison: Comparison) -> None:
    engines = f"{comparison.device} against {comparison.reference}"
    print_line(f"{path.name} on {engines}: {summary(comparison)}", fold=True)
    rows = [
        [
            str(each.number),
            each.operation,
            layer_name(each.layer),
            dimensions(each.dimensions, unknown=0),
            *_numbers(each),
            bar(_length(each.of_range)),
        ]
        for each in comparison.inside
    ]
    columns = ["#", "operation", "layer", "output", "largest", "of range", "steps", "plot"]
    print_table(columns, rows, right="# largest of_range steps", optional="layer steps plot")
    rows = [
        [str(each.output), port.name, *_numbers(each)]
        for each in comparison.outputs
        for port in outputs[each.output : each.output + 1]
    ]
    columns = ["#", "output", "largest", "of range", "steps"]
    title = "Outputs of the model as it is"
    print_table(columns, rows, title=title, right="# largest of_range steps", optional="steps")


def _numbers(difference: Difference) -> Sequence[str]:
    mark = "!" if difference.is_off else ""
    steps = "" if difference.steps is None else str(difference.steps)
    return f"{mark}{difference.largest:.3g}", f"{difference.of_range:.2g}", steps


def _length(share: float) -> float:
    """The length of a bar from 0 to 1, on a logarithmic axis from `LEAST_SHARE` to the whole range."""
    if share <= 0 or math.isnan(share):
        return 0.0
    return 1.0 if share >= 1 else max(0.02, 1 - math.log10(share) / math.log10(LEAST_SHARE))
