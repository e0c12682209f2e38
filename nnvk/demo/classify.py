"""Classify pictures with one model on one device, and time it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import nnvk
from nnvk.demo.assets import DemoModel, Picture
from nnvk.importers import tflite

REPEATS = 5
"""Passes over the pictures: one to warm up, the others timed."""


@dataclass(frozen=True, slots=True)
class Placement:
    """An operation of the model, the shape of its output, and the device that runs it."""

    operation: str
    shape: tuple[int, ...]
    device: str


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The result of one model on the pictures. Times are in milliseconds, from host inputs to host outputs."""

    model: DemoModel
    probabilities: NDArray[np.float32]
    """``[pictures, classes]``."""
    placements: tuple[Placement, ...]
    compile_ms: float
    median_ms: float
    fastest_ms: float

    @property
    def answers(self) -> NDArray[np.intp]:
        """The most probable class of each picture."""
        answers: NDArray[np.intp] = self.probabilities.argmax(axis=1)
        return answers


def classify(model: DemoModel, device: nnvk.Device, pictures: Sequence[Picture]) -> Result:
    """Run ``model`` on every picture, one at a time, on ``device``.

    Operations that the device does not support run on the CPU device. Raises `nnvk.NnapiError`.
    """
    start = perf_counter()
    compilation = nnvk.Compilation.create_for_devices(tflite.load(model.path).model, _with_fallback(device))
    compilation.finish()
    compile_ms = (perf_counter() - start) * 1e3

    execution = nnvk.Execution(compilation)
    execution.set_reusable(True)
    (output_type,) = compilation.model.output_types()
    outputs = np.empty((len(pictures), *output_type.dimensions), model.output_dtype)
    times = np.empty((REPEATS, len(pictures)))
    sources = [model.to_input(picture.pixels).reshape(model.input_shape) for picture in pictures]
    current, answer = np.empty_like(sources[0]), np.empty_like(outputs[0])
    execution.set_input(0, current)
    execution.set_output(0, answer)
    for repeat in range(REPEATS):
        for number, source in enumerate(sources):
            current[...] = source
            start = perf_counter()
            execution.compute()
            times[repeat, number] = (perf_counter() - start) * 1e3
            outputs[number] = answer
    return Result(
        model,
        model.to_probabilities(outputs.reshape(len(pictures), -1)),
        _placements(compilation),
        compile_ms,
        float(np.median(times[1:])),
        float(np.min(times[1:])),
    )


def _with_fallback(device: nnvk.Device) -> list[nnvk.Device]:
    """The device, and the CPU device behind it for what it does not support."""
    others = (other for other in nnvk.get_devices() if other.type is nnvk.DeviceTypeCode.CPU)
    return [device, *(other for other in others if other is not device)]


def _placements(compilation: nnvk.Compilation) -> tuple[Placement, ...]:
    """Where each operation runs, in the model's order."""
    model = compilation.model
    device_of = {
        number: partition.device.name for partition in compilation.partitions for number in partition.operations
    }
    return tuple(
        Placement(operation.code.name, model.operands[operation.outputs[0]].type.dimensions, device_of[number])
        for number, operation in enumerate(model.operations)
    )
