"""``nnvk bench``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer
from numpy.random import default_rng  # NumPy imports it late, and Cython loses a Ctrl-C that comes meanwhile

from nnvk.api import Compilation, Device, DurationCode, Execution, Model, get_devices
from nnvk.api import run as run_compilation
from nnvk.cli.limits import DEFAULT_RUNS, DEFAULT_SECONDS, LEAST_RUNS, Limits
from nnvk.cli.lines import FAILURE, REPORTED_ERRORS, print_line, report
from nnvk.cli.models import (
    InputShapes,
    NoRoundHybrid,
    choose_devices,
    compile_model,
    device_of_operations,
    find_device,
    load_model,
)
from nnvk.cli.output import check_writable, deliver, milliseconds, print_table, progress
from nnvk.cli.profile import Profile, print_profiles, take_profile
from nnvk.cli.usage import JsonFile
from nnvk.types.operand import OperandType
from nnvk.types.request import NOT_MEASURED

PROFILED_RUNS = 20
WARM_UP = 3
"""Runs that are not counted: the first ones touch memory and wake clocks."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A model on a device. Times in nanoseconds, from host inputs to host outputs."""

    model: str
    device: str
    operations: int
    operations_on_device: int
    """The others run on the CPU reference device."""
    compile_ns: int
    runs: int
    min_ns: int
    median_ns: int
    p90_ns: int
    hardware_ns: int | None
    """Median that the device itself measured; None where it can't, or isn't alone."""


def command(
    ctx: typer.Context,
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help=".tflite files.")],
    devices: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="NAME", help="Measure on this device.", show_default="all"),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs",
            metavar="N",
            min=1,
            help="How often each model runs.",
            show_default=f"{DEFAULT_RUNS}, or what fits into {DEFAULT_SECONDS:g} s",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="S",
            min=0.0,
            help=f"How long each model runs, but {LEAST_RUNS} times at least. With --runs, what comes first.",
            show_default=f"{DEFAULT_SECONDS:g} without --runs",
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show where the time goes, by operation, in place of the figures.")
    ] = False,
    shapes: InputShapes = None,
    no_round_hybrid: NoRoundHybrid = False,
    json_file: JsonFile = None,
) -> None:
    """Measure how long models take on devices, with random inputs.

    Operations that a device doesn't support run on the CPU reference device, as the table shows. Where one of several
    models can't be measured, the others are; the exit code is 2 then.
    """
    check_writable(json_file)
    chosen = list(dict.fromkeys(map(find_device, devices))) if devices else get_devices()
    limits = Limits.of(PROFILED_RUNS if profile and runs is None and seconds is None else runs, seconds)
    failures = _Failures(ctx.find_root().params["traceback"])
    measurements: list[Measurement] = []
    profiles: list[Profile] = []
    with progress("Measuring", len(models) * len(chosen)) as advance:
        for path in models:
            title = _title(path, models)
            try:
                model = load_model(path, shapes, round_hybrid=not no_round_hybrid).model
            except REPORTED_ERRORS as error:
                failures.add(error)
                continue
            for device in chosen:
                what = f"{title} on {device.name}"
                try:
                    if profile:
                        compilation, _ = prepare(model, device)
                        profiles.append(take_profile(title, device, compilation, random_inputs(compilation), limits))
                    else:
                        measurements.append(measure(title, model, device, limits))
                except REPORTED_ERRORS as error:
                    failures.add(error, what)
                advance(what)
    if measurements or profiles:
        found = {"profiles": profiles} if profile else {"measurements": measurements}
        content = {name: [asdict(one) for one in each] for name, each in found.items()}
        deliver(json_file, content, lambda: print_profiles(profiles) if profile else _print(measurements))
    if failures.count:
        raise typer.Exit(FAILURE)


@dataclass(slots=True)
class _Failures:
    """Errors that leave the rest of the work to be done."""

    traceback: bool
    """Whether to show where they come from."""
    count: int = 0

    def add(self, error: Exception, about: str = "") -> None:
        report(error, about, with_traceback=self.traceback)
        self.count += 1


def measure(title: str, model: Model, device: Device, limits: Limits) -> Measurement:
    """Compile a model for a device, with fallback where it needs one, and time its executions."""
    started = time.perf_counter_ns()
    compilation, alone = prepare(model, device)
    compile_ns = time.perf_counter_ns() - started
    inputs = random_inputs(compilation)
    outputs = [np.empty_like(array) for array in run_compilation(compilation, inputs)]
    execution = _execution(compilation, inputs, outputs)
    for _ in range(WARM_UP):
        execution.compute()
    times = limits.repeat(lambda: _timed(execution.compute))
    on_hardware = None
    if alone:
        measured = _execution(compilation, inputs, outputs, measure=True)
        on_hardware = [value for value in (_hardware(measured) for _ in range(min(len(times), LEAST_RUNS))) if value]
    return Measurement(
        title,
        device.name,
        len(compilation.model.operations),
        device_of_operations(compilation).count(device.name),
        compile_ns,
        len(times),
        min(times),
        int(median(times)),
        int(np.percentile(times, 90)),
        int(median(on_hardware)) if on_hardware else None,
    )


def prepare(model: Model, device: Device) -> tuple[Compilation, bool]:
    """A model compiled for a device, with fallback where it needs one; whether it needs none."""
    alone = all(support.supported for support in model.get_support(device))
    return compile_model(model, [device] if alone else choose_devices(device.name, True)), alone


def _execution(
    compilation: Compilation,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    measure: bool = False,
) -> Execution:
    execution = Execution(compilation)
    execution.set_reusable(True)
    if measure:
        execution.set_measure_timing(True)
    for index, array in enumerate(inputs):
        execution.set_input(index, array)
    for index, array in enumerate(outputs):
        execution.set_output(index, array)
    return execution


def _timed(action: Callable[[], None]) -> int:
    started = time.perf_counter_ns()
    action()
    return time.perf_counter_ns() - started


def _hardware(execution: Execution) -> int:
    execution.compute()
    duration = execution.get_duration(DurationCode.DURATION_ON_HARDWARE)
    return 0 if duration == NOT_MEASURED else duration


def random_inputs(compilation: Compilation) -> list[np.ndarray]:
    """Something for every input of the model. Raises MemoryError where the machine has too little for it."""
    types = compilation.model.input_types()
    needed = sum(type_.size for type_ in (*types, *compilation.model.output_types()))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise MemoryError(f"inputs and outputs take {needed} bytes, the machine has {memory}")
    return [_random(type_) for type_ in types]


def _random(type: OperandType) -> np.ndarray:
    """Values of a plausible range: floats from -1 to 1, any quantised value, 0 for indexes."""
    if not type.is_fully_specified:
        raise ValueError(f"the model leaves dimensions of an input open ({type}), it can't be measured")
    generator = default_rng(0)
    if type.dtype.kind == "f":
        array = generator.random(type.dimensions, np.float32)
        array *= 2
        array -= 1
        return array.astype(type.dtype, copy=False)
    if type.scale:
        limits = np.iinfo(type.dtype)
        return generator.integers(limits.min, limits.max, type.dimensions, type.dtype, endpoint=True)
    return np.zeros(type.dimensions, type.dtype)


def _title(path: Path, models: Sequence[Path]) -> str:
    """The file's name, with its folder's where another model is called the same."""
    same = sum(other.name == path.name for other in models)
    return path.name if same == 1 else f"{path.resolve().parent.name}/{path.name}"


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
    print_line("Times in ms. ops: operations on the device; the others run on the CPU.")
    print_line("hardware: by the device's clock, in runs of their own.")
