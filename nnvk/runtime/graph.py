"""The checks at a model's finish, and the order in which its operations run."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops import registry
from nnvk.types.codes import OperandCode
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType


def as_array(value: Any, type: OperandType, what: str) -> np.ndarray:
    """``value`` as an array of the type's dtype and dimensions; a view wherever ``value`` is a buffer.

    BAD_DATA where its bytes are not exactly those of the type.
    """
    if type.code is OperandCode.MODEL:
        raise bad_data(f"{what}: an operand of type MODEL takes a model")
    if isinstance(value, (bool, int, float, list, tuple, np.generic)):
        try:
            array = np.asarray(value, type.dtype)
        except (ValueError, OverflowError, TypeError) as error:
            raise bad_data(f"{what}: {value!r} is no {type}: {error}") from None
    elif isinstance(value, np.ndarray):
        array = value
    else:
        try:
            array = np.frombuffer(value, np.uint8)
        except (TypeError, ValueError, BufferError) as error:
            raise bad_data(f"{what}: expected an array, a buffer or a number, got {value!r}: {error}") from None
    if not array.flags.c_contiguous:
        raise bad_data(f"{what}: the array must be C-contiguous")
    needed = int(np.prod(type.dimensions, dtype=np.int64)) * type.dtype.itemsize
    if array.nbytes != needed:
        raise bad_data(f"{what}: {type} needs {needed} bytes, got {array.nbytes}")
    return array.reshape(-1).view(type.dtype).reshape(type.dimensions)


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that can't be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def freeze(
    types: Sequence[OperandType],
    values: Mapping[int, np.ndarray | None],
    subgraphs: Mapping[int, Model],
    operations: Sequence[Operation],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    relaxed: bool,
) -> Model:
    """Check everything that can be known and build the frozen model, operations in the order of execution."""
    writer = _writers(operations, values, subgraphs, inputs)
    for position, index in enumerate(outputs):
        if index not in writer:
            raise bad_data(f"operand {index}, output {position} of the model, is written by no operation")
    operands = tuple(
        _operand(index, type_, values, subgraphs, inputs, outputs) for index, type_ in enumerate(types)
    )
    for operation in operations:
        for index in operation.inputs:
            if operands[index].lifetime is Lifetime.TEMPORARY_VARIABLE and index not in writer:
                raise bad_data(f"{operation}: operand {index} has no value and no operation writes it")
            if operands[index].lifetime is Lifetime.SUBGRAPH_OUTPUT and index not in writer:
                raise bad_data(f"{operation}: operand {index} is read before it is written")
    ordered = _in_order(operations, writer)
    model = Model(operands, tuple(ordered), inputs, outputs, relaxed)
    for _ in registry.calls(model, [type_.dimensions for type_ in model.input_types()]):
        pass  # each call was bound and inferred, which is the check of signatures, shapes and known values
    return model


def _writers(
    operations: Sequence[Operation],
    values: Mapping[int, np.ndarray | None],
    subgraphs: Mapping[int, Model],
    inputs: tuple[int, ...],
) -> dict[int, int]:
    """Which operation (by position) writes each operand. Each has one writer, and constants and inputs have none."""
    writer: dict[int, int] = {}
    for number, operation in enumerate(operations):
        for index in operation.outputs:
            if index in writer:
                raise bad_data(f"operand {index} is written by two operations, {operations[writer[index]]} and {operation}")
            if index in values or index in subgraphs or index in inputs:
                raise bad_data(f"{operation}: operand {index} is an input or a constant and can't be written")
            writer[index] = number
    return writer


def _operand(
    index: int,
    type_: OperandType,
    values: Mapping[int, np.ndarray | None],
    subgraphs: Mapping[int, Model],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
) -> Operand:
    if type_.code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL and type_.channel_quant is None and values.get(index) is not None:
        raise bad_data(f"operand {index} is {type_.code.name} and has no scales")
    if index in subgraphs:
        return Operand(type_, Lifetime.SUBGRAPH, subgraph=subgraphs[index])
    if index in values:
        value = values[index]
        return Operand(type_, Lifetime.NO_VALUE if value is None else Lifetime.CONSTANT, value)
    if index in inputs:
        return Operand(type_, Lifetime.SUBGRAPH_INPUT)
    return Operand(type_, Lifetime.SUBGRAPH_OUTPUT if index in outputs else Lifetime.TEMPORARY_VARIABLE)


def _in_order(operations: Sequence[Operation], writer: Mapping[int, int]) -> list[Operation]:
    """Operations so that each comes after those whose results it reads; otherwise as they were added."""
    waiting = [
        {writer[index] for index in operation.inputs if index in writer} for operation in operations
    ]
    readers: dict[int, list[int]] = {}
    for number, needs in enumerate(waiting):
        for need in needs:
            readers.setdefault(need, []).append(number)
    ready = [number for number, needs in enumerate(waiting) if not needs]
    ordered: list[Operation] = []
    while ready:
        number = heapq.heappop(ready)
        ordered.append(operations[number])
        for reader in readers.get(number, ()):
            waiting[reader].discard(number)
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(ordered) != len(operations):
        stuck = [str(operations[number]) for number, needs in enumerate(waiting) if needs]
        raise bad_data(f"the operations form a cycle: {', '.join(stuck[:5])}")
    return ordered
