"""``nnvk bench``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer
from numpy.random import default_rng  # NumPy imports it late, and Cython loses a Ctrl-C that comes meanwhile

from nnvk.api import Compilation, Device, DurationCode, Execution, Model, get_devices
from nnvk.api import run as run_compilation
from nnvk.cli.lines import FAILURE, REPORTED_ERRORS, report
from nnvk.cli.models import choose_devices, compile_model, device_of_operations, find_device, load_model
from nnvk.cli.output import check_writable, milliseconds, print_table, progress, write_json
from nnvk.cli.profile import print_profile
from nnvk.types.operand import OperandType
from nnvk.types.request import NOT_MEASURED

DEFAULT_RUNS = 100
DEFAULT_SECONDS = 10.0
"""Without --runs, no model is measured for longer than this, save for `LEAST_RUNS`."""
LEAST_RUNS = 5
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
        typer.Option("--device", metavar="NAME", help="Measure on this device; all, if left out."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs",
            metavar="N",
            min=1,
            help=f"How often each model runs ({DEFAULT_RUNS}, or what fits into {DEFAULT_SECONDS:g} s).",
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show where the time goes, by operation, in place of the figures.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures as JSON.")] = None,
) -> None:
    """Measure how long models take on devices, with random inputs.

    Operations that a device doesn't support run on the CPU reference device, as the table shows. Where one of several
    models can't be measured, the others are; the exit code is 2 then.
    """
    if profile and json_file is not None:
        raise ValueError("--profile has no figures for --json to write: give one of them")
    check_writable(json_file)
    chosen = [find_device(name) for name in devices] if devices else get_devices()
    failures = _Failures(ctx.find_root().params["traceback"])
    measurements: list[Measurement] = []
    # A profile is printed while others are to come, and a progress bar takes standard output.
    bar = nullcontext(lambda note: None) if profile else progress("Measuring", len(models) * len(chosen))
    with bar as advance:
        for path in models:
            title = _title(path, models)
            try:
                model = load_model(path).model
            except REPORTED_ERRORS as error:
                failures.add(error)
                continue
            for device in chosen:
                what = f"{title} on {device.name}"
                try:
                    if profile:
                        compilation, _ = prepare(model, device)
                        print_profile(what, compilation, random_inputs(compilation), runs or PROFILED_RUNS)
                    else:
                        measurements.append(measure(title, model, device, runs))
                except REPORTED_ERRORS as error:
                    failures.add(error, what)
                advance(what)
    if measurements:
        _print(measurements)
        if json_file is not None:
            write_json(json_file, [asdict(measurement) for measurement in measurements])
    if failures.count:
        raise typer.Exit(FAILURE)


@dataclass(slots=True)
class _Failures:
    """Errors that leave the rest of the work to be done."""

    traceback: bool
    """Whether to raise them all the same, to show where they come from."""
    count: int = 0

    def add(self, error: Exception, about: str = "") -> None:
        if self.traceback:
            raise error
        report(error, about)
        self.count += 1


def measure(title: str, model: Model, device: Device, runs: int | None) -> Measurement:
    """Compile a model for a device, with fallback where it needs one, and time its executions.

    Without ``runs``: `DEFAULT_RUNS`, or fewer where they take longer than `DEFAULT_SECONDS`.
    """
    started = time.perf_counter_ns()
    compilation, alone = prepare(model, device)
    compile_ns = time.perf_counter_ns() - started
    inputs = random_inputs(compilation)
    outputs = [np.empty_like(array) for array in run_compilation(compilation, inputs)]
    execution = _execution(compilation, inputs, outputs)
    for _ in range(WARM_UP):
        execution.compute()
    times = _repeat(lambda: _timed(execution.compute), runs)
    on_hardware = None
    if alone:
        measured = _execution(compilation, inputs, outputs, measure=True)
        on_hardware = [value for value in _repeat(lambda: _hardware(measured), min(len(times), LEAST_RUNS)) if value]
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


def _repeat(action: Callable[[], int], runs: int | None) -> list[int]:
    """What ``action`` returned each time."""
    end = time.monotonic() + DEFAULT_SECONDS
    values: list[int] = []
    while len(values) < (runs or DEFAULT_RUNS):
        values.append(action())
        if runs is None and len(values) >= LEAST_RUNS and time.monotonic() > end:
            break
    return values


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
    numbers = ["runs", "min ms", "median ms", "p90 ms", "hardware ms", "compile ms"]
    rows = [
        [
            one.model,
            one.device,
            f"{one.operations_on_device} of {one.operations}",
            str(one.runs),
            *(milliseconds(t) for t in (one.min_ns, one.median_ns, one.p90_ns, one.hardware_ns, one.compile_ns)),
        ]
        for one in measurements
    ]
    right = " ".join(name.replace(" ", "_") for name in ["operations", *numbers])
    print_table(["model", "device", "operations", *numbers], rows, right=right)
