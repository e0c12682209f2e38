"""How long a model takes on a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from nnvk.api import Compilation, Device, DurationCode, Execution, Model
from nnvk.api import run as run_compilation
from nnvk.inputs.randoms import random_inputs
from nnvk.insight.limits import Limits
from nnvk.insight.placement import device_of_operations, prepare
from nnvk.types.request import NOT_MEASURED

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
    """Median that the device itself measured, in as many runs in turns with the others; None where it can't, or isn't
    alone."""


def measure(
    title: str, model: Model, device: Device, limits: Limits, inputs: Sequence[np.ndarray] | None = None
) -> Measurement:
    """Compile a model for a device, with fallback where it needs one, and time its executions.

    ``inputs`` are the model's; they are random without it.
    """
    started = time.perf_counter_ns()
    compilation, alone = prepare(model, device)
    return measure_compiled(title, device, compilation, alone, time.perf_counter_ns() - started, limits, inputs)


def measure_parts(
    title: str, parts: Sequence[tuple[Model, Sequence[np.ndarray]]], device: Device, limits: Limits
) -> Measurement:
    """`measure` of models that are computed one behind the other, each with its inputs: the sums of their times."""
    return joined_measurements([measure(title, model, device, limits, inputs) for model, inputs in parts])


def joined_measurements(several: Sequence[Measurement]) -> Measurement:
    """The sums of the times of models that are computed one behind the other."""
    hardware = [one.hardware_ns for one in several]
    return replace(
        several[0],
        operations=sum(one.operations for one in several),
        operations_on_device=sum(one.operations_on_device for one in several),
        compile_ns=sum(one.compile_ns for one in several),
        runs=min(one.runs for one in several),
        min_ns=sum(one.min_ns for one in several),
        median_ns=sum(one.median_ns for one in several),
        p90_ns=sum(one.p90_ns for one in several),
        hardware_ns=None if None in hardware else sum(time for time in hardware if time is not None),
    )


def measure_compiled(
    title: str,
    device: Device,
    compilation: Compilation,
    alone: bool,
    compile_ns: int,
    limits: Limits,
    inputs: Sequence[np.ndarray] | None = None,
) -> Measurement:
    """`measure` of what is compiled already, for the device ``alone`` or with fallback."""
    inputs = random_inputs(compilation.model) if inputs is None else inputs
    outputs = [np.empty_like(array) for array in run_compilation(compilation, inputs)]
    execution = _execution(compilation, inputs, outputs)
    for _ in range(WARM_UP):
        execution.compute()
    measured = _execution(compilation, inputs, outputs, measure=True) if alone else None
    if measured is not None:
        for _ in range(WARM_UP):
            measured.compute()

    def once() -> tuple[int, int]:
        # In turns, so that both medians see the same load of the machine and the same clock of the device.
        return _timed(execution.compute), 0 if measured is None else _hardware(measured)

    times, hardware = zip(*limits.repeat(once), strict=True)
    on_hardware = [value for value in hardware if value]
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
        int(min(median(on_hardware), median(times))) if on_hardware else None,  # a part of a run is no longer than it
    )


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
