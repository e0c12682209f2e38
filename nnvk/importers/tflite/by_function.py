"""Operators that a function of the user computes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nnvk.base.text import printable
from nnvk.importers.emitter import F32
from nnvk.importers.errors import NAME_SHOWN, Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.ports import DTYPES
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.operands import UNSIGNED, has_offset, operand_type
from nnvk.importers.tflite.schema import Tensor
from nnvk.importers.user_functions import Given, Node, add, first_states, takes_real
from nnvk.types.operand import OperandType

_NO_SCALES = np.zeros(0, np.float32)


def by_function(c: Context) -> list[Value]:
    """The outputs of an operator that a function computes."""
    if any(extent is not None for extent in c.extents):
        raise Unmapped("data decide the size of an input, which a function can't take")
    custom = c.operator.custom_options() if c.operator.is_custom else b""
    node = Node(
        c.operator.name,
        f"operator {c.operator.index} ({printable(c.operator.name, NAME_SHOWN)})",
        [_given(c, position) for position in range(len(c.operator.inputs))],
        {"custom_options": custom} if custom else {},
        len(c.outputs),
        has_bits=True,
    )
    kept = [(_state(c, name, first), first) for name, first in first_states(c.graph, node).items()]
    before = [c.variables.keep(c.operator.index, tensor, operand_type(tensor), _bits(first)) for tensor, first in kept]
    states = [Given(value, first.dtype, first.shape) for value, (_, first) in zip(before, kept, strict=True)]
    node = replace(node, inputs=[*node.inputs, *states], outputs=len(c.outputs) + len(states))
    declared = [*c.outputs, *(tensor for tensor, _ in kept)]

    def type_of(position: int, dtype: np.dtype) -> OperandType:
        is_real = takes_real(c.operator.name) and bool(declared[position].scales.size)
        expected = F32.dtype if is_real else DTYPES[declared[position].type]
        if dtype != expected:
            what = f"output {position}" if position < len(c.outputs) else declared[position].name
            raise Unmapped(f"its function must give {what} as {expected}, got {dtype}")
        if is_real:
            return F32
        return c.out(position) if position < len(c.outputs) else operand_type(declared[position])

    results = [result.value for result in add(c.graph, node, type_of)]
    for (tensor, _), value in zip(kept, results[len(c.outputs) :], strict=True):
        c.variables.renew(c.operator.index, tensor, value)
    return results[: len(c.outputs)]


def _state(c: Context, name: str, first: np.ndarray) -> Tensor:
    """A state as the file would have it, if it had tensors for the states of operators."""
    return replace(
        c.output(),
        name=f"{c.operator.name} {c.operator.index}/{name}",
        type=first.dtype.name.upper(),
        shape=first.shape,
        signature=first.shape,
        is_static=True,
        scales=_NO_SCALES,
        zero_points=_NO_SCALES,
    )


def _bits(array: np.ndarray) -> np.ndarray:
    """The elements of a state in its operand."""
    numbers = array[..., np.newaxis] if array.dtype == np.uint64 else array
    return np.ascontiguousarray(numbers).view(np.int32) if array.dtype.name.upper() in UNSIGNED else array


def _given(c: Context, position: int) -> Given | None:
    """An input in the file's type and shape."""
    value = c.optional(position)
    if value is None:
        if c.operator.inputs[position] >= 0:
            raise Unmapped(f"input {position} is a resource, which a function can't take")
        return None
    tensor = c.tensor(position)
    if takes_real(c.operator.name) and (has_offset(tensor) or tensor.scales.size):
        return Given(c.real(value), F32.dtype, value.shape)
    if has_offset(tensor):
        raise Unmapped(f"input {position} is of INT16 with the zero point {int(tensor.zero_points[0])}, and not with 0")
    shape = value.shape[:-1] if tensor.type == "UINT64" else value.shape
    if math.prod(tensor.shape) == math.prod(shape) and len(tensor.shape) != len(shape):
        shape = tensor.shape
    return Given(value, DTYPES[tensor.type], shape)
