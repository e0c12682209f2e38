"""The checks at a model's finish, and the order in which its operations run."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from nnvk.base.checks import shown
from nnvk.base.errors import bad_data
from nnvk.base.extents import is_open
from nnvk.ops.check import check_calls
from nnvk.ops.control_flow import check_nesting
from nnvk.types.codes import OperandCode
from nnvk.types.constant import Constant, DeferredConstant
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType, Shape

_WRITTEN = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)
"""Lifetimes of operands that exactly one operation writes."""


def as_array(value: Any, type: OperandType, what: str) -> np.ndarray:
    """``value`` as an array of the type's dtype and dimensions; a view wherever ``value`` is a buffer.

    BAD_DATA where its bytes are not exactly those of the type, or its shape is another (`check_shape`).
    """
    if type.code is OperandCode.MODEL:
        raise bad_data(f"{what}: an operand of type MODEL takes a model")
    if isinstance(value, (bool, int, float, list, tuple, np.generic)):
        array = _converted(value, type, what)
    elif isinstance(value, np.ndarray) and is_open(value):
        return value
    elif isinstance(value, np.ndarray):
        check_dtype(value, type, what)
        array = value
    else:
        try:
            array = np.frombuffer(value, np.uint8)
        except TypeError as error:
            expected = "expected an array, a buffer or a number"
            raise TypeError(f"{what}: {expected}, got {shown(value)}: {error}") from None
        except (ValueError, BufferError) as error:
            raise bad_data(f"{what}: expected an array, a buffer or a number, got {shown(value)}: {error}") from None
    if not array.flags.c_contiguous:
        raise bad_data(f"{what}: the array must be C-contiguous")
    needed = math.prod(type.dimensions) * type.dtype.itemsize
    if array.nbytes != needed:
        raise bad_data(f"{what}: {type} needs {needed} bytes, got {array.nbytes}")
    check_shape(array, type, what)
    return array.reshape(-1).view(type.dtype).reshape(type.dimensions)


def checked(constant: DeferredConstant, type: OperandType, what: str) -> DeferredConstant:
    """A deferred constant of a type. BAD_DATA: it has another NumPy type or other dimensions."""
    if constant.dtype != type.dtype or constant.shape != type.dimensions:
        raise bad_data(f"{what}: {type} takes elements of its type and shape, got {constant!r}")
    return constant


def check_dtype(array: np.ndarray, type: OperandType, what: str) -> None:
    """Raise BAD_DATA unless an array has the type's dtype, or is plain bytes: uint8 of rank 1, or of any for BOOL8."""
    if array.dtype == type.dtype:
        return
    if array.dtype != np.uint8 or (array.ndim >= 2 and type.dtype != np.bool_):
        raise bad_data(
            f"{what}: {type} takes arrays of {type.dtype}, or flat ones of uint8 as plain bytes, "
            f"got {array.dtype}{list(array.shape)}"
        )


def check_shape(array: np.ndarray, type: OperandType, what: str) -> None:
    """Raise BAD_DATA where an array of rank 2 or more has not the type's shape; sizes of 1 don't count."""
    if array.ndim >= 2 and array.shape != type.dimensions and _long(array.shape) != _long(type.dimensions):
        raise bad_data(f"{what}: {type} takes arrays of its shape, or flat ones, got one of shape {list(array.shape)}")


def _long(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


def _converted(value: Any, type: OperandType, what: str) -> np.ndarray:
    """Convert numbers to an array. BAD_DATA: the type cannot hold one."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biuf":
            raise TypeError("it is no real number")
        array = np.asarray(value, type.dtype)
    except (ValueError, OverflowError, TypeError) as error:
        raise bad_data(f"{what}: {shown(value)} is no {type}: {error}") from None
    if given.dtype.kind == "f" and array.dtype.kind != "f" and given.size:
        raise bad_data(f"{what}: {shown(value)} is no {type}: it takes whole numbers")
    if array.dtype.kind in "iu" and (array != given).any():  # NumPy's own numbers wrap round
        limits = np.iinfo(array.dtype)
        raise bad_data(f"{what}: {shown(value)} is no {type}: it takes {limits.min} to {limits.max}")
    return array


def read_only(array: np.ndarray) -> np.ndarray:
    """A read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def freeze(
    types: Sequence[OperandType],
    values: Mapping[int, Constant | None],
    subgraphs: Mapping[int, Model],
    operations: Sequence[Operation],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    relaxed: bool,
) -> Model:
    """Check everything that can be known and build the frozen model, operations in the order of execution."""
    given, wanted = frozenset(inputs), frozenset(outputs)
    writer = _writers(operations, values, subgraphs, given)
    operands = tuple(_operand(index, type_, values, subgraphs, given, wanted) for index, type_ in enumerate(types))
    for index, operand in enumerate(operands):
        operand.type.check_channels(f"operand {index}")
        if operand.type.code is OperandCode.MODEL and operand.subgraph is None:
            raise bad_data(f"operand {index} is of type MODEL and refers to none")
        if operand.lifetime in _WRITTEN and index not in writer:
            output = f", output {outputs.index(index)} of the model," if index in outputs else ""
            raise bad_data(f"operand {index}{output} is no input, has no value, and no operation writes it")
    ordered = _in_order(operations, writer)
    model = Model(operands, tuple(ordered), inputs, outputs, relaxed)
    check_nesting(model)
    check_calls(model)
    return model


def _writers(
    operations: Sequence[Operation],
    values: Mapping[int, Constant | None],
    subgraphs: Mapping[int, Model],
    inputs: Set[int],
) -> dict[int, int]:
    """The position of the one operation that writes each operand; constants and inputs have no writer."""
    writer: dict[int, int] = {}
    for number, operation in enumerate(operations):
        for index in operation.outputs:
            if index in writer:
                raise bad_data(
                    f"operand {index} is written by two operations, {operations[writer[index]]} and {operation}"
                )
            if index in values or index in subgraphs or index in inputs:
                raise bad_data(f"{operation}: operand {index} is an input or a constant and can't be written")
            writer[index] = number
    return writer


def _operand(
    index: int,
    type_: OperandType,
    values: Mapping[int, Constant | None],
    subgraphs: Mapping[int, Model],
    inputs: Set[int],
    outputs: Set[int],
) -> Operand:
    if index in subgraphs:
        return Operand(type_, Lifetime.SUBGRAPH, subgraph=subgraphs[index])
    if index in values:
        value = values[index]
        return Operand(type_, Lifetime.NO_VALUE if value is None else Lifetime.CONSTANT, value)
    if index in inputs:
        return Operand(type_, Lifetime.SUBGRAPH_INPUT)
    return Operand(type_, Lifetime.SUBGRAPH_OUTPUT if index in outputs else Lifetime.TEMPORARY_VARIABLE)


def _in_order(operations: Sequence[Operation], writer: Mapping[int, int]) -> list[Operation]:
    """Sort operations topologically, otherwise in the order in which they were added."""
    waiting = [{writer[index] for index in operation.inputs if index in writer} for operation in operations]
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
