"""The emitter that mappers of all formats add operations with, and decompositions that many of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeGuard, TypeVar

import numpy as np

from nnvk.base.extents import has_extents, hint, is_open
from nnvk.importers.bounds import INT32, Bounds, of_array, within
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Argument, Graph, Value, at_least_1d
from nnvk.importers.ranks import add
from nnvk.types.codes import FuseCode, OperandCode, OperationCode
from nnvk.types.constant import Constant, OpenConstant, QuantisedConstant, converted
from nnvk.types.extension import KnownCode
from nnvk.types.operand import QUANTISED_CODES, OperandType, Shape

F32 = OperandType(OperandCode.TENSOR_FLOAT32)
I32 = OperandType(OperandCode.TENSOR_INT32)
BOOL8 = OperandType(OperandCode.TENSOR_BOOL8)
NONE = int(FuseCode.NONE)

_MOVING = frozenset(
    {
        *(OperationCode.CONCATENATION, OperationCode.GATHER, OperationCode.MIRROR_PAD, OperationCode.PACK),
        *(OperationCode.PAD, OperationCode.PAD_V2, OperationCode.REVERSE, OperationCode.SLICE, OperationCode.SPLIT),
        *(OperationCode.STRIDED_SLICE, OperationCode.TILE, OperationCode.TRANSPOSE),
    }
)
"""Operations that only move elements. NNAPI has none of them for booleans."""
_SCALE_TOLERANCE = 1e-6
"""The relative difference of equal scales that converters' rounding may cause."""


T = TypeVar("T")


class Inputs(Generic[T]):
    """The inputs of an operator, some of which may be left out."""

    inputs: Sequence[T | None]

    def optional(self, position: int) -> T | None:
        """An input, None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def input(self, position: int = 0) -> T:
        """An input that must be there."""
        found = self.optional(position)
        if found is None:
            raise Unmapped(f"input {position} is missing")
        return found

    def all_inputs(self) -> list[T]:
        """All inputs of an operator that takes any number."""
        return [self.input(position) for position in range(max(1, len(self.inputs)))]


class Emitter:
    """Adds operations to a graph."""

    rounding: KnownCode = OperationCode.QUANTIZE
    """The operation that quantises real numbers. Formats differ in how they round ties."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    # --- adding operations ---------------------------------------------------------------------------------------

    def add(
        self,
        code: KnownCode,
        inputs: Sequence[Argument],
        types: Sequence[OperandType],
        declared: Sequence[Shape] | None = None,
    ) -> list[Value]:
        """Add an operation on tensors of any rank; booleans are moved as numbers. See `ranks.add`."""
        if code in _MOVING and any(_is_bool(one) for one in inputs):
            numbers = [self.as_number(one, F32) if _is_bool(one) else one for one in inputs]
            return [self.as_bool(value) for value in self.add(code, numbers, [F32] * len(types), declared)]
        return add(self.graph, code, inputs, types, declared)

    def emit(self, code: KnownCode, *inputs: Argument, out: OperandType) -> Value:
        """Add an operation of one output; inference gives the shape."""
        return self.add(code, inputs, [out])[0]

    def keep(self, code: KnownCode, value: Value, *parameters: Argument) -> Value:
        """Add an operation that moves elements: its output has the type of its input."""
        return self.emit(code, value, *parameters, out=value.type)

    def emit_many(self, code: KnownCode, *inputs: Argument, outs: Sequence[OperandType]) -> list[Value]:
        """Add an operation of several outputs; their dimensions count where inference does not tell them."""
        return self.add(code, inputs, outs, [out.dimensions for out in outs])

    def constant(self, elements: np.ndarray | float, type: OperandType) -> Value:
        """Add a constant of few elements, or of an existing array; levels if the type is quantised."""
        array = np.atleast_1d(np.asarray(elements))
        if is_open(array):
            made = OpenConstant.made(array.shape, type.dtype, np.asarray, array, type.dtype)
            made.bounds = of_array(array) if type.code is OperandCode.TENSOR_INT32 else None
            if made.bounds is not None and not within(made.bounds, INT32):
                raise Unmapped(f"whole numbers must fit into 32 bits, got {made.bounds[0]} to {made.bounds[1]}")
            return self.graph.kept(type.with_dimensions(array.shape), made)
        if array.dtype.kind in "iu" and type.code is OperandCode.TENSOR_INT32 and not within(of_array(array), INT32):
            raise Unmapped(f"whole numbers must fit into 32 bits, got {array.min()} to {array.max()}")
        array = np.asarray(array, type.dtype)
        if array.size == 1:
            return self.filled(array.reshape(()), type, array.shape)
        return self.computed(array.shape, type, lambda: array)

    def computed(self, shape: Sequence[int], type: OperandType, make: Callable[[], np.ndarray]) -> Value:
        """Add a constant. ``make`` gives its elements and is called after the budget allowed them."""
        return self.graph.constant(type.with_dimensions(shape), make)

    def whole_numbers(
        self, shape: Sequence[int], known: Bounds, function: Callable[..., np.ndarray], *numbers: Any
    ) -> Value:
        """Add a constant of whole numbers within bounds, which a function gives of sizes that may be extents."""
        if not has_extents(shape) and hint(numbers) is numbers:
            return self.computed(shape, I32, lambda: function(*numbers))
        made = OpenConstant.made(tuple(shape), I32.dtype, function, *numbers)
        made.bounds = known
        return self.graph.kept(I32.with_dimensions(shape), made)

    def deferred(self, shape: Sequence[int], type: OperandType, make: Callable[[], np.ndarray]) -> Value:
        """Add a deferred constant. ``make`` gives its elements whenever they are read, and must not fail."""
        return self.graph.deferred(type.with_dimensions(shape), make)

    # --- quantisation --------------------------------------------------------------------------------------------

    def real(self, value: Value) -> Value:
        """Real numbers of a quantised tensor; constants when they are looked at, other tensors when the model runs."""
        return value.once("real", lambda: self._real(value)) if is_quantised(value) else value

    def _real(self, value: Value) -> Value:
        if value.is_constant:
            return self.graph.kept(F32.with_dimensions(value.shape), dequantized(value))
        return self.emit(OperationCode.DEQUANTIZE, value, out=F32)

    def widened(self, value: Value) -> Value:
        """`real`, and FLOAT16 in FLOAT32."""
        if value.code is not OperandCode.TENSOR_FLOAT16:
            return self.real(value)
        constant, type_ = value.constant, F32.with_dimensions(value.shape)
        if constant is None:
            return self.emit(OperationCode.CAST, value, out=F32)
        return value.once("real", lambda: self.graph.kept(type_, converted(constant, value.shape, F32.dtype)))

    def like(self, value: Value, leading: Value) -> Value:
        """An input beside a real ``leading`` one: hybrid kernels keep weights quantised, NNAPI has none of these."""
        return value if is_quantised(leading) else self.real(value)

    def quantized(self, value: Value, type: OperandType) -> Value:
        """The value in the quantisation of ``type``, or real where that is real."""
        if type.code not in QUANTISED_CODES:
            return self.widened(value) if type.code is OperandCode.TENSOR_FLOAT32 else value
        if value.code is type.code and same_quantisation(value.type, type):
            return value
        if not is_quantised(value) and value.code not in (F32.code, OperandCode.TENSOR_FLOAT16):
            return value
        return self.emit(self.rounding, self.real(value), out=type)

    # --- shape ---------------------------------------------------------------------------------------------------

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape.

        The operation is added with the first use, so that shapes in between, above `MAX_RANK` too, cost nothing.
        """
        shape = at_least_1d(tuple(shape))
        if shape == value.shape:
            return value
        if math.prod(shape) != value.size:
            raise Unmapped(f"a tensor of shape {list(value.shape)} has not as many elements as one of {list(shape)}")
        channels = value.type.channel_quant
        if channels is not None and (channels.channel_dim or shape[0] != value.shape[0]):
            raise Unmapped(
                f"a tensor with scales per channel can't be reshaped from {list(value.shape)} to {list(shape)}"
            )
        return self.graph.reshape(value, shape)

    def around(self, value: Value, axis: int) -> Value:
        """The value with all dimensions before ``axis`` as one and all behind it as one."""
        shape = value.shape
        return self.reshape(value, (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])))

    def broadcast(self, value: Value, shape: Shape) -> Value:
        """The value repeated along its dimensions of size 1 to fill ``shape``."""
        if value.shape == shape:
            return value
        if value.size == math.prod(shape) and value.shape == shape[len(shape) - len(value.shape) :]:
            return self.reshape(value, shape)
        padded = (1,) * (len(shape) - len(value.shape)) + value.shape
        if len(padded) != len(shape) or any(size not in (1, full) for size, full in zip(padded, shape, strict=True)):
            raise Unmapped(f"a tensor of shape {list(value.shape)} can't be broadcast to {list(shape)}")
        if value.is_constant:
            if value.size == 1 and value.type.channel_quant is None:
                return self.filled(value.array.reshape(()), value.type, shape)
            assert value.constant is not None
            return self.graph.computed(value.type.with_dimensions(shape), np.broadcast_to, value.constant)
        if value.code is OperandCode.TENSOR_BOOL8:
            return self.emit(OperationCode.LOGICAL_OR, value, self.filled(False, BOOL8, shape), out=BOOL8)
        repeats = np.array([full // size for size, full in zip(padded, shape, strict=True)])
        return self.emit(OperationCode.TILE, self.reshape(value, padded), repeats, out=value.type)

    def filled(self, number: float | np.ndarray, type: OperandType, shape: Sequence[int]) -> Value:
        """A constant of one number (a level where the type is quantised) everywhere."""
        return self.graph.filled(np.asarray(number, type.dtype), type.with_dimensions(shape))

    # --- booleans ------------------------------------------------------------------------------------------------

    def as_number(self, value: Value, type: OperandType) -> Value:
        """Cast booleans to 1 and 0, which NNAPI's CAST cannot do."""
        source = value.origin or value  # numbers are easier to reshape
        ones, zeros = (self.filled(number, type, source.shape) for number in (1, 0))
        return self.reshape(self.emit(OperationCode.SELECT, source, ones, zeros, out=type), value.shape)

    def as_bool(self, value: Value) -> Value:
        """A boolean tensor: whether each element is not 0."""
        zero = self.constant(value.type.zero_point, value.type)
        return self.emit(OperationCode.NOT_EQUAL, value, zero, out=BOOL8)


def _is_bool(argument: Argument) -> TypeGuard[Value]:
    return isinstance(argument, Value) and argument.code is OperandCode.TENSOR_BOOL8


def is_quantised(value: Value) -> bool:
    """Whether elements are levels of a scale (a bias's scale does not count)."""
    return value.code in QUANTISED_CODES or value.code in (
        OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        OperandCode.TENSOR_QUANT8_SYMM,
    )


def same_quantisation(one: OperandType, other: OperandType) -> bool:
    """Whether two types have the same scale, up to a converter's rounding, and zero point."""
    return one.zero_point == other.zero_point and math.isclose(one.scale, other.scale, rel_tol=_SCALE_TOLERANCE)


def dequantized(value: Value) -> Constant:
    """Real numbers, float32, of a quantised constant."""
    channels, levels, zero_point = value.type.channel_quant, value.array, value.type.zero_point
    if channels is not None:
        return QuantisedConstant(levels, np.array(channels.scales, np.float32), zero_point, channels.channel_dim)
    return QuantisedConstant(levels, np.array(value.type.scale, np.float32), zero_point)
