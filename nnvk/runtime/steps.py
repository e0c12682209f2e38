"""Runs a compilation of several steps: step by step, intermediate results in buffers of the runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnvk.base.errors import ResultCode, op_failed
from nnvk.runtime.compilation import Step
from nnvk.types.model import Model
from nnvk.types.request import (
    ExecuteOptions,
    ExecutionResult,
    InputArgument,
    OutputArgument,
    OutputShape,
    Request,
)


def run_steps(model: Model, steps: Sequence[Step], request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Execute the steps in order. The result has the shapes of the model's outputs and no timing."""
    values = {
        index: argument.array for index, argument in zip(model.inputs, request.inputs, strict=True)
    }
    outputs = dict(zip(model.outputs, request.outputs, strict=True))
    shapes: dict[int, OutputShape] = {}
    for step in steps:
        result = _run_step(model, step, values, outputs, options)
        shapes.update(zip(step.part.outputs, result.output_shapes, strict=True))
        if result.code is not ResultCode.NO_ERROR:
            known = [shapes.get(index, OutputShape(model.operands[index].type.dimensions)) for index in model.outputs]
            return ExecutionResult(result.code, tuple(known))
    return ExecutionResult(ResultCode.NO_ERROR, tuple(shapes[index] for index in model.outputs))


def _run_step(
    model: Model,
    step: Step,
    values: dict[int, np.ndarray | None],
    outputs: dict[int, OutputArgument],
    options: ExecuteOptions,
) -> ExecutionResult:
    """Execute one step; its results join ``values``. Results of unknown size take a second try, as in HAL 1.3."""
    sizes = [model.operands[index].type.size for index in step.part.outputs]
    while True:
        targets = [_target(index, size, outputs) for index, size in zip(step.part.outputs, sizes, strict=True)]
        request = Request(
            [InputArgument(values[index]) for index in step.part.inputs],
            [OutputArgument(target) for target in targets],
        )
        result = step.prepared.execute(request, options)
        if result.code is ResultCode.NO_ERROR:
            break
        lacking = [
            index for index, shape in zip(step.part.outputs, result.output_shapes, strict=True) if not shape.is_sufficient
        ]
        if any(index in outputs and outputs[index].buffer is not None for index in lacking):
            return result
        needed = [_bytes(model, index, shape) for index, shape in zip(step.part.outputs, result.output_shapes, strict=True)]
        if needed == sizes:
            raise op_failed(f"{step.device.name} calls buffers too small that have the size it asked for")
        sizes = needed
    for index, target, shape in zip(step.part.outputs, targets, result.output_shapes, strict=True):
        if target is not None:
            used = target[: _bytes(model, index, shape)]
            values[index] = used.view(model.operands[index].type.dtype).reshape(shape.dimensions)
    return result


def _target(index: int, size: int, outputs: dict[int, OutputArgument]) -> np.ndarray | None:
    """Where a step's result goes: the application's buffer where it is an output of the model and wanted."""
    argument = outputs.get(index)
    if argument is not None and argument.buffer is not None:
        return argument.buffer
    return np.empty(size, np.uint8)


def _bytes(model: Model, index: int, shape: OutputShape) -> int:
    type_ = model.operands[index].type
    return int(np.prod(shape.dimensions, dtype=np.int64)) * type_.dtype.itemsize
