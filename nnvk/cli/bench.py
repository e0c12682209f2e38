"""``nnvk bench``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer

from nnvk.api import Device, get_devices
from nnvk.base.text import milliseconds, title
from nnvk.cli.importing import DEFAULT, Importing, note_open_sizes, takes_options
from nnvk.cli.lines import FAILURE, REPORTED_ERRORS, Failures, print_line
from nnvk.cli.models import find_models
from nnvk.cli.modes import has_modes
from nnvk.cli.output import check_writable, deliver, print_table, progress
from nnvk.cli.profile import print_profiles
from nnvk.cli.usage import JsonFile, Runs, Seconds
from nnvk.importers.ports import ImportedModel
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.insight.limits import Limits
from nnvk.insight.measuring import WARM_UP, Measurement, measure_parts
from nnvk.insight.placement import prepare
from nnvk.insight.profiling import PROFILED_RUNS, Profile, joined, take_profile
from nnvk.loading import LoadedModel
from nnvk.loading.devices import AUTO, find_device, is_auto

LEGEND = (
    "Times in ms. ops: operations on the device; the others run on the CPU.",
    "min, median, p90: one run, from inputs in the host's memory to outputs there.",
    "hardware: the device's part of a run, by its own clock, in runs between those.",
    "compile: the time to prepare the model, before the first run.",
)


@has_modes
@takes_options
def command(
    ctx: typer.Context,
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help="Models, or folders of them.")],
    devices: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="NAME", help="Measure on this device, or auto.", show_default="all"),
    ] = None,
    runs: Runs = None,
    seconds: Seconds = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="As in run: an image or a .npy for an input, or one .npz. All models get the same.",
            show_default="random",
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show where the time goes, by operation, in place of the figures.")
    ] = False,
    images: ImageOptions = AS_IS,
    importing: Importing = DEFAULT,
    json_file: JsonFile = None,
) -> None:
    """Measure how long models take on devices, with random inputs.

    With --input they get these inputs. Operations that a device doesn't support run on the CPU reference device, as the
    table shows. Where one of several models can't be measured, the others are; the exit code is 2 then.
    """
    check_writable(json_file)
    named = dict.fromkeys(None if is_auto(name) else find_device(name) for name in devices or ())  # None is `AUTO`
    chosen = list(named) or ([None] if is_auto(None) else get_devices())
    limits = Limits.of(PROFILED_RUNS if profile and runs is None and seconds is None else runs, seconds)
    paths = find_models(models)
    failures = Failures(ctx.find_root().params["traceback"])
    measurements: list[Measurement] = []
    profiles: list[Profile] = []
    own = importing.for_each(paths)
    with progress("Measuring", len(paths) * len(chosen)) as advance:
        for path, options in zip(paths, own, strict=True):
            name = title(path, paths)
            try:
                model = options.open(path, images=images)
                given = model.read(model.reader.files(inputs)) if inputs else model.random()
                parts = [] if model.is_mixed else model.parts(given)
                if not inputs:
                    note_open_sizes(name, model)
            except REPORTED_ERRORS as error:
                failures.add(error, what=name)
                continue
            for device in chosen:
                what = f"{name} on {AUTO if device is None else device.name}"
                try:
                    if device is None or model.is_mixed:
                        on_device = options.open(path, AUTO if device is None else device.name, images=images)
                        if profile:
                            on_device.settle(*given)
                            profiles.append(on_device.profile(*given))
                        else:
                            measurements.append(measure_calls(name, device, on_device, given, limits))
                    elif profile:
                        profiles.append(joined(_profile(name, part, device, limits) for part in parts))
                    else:
                        ready = [(imported.model, encoded) for imported, encoded in parts]
                        measurements.append(measure_parts(name, ready, device, limits))
                except REPORTED_ERRORS as error:
                    failures.add(error, what)
                advance(what)
    if measurements or profiles:
        found = {"profiles": profiles} if profile else {"measurements": measurements}
        content = {name: [asdict(one) for one in each] for name, each in found.items()}
        deliver(json_file, content, lambda: print_profiles(profiles) if profile else _print(measurements))
    if failures.count:
        raise typer.Exit(FAILURE)


def _profile(name: str, part: tuple[ImportedModel, Sequence[np.ndarray]], device: Device, limits: Limits) -> Profile:
    imported, encoded = part
    compilation, _ = prepare(imported.model, device)
    return take_profile(name, device, compilation, encoded, limits, imported.sources)


def measure_calls(
    name: str, device: Device | None, model: LoadedModel, given: Sequence[np.ndarray], limits: Limits
) -> Measurement:
    """The time of calls of a model of which a library computes some operators, or may compute all."""
    started = time.perf_counter_ns()
    model.compute(given)
    compile_ns = time.perf_counter_ns() - started
    model.settle(*given)
    for _ in range(WARM_UP):
        model.compute(given)

    def timed() -> int:
        begin = time.perf_counter_ns()
        model.compute(given)
        return time.perf_counter_ns() - begin

    times = sorted(limits.repeat(timed))
    placed = model.where()
    where = (device or get_devices()[0]).name
    own = sum(one.device == where for one in placed)
    if device is None:
        where = f"{AUTO}: {model.whole_library or where}"
    middle, late = int(median(times)), times[len(times) * 9 // 10]
    return Measurement(name, where, len(placed), own, compile_ns, len(times), times[0], middle, late, None)


def _print(measurements: Sequence[Measurement]) -> None:
    numbers = ["runs", "min", "median", "p90", "hardware", "compile"]
    rows = [
        [
            one.model,
            one.device,
            f"{one.operations_on_device}/{one.operations}",
            str(one.runs),
            *(milliseconds(t) for t in (one.min_ns, one.median_ns, one.p90_ns, one.hardware_ns, one.compile_ns)),
        ]
        for one in measurements
    ]
    print_table(["model", "device", "ops", *numbers], rows, right=" ".join(["ops", *numbers]))
    for line in LEGEND:
        print_line(line)
