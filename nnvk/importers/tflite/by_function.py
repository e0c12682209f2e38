"""Operators that a function of the user computes."""

from __future__ import annotations

import math

import numpy as np

from nnvk.base.text import printable
from nnvk.importers.errors import NAME_SHOWN, Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.ports import DTYPES
from nnvk.importers.tflite.context import Context
from nnvk.importers.user_functions import Given, Node, add
from nnvk.types.operand import OperandType


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
    )

    def type_of(position: int, dtype: np.dtype) -> OperandType:
        declared = c.output(position)
        expected = DTYPES[declared.type]
        if dtype != expected:
            raise Unmapped(f"its function must give output {position} as {expected}, got {dtype}")
        return c.out(position)

    return [result.value for result in add(c.graph, node, type_of)]


def _given(c: Context, position: int) -> Given | None:
    """An input in the file's type and shape."""
    value = c.optional(position)
    if value is None:
        if c.operator.inputs[position] >= 0:
            raise Unmapped(f"input {position} is a resource, which a function can't take")
        return None
    tensor = c.tensor(position)
    shape = tensor.shape if math.prod(tensor.shape) == value.size and len(tensor.shape) != len(value.shape) else None
    return Given(value, DTYPES[tensor.type], value.shape if shape is None else shape)
