"""tflite-micro's operators on signals: checks of their tensors, and functions that compute them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tflite

from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.flex_options import FlexOptions
from nnvk.importers.tflite.operands import has_offset, operand_type
from nnvk.importers.tflite.schema import Tensor
from nnvk.importers.user_functions import Given, Node, add
from nnvk.types.operand import OperandType, Shape

_PREFIX = "Signal"
_MOVING = frozenset(
    [
        *("CONCATENATION", "EXPAND_DIMS", "PACK", "PAD", "RESHAPE", "SLICE", "SPLIT", "SPLIT_V", "SQUEEZE"),
        *("STRIDED_SLICE", "TRANSPOSE", "UNPACK"),
    ]
)
"""Operators with outputs that only have elements of their inputs, and zeros."""
_NO_SCALES = np.zeros(0, np.float32)


def is_on_signals(operator: str) -> bool:
    """Whether this is the name of one of these operators. INT16 is never real numbers to them."""
    return operator.startswith(_PREFIX)


def keeps_bits(operator: str, type: str) -> bool:
    """Whether an operator takes tensors whose operands have the bits of unsigned numbers: of "UINT32" or "UINT64"."""
    return is_on_signals(operator) or (type == "UINT32" and operator in _MOVING)


@dataclass(frozen=True, slots=True)
class Edge:
    """The tensor that an input or output must be."""

    what: str
    type: str
    rank: int | None = None

    def check(self, where: str, tensor: Tensor) -> None:
        """`Unmapped` where a tensor is another."""
        if tensor.type != self.type:
            raise Unmapped(f"{self.what} ({where}) must be of {self.type}, got {tensor.type}")
        if self.rank is not None and len(tensor.shape) != self.rank:
            raise Unmapped(f"{self.what} ({where}) must have {self.rank} dimensions, got shape {list(tensor.shape)}")
        if has_offset(tensor):
            raise Unmapped(f"{self.what} ({where}) must have the zero point 0, got {int(tensor.zero_points[0])}")


def check(c: Context, inputs: Sequence[Edge], outputs: Sequence[Edge]) -> None:
    """`Unmapped` where the operator has other tensors."""
    for kind, edges, tensor_of, count in (
        ("input", inputs, c.tensor, len(c.operator.inputs)),
        ("output", outputs, c.output, len(c.outputs)),
    ):
        for position, edge in enumerate(edges):
            edge.check(f"{kind} {position}", tensor_of(position))
        if count > len(edges):
            raise Unmapped(f"there must be {len(edges)} {kind}s, got {count}")


def one_type(c: Context, types: Sequence[str]) -> tuple[str, FlexOptions]:
    """The type of the input and the output, one of ``types``, which the option T has as well, and the options."""
    type_ = c.tensor(0).type
    if type_ not in types:
        raise Unmapped(f"the input (input 0) must be of {', '.join(types)}, got {type_}")
    check(c, [Edge("the input", type_)], [Edge("the output", type_)])
    options, number = FlexOptions(c.operator.custom_options(), {"T": 0}), getattr(tflite.TensorType, type_)
    if options["T"] != number:
        raise Unmapped(f"the option T must be {number}, the number of {type_}, got {options['T']}")
    return type_, options


def shape_of(c: Context, position: int) -> Shape:
    """The shape of an input, as the file has it where it is known."""
    tensor, size = c.tensor(position), c.input(position).size
    if tensor.type == "UINT64":
        size //= 2
    return tensor.shape if math.prod(tensor.shape) == size else c.input(position).shape


def size_of(c: Context, position: int, what: str, divisor: int = 1) -> int:
    """The last size of an input, which must be a multiple of ``divisor``."""
    shape = shape_of(c, position)
    size = shape[-1] if shape else 0
    if size < 1 or size % divisor:
        raise Unmapped(f"the last size of {what} (input {position}) must be a multiple of {divisor}, got {list(shape)}")
    return size


@dataclass(frozen=True, slots=True)
class State:
    """Elements that an operator keeps from one execution to the next, zeros at first."""

    what: str
    type: str
    shape: Shape

    def tensor(self, c: Context) -> Tensor:
        """The state as the file would have it."""
        return replace(
            c.output(),
            name=f"{c.operator.name} {c.operator.index}/{self.what}",
            type=self.type,
            shape=self.shape,
            signature=self.shape,
            is_static=True,
            scales=_NO_SCALES,
            zero_points=_NO_SCALES,
        )


def computed(
    c: Context, function: str, attributes: Mapping[str, Any], states: Sequence[State] = (), work: int = 0
) -> Sequence[Value]:
    """The outputs of the operator, which a function computes. ``work`` is the number of elements beside the inputs.

    It gets the inputs and then the states, UINT32 as int32 of the same bits and UINT64 as two of them, along a last
    dimension more; it gives the outputs and then the new states, likewise.
    """
    c.graph.budget.work(work)
    tensors = [state.tensor(c) for state in states]
    types = [*map(c.out, range(len(c.outputs))), *map(operand_type, tensors)]
    before = [c.variables.keep(c.operator.index, tensor, operand_type(tensor)) for tensor in tensors]
    given = [
        *(_given(c, position) for position in range(len(c.operator.inputs))),
        *(Given(value, value.type.dtype, value.shape) for value in before),
    ]
    where = f"operator {c.operator.index} ({c.operator.name})"

    def type_of(position: int, dtype: np.dtype) -> OperandType:
        return types[position]

    results = [one.value for one in add(c.graph, Node(function, where, given, attributes, len(types)), type_of)]
    for tensor, value in zip(tensors, results[len(c.outputs) :], strict=True):
        c.variables.renew(c.operator.index, tensor, value)
    return results[: len(c.outputs)]


def _given(c: Context, position: int) -> Given:
    value, shape = c.input(position), shape_of(c, position)
    return Given(value, value.type.dtype, (*shape, 2) if c.tensor(position).type == "UINT64" else shape)


# --- numbers in functions ------------------------------------------------------------------------------------


def unsigned(words: np.ndarray) -> np.ndarray:
    """Numbers of 32 bits, as uint64, so that their products have room."""
    return np.ascontiguousarray(words).view(np.uint32).astype(np.uint64)


def unsigned_long(words: np.ndarray) -> np.ndarray:
    """Numbers of 64 bits that are two words each."""
    return np.ascontiguousarray(words).view(np.uint64)[..., 0]


def bits(numbers: np.ndarray) -> np.ndarray:
    """The low 32 bits of numbers."""
    return numbers.astype(np.uint32).view(np.int32)


def long_bits(numbers: np.ndarray) -> np.ndarray:
    """The words of numbers of 64 bits, the low one first."""
    return np.ascontiguousarray(numbers.astype(np.uint64))[..., np.newaxis].view(np.int32)


def bit_length(numbers: np.ndarray) -> np.ndarray:
    """The number of bits of uint64 below 2**53, 0 for 0."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
