"""Runs a model on NumPy arrays, operation by operation, control flow included."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nnvk.base import tracing
from nnvk.base.errors import NnapiError, ResultCode, bad_data, op_failed
from nnvk.base.log import logger
from nnvk.ops import flow, functions, registry
from nnvk.ops.call import Call, UnknownValue
from nnvk.ops.flow import Clock
from nnvk.ops.reproducible import reference as reproducible_reference
from nnvk.types.codes import ExtensionCode
from nnvk.types.constant import Constant, elements
from nnvk.types.model import Lifetime, Model, Operation
from nnvk.types.operand import OperandType, Shape

_log = logger("cpuexe")


def run(model: Model, inputs: Sequence[np.ndarray | None], clock: Clock) -> list[np.ndarray]:
    """Outputs of ``model`` for ``inputs``, whose shapes may fill in dimensions that the model left open.

    An input that was omitted is None. Raises what the operations raise, with the operation named.
    """
    values: list[Constant | None] = [operand.constant for operand in model.operands]
    operands = model.with_omitted([array is None for array in inputs]).operands
    for position, (index, array) in enumerate(zip(model.inputs, inputs, strict=True)):
        if array is not None:
            _check_fits(f"input {position}", operands[index].type, array)
        values[index] = array
    last_use = _last_uses(model)
    for number, operation in enumerate(model.operations):
        clock.check()
        try:
            shape = operands[operation.outputs[0]].type.dimensions
            with tracing.span(str(operation), "cpuexe", operation=number, dimensions=shape):
                if isinstance(operation.code, ExtensionCode):
                    outputs = _run_function(model, operation, _elements(values))
                else:
                    call = registry.bind(operation, operands, _elements(values), _shapes(values), model.relaxed)
                    if operation.code in flow.CONTROL_FLOW:
                        outputs = _run_control_flow(model, operation, call, values, clock)
                    else:
                        outputs = _run_reference(call, reproducible=model.reproducible)
        except UnknownValue as error:
            raise bad_data(f"operation {number} ({operation}): {error}") from error
        if _log.isEnabledFor(10):
            _log.debug("%d %s -> %s", number, operation, [array.shape for array in outputs])
        for index, array in zip(operation.outputs, outputs, strict=True):
            values[index] = array
        for index in (*operation.inputs, *operation.outputs):
            if last_use.get(index) == number:
                values[index] = None
    return [_present(values[index], position) for position, index in enumerate(model.outputs)]


def _elements(values: list[Constant | None]) -> Callable[[int], np.ndarray | None]:
    """The values as arrays: constants that are deferred are made once for each operation, and go with it."""

    def elements_of(index: int) -> np.ndarray | None:
        value = values[index]
        return None if value is None else elements(value)

    return elements_of


def _shapes(values: list[Constant | None]) -> registry.Shapes:
    def shape_of(index: int) -> Shape | None:
        value = values[index]
        return None if value is None else value.shape

    return shape_of


def _present(value: Constant | None, position: int) -> np.ndarray:
    if value is None:
        raise bad_data(f"model output {position} has no value")
    return elements(value)


def _last_uses(model: Model) -> dict[int, int]:
    """For each temporary, the last operation that reads it, or else writes it: its memory can go then."""
    uses = {
        index: number
        for number, operation in enumerate(model.operations)
        for index in (*operation.inputs, *operation.outputs)
        if model.operands[index].lifetime is Lifetime.TEMPORARY_VARIABLE
    }
    kept = set(model.outputs)
    return {index: number for index, number in uses.items() if index not in kept}


def _check_fits(what: str, declared: OperandType, array: np.ndarray) -> None:
    """Raise BAD_DATA unless an array has the data type, rank and sizes that a type specifies."""
    if array.dtype != declared.dtype:
        raise bad_data(f"{what} has data of type {array.dtype}, the model says {declared}")
    if declared.is_tensor and declared.dimensions and not registry.compatible(declared.dimensions, array.shape):
        raise bad_data(f"{what} has shape {list(array.shape)}, the model says {list(declared.dimensions)}")


def _run_reference(call: Call, *, reproducible: bool) -> list[np.ndarray]:
    if registry.infer(call) is None:
        raise call.unknown or UnknownValue("an input has no value")
    if not any(math.prod(tensor.shape) for tensor in call.outputs):
        return [np.zeros(tensor.shape, tensor.dtype) for tensor in call.outputs]  # nothing is left to compute
    reference = reproducible_reference(call) if reproducible else registry.lookup(call.code).reference
    if reference is None:
        raise op_failed(f"{call.code.name} has no reference")
    try:
        with registry.naming(call.code):
            result = reference(call)
    except MemoryError as error:
        raise NnapiError(ResultCode.OUT_OF_MEMORY, f"{call.code.name}: {error or 'the memory is full'}") from error
    outputs = result if isinstance(result, list) else [result]
    for tensor, array in zip(call.outputs, outputs, strict=True):
        if array.shape != tensor.shape or array.dtype != tensor.dtype:
            raise op_failed(
                f"{call.code.name}: reference gives {array.dtype}{list(array.shape)} for "
                f"{tensor.name}, inference says {tensor.dtype}{list(tensor.shape)}"
            )
    return outputs


def _run_function(model: Model, operation: Operation, array_of: Callable[[int], np.ndarray | None]) -> list[np.ndarray]:
    """The outputs of an operation that a function in Python computes, checked against the model."""
    inputs = [array for array in map(array_of, operation.inputs) if array is not None]
    outputs = list(functions.compute(operation.code, inputs))
    for position, (index, array) in enumerate(zip(operation.outputs, outputs, strict=True)):
        _check_fits(f"{operation.code.name}: output {position}", model.operands[index].type, array)
    return outputs


def _run_control_flow(
    model: Model, operation: Operation, call: Call, values: list[Constant | None], clock: Clock
) -> list[np.ndarray]:
    array_of = _elements(values)
    registry.infer(call)  # checks the models; the shapes of their outputs show only now
    outputs = flow.run(
        operation,
        flow.referenced_models(model, operation),
        [array_of(index) for index in flow.handed_on(operation)],
        lambda referenced, inputs: run(referenced, inputs, clock),
        lambda condition: condition,
        clock,
    )
    found = [_present(output, position) for position, output in enumerate(outputs)]
    for position, (output, tensor) in enumerate(zip(found, call.outputs, strict=True)):
        _check_fits(f"{call.code.name}: output {position}", tensor.type, output)
    return found
