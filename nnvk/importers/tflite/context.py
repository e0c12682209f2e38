"""What a mapper sees of the operator that it maps, and the idioms that many of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tflite

from nnvk.api import FuseCode, Model, OperandCode, OperandType, OperationCode
from nnvk.importers.tflite.errors import Unmapped
from nnvk.importers.tflite.graph import MAX_RANK, Argument, Graph, Value
from nnvk.importers.tflite.operands import at_least_1d, operand_type
from nnvk.importers.tflite.schema import Operator, Tensor
from nnvk.importers.tflite.variables import Variables
from nnvk.types.operand import QUANT8_CODES, Shape

F32 = OperandType(OperandCode.TENSOR_FLOAT32)
I32 = OperandType(OperandCode.TENSOR_INT32)
BOOL8 = OperandType(OperandCode.TENSOR_BOOL8)
NONE = int(FuseCode.NONE)

_Kind = tflite.ActivationFunctionType
_FUSED = {
    _Kind.NONE: FuseCode.NONE,
    _Kind.RELU: FuseCode.RELU,
    _Kind.RELU_N1_TO_1: FuseCode.RELU1,
    _Kind.RELU6: FuseCode.RELU6,
}
_AFTER = {
    FuseCode.RELU: OperationCode.RELU,
    FuseCode.RELU1: OperationCode.RELU1,
    FuseCode.RELU6: OperationCode.RELU6,
}
_MOVING = frozenset(
    {"DEQUANTIZE", "EXPAND_DIMS", "QUANTIZE", "RESHAPE", "SLICE", "SQUEEZE", "STRIDED_SLICE", "TRANSPOSE"}
)
_JOINING = frozenset({"CONCATENATION", "PACK"})
"""Operators that give elements of their first input, or of all, and no others."""
_SCALE_TOLERANCE = 1e-6
"""Relative difference of scales that converters leave by rounding, and that means the same."""
_MOST_NUMBERS = 64
"""Numbers of a parameter that has some for each axis."""


class Context:
    """One operator: its inputs as values, its outputs as the file declares them, and the graph to add to."""

    def __init__(
        self,
        graph: Graph,
        operator: Operator,
        inputs: Sequence[Value | None],
        tensors: Sequence[Tensor],
        subgraph: Callable[[int, Sequence[Value]], Model],
        round_hybrid: bool,
        writers: Mapping[int, Operator],
        variables: Variables,
    ) -> None:
        self.graph = graph
        self.operator = operator
        self.inputs = inputs
        self.outputs = [tensors[index] for index in operator.outputs]
        self.intermediates = [tensors[index] for index in operator.intermediates]
        self.subgraph = subgraph
        """The model of another subgraph by its index and the inputs that it gets, for control flow."""
        self.round_hybrid = round_hybrid
        """Whether to round activations as TFLite's hybrid kernels do."""
        self.variables = variables
        """The resource variables of the subgraph."""
        self.updates: dict[int, Value] = {}
        """New values of variable tensors, by the index of the tensor."""
        self._tensors = tensors
        self._writers = writers

    # --- the operator --------------------------------------------------------------------------------------------

    def optional(self, position: int) -> Value | None:
        """An input, None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def input(self, position: int = 0) -> Value:
        """An input that must be there."""
        value = self.optional(position)
        if value is None:
            raise Unmapped(f"input {position} is missing")
        return value

    def all_inputs(self) -> list[Value]:
        """All inputs of an operator that takes any number."""
        return [self.input(position) for position in range(max(1, len(self.inputs)))]

    def ints(self, position: int, what: str) -> list[int]:
        """The numbers of an integer input, which must be a constant. ``what`` names it in the error.

        They are few: for axes, or one for each output.
        """
        array = self.input(position).array
        if array is None:
            raise Unmapped(f"{what} (input {position}) must be a constant")
        if array.dtype.kind not in "iu":
            raise Unmapped(f"{what} (input {position}) must be whole numbers, got {array.dtype}")
        if array.size > (most := max(_MOST_NUMBERS, len(self.outputs))):
            raise Unmapped(f"{what} (input {position}) must be at most {most} numbers, got {array.size}")
        numbers: list[int] = array.reshape(-1).tolist()
        return numbers

    def integer(self, position: int, what: str) -> int:
        """The one number of an integer input, which must be a constant."""
        numbers = self.ints(position, what)
        if len(numbers) != 1:
            raise Unmapped(f"{what} (input {position}) must be one number, got {len(numbers)}")
        return numbers[0]

    def is_scalar(self, position: int) -> bool:
        """Whether an input, which must be there, is of TFLite's rank 0, which is [1] in NNAPI."""
        self.input(position)
        tensor = self._tensors[self.operator.inputs[position]]
        return tensor.is_static and not tensor.shape

    def comes_from(self, position: int, names: Collection[str]) -> bool:
        """Whether all elements of an input are out of operators of these names, however they were moved since."""
        pending, seen = [self.operator.inputs[position]], set()
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            writer = self._writers.get(index)
            if writer is None or not (writer.name in names or writer.name in _MOVING or writer.name in _JOINING):
                return False
            if writer.name not in names:
                pending += writer.inputs if writer.name in _JOINING else writer.inputs[:1]
        return True

    def update(self, position: int, value: Value) -> None:
        """Keep the new value of a state: an input that is a variable tensor."""
        index = self.operator.inputs[position]
        if self._tensors[index].is_variable:
            self.updates[index] = value

    def options(self, table: str) -> Any:
        """The generated accessor of the operator's options."""
        return self.operator.options(table)

    def output(self, position: int = 0) -> Tensor:
        """An output as the file declares it."""
        if position >= len(self.outputs):
            raise Unmapped(f"output {position} is missing")
        return self.outputs[position]

    def out(self, position: int = 0) -> OperandType:
        """The operand type of an output as the file declares it."""
        return operand_type(self.output(position))

    def declared_shape(self, position: int = 0) -> Shape | None:
        """The shape of an output where the file knows it."""
        tensor = self.output(position)
        return at_least_1d(tensor.shape) if tensor.is_static else None

    # --- adding operations ---------------------------------------------------------------------------------------

    def emit(self, code: OperationCode, *inputs: Argument, out: OperandType | None = None) -> Value:
        """Add an operation of one output, by default of the type of the operator's; inference gives the shape."""
        declared = self.declared_shape() if out is None else None
        types = [self.out() if out is None else out]
        return self.graph.emit(code, inputs, types, declared=None if declared is None else [declared])[0]

    def keep(self, code: OperationCode, value: Value, *parameters: Argument) -> Value:
        """Add an operation that moves elements: its output has the type of its input."""
        return self.emit(code, value, *parameters, out=value.type)

    def sized(self, code: OperationCode, value: Value, *parameters: Argument) -> Value:
        """`keep`, where the shape may be known from the file alone: parameters may come when the model runs."""
        declared = self.declared_shape()
        shapes = None if declared is None else [declared]
        return self.graph.emit(code, (value, *parameters), [value.type], declared=shapes)[0]

    def emit_many(self, code: OperationCode, *inputs: Argument, outs: Sequence[OperandType]) -> list[Value]:
        """Add an operation of several outputs; their dimensions count where inference does not tell them."""
        return self.graph.emit(code, inputs, outs, declared=[out.dimensions for out in outs])

    def constant(self, elements: np.ndarray | float, type: OperandType) -> Value:
        """A constant of elements (steps where the type is quantised) that are few, or there already."""
        array = np.atleast_1d(np.asarray(elements, type.dtype))
        return self.computed(array.shape, type, lambda: array)

    def computed(self, shape: Sequence[int], type: OperandType, make: Callable[[], np.ndarray]) -> Value:
        """A constant whose elements ``make`` gives, which is called once there is room for them."""
        return self.graph.constant(type.with_dimensions(shape), make)

    # --- activation ----------------------------------------------------------------------------------------------

    def fuse(self, options: Any) -> FuseCode:
        """The fused activation of the options; NNAPI can't fuse TANH and SIGN_BIT."""
        kind = options.FusedActivationFunction()
        if kind not in _FUSED:
            raise Unmapped(f"NNAPI has no fused activation {kind}")
        return _FUSED[kind]

    def activated(self, value: Value, options: Any) -> Value:
        """The fused activation as an operation of its own, for operations that can't fuse."""
        fuse = self.fuse(options)
        return value if fuse is FuseCode.NONE else self.keep(_AFTER[fuse], value)

    # --- quantisation --------------------------------------------------------------------------------------------

    def real(self, value: Value) -> Value:
        """Real numbers of a quantised tensor; constants are converted now, other tensors when the model runs."""
        return value.once("real", lambda: self._real(value)) if is_quantised(value) else value

    def _real(self, value: Value) -> Value:
        if value.array is not None:
            return self.computed(value.shape, F32, lambda: dequantized(value))
        if value.code is OperandCode.TENSOR_QUANT16_SYMM:
            raise Unmapped(f"NNAPI has no operation that makes real numbers of {value.type}")
        return self.unshaped(OperationCode.DEQUANTIZE, value, out=F32)

    def widened(self, value: Value) -> Value:
        """`real`, and FLOAT16 in FLOAT32."""
        if value.code is not OperandCode.TENSOR_FLOAT16:
            return self.real(value)
        if (array := value.array) is None:
            return self.unshaped(OperationCode.CAST, value, out=F32)
        return value.once("real", lambda: self.computed(value.shape, F32, lambda: array.astype(np.float32)))

    def like(self, value: Value, leading: Value) -> Value:
        """An input beside a real ``leading`` one: hybrid kernels keep weights quantised, NNAPI has none of these."""
        return value if is_quantised(leading) else self.real(value)

    def quantized(self, value: Value, type: OperandType) -> Value:
        """The value in the quantisation of ``type``, or real where that is real."""
        if type.code not in QUANT8_CODES:
            return self.widened(value) if type.code is OperandCode.TENSOR_FLOAT32 else value
        if value.code is type.code and same_quantisation(value.type, type):
            return value
        if not is_quantised(value) and value.code not in (F32.code, OperandCode.TENSOR_FLOAT16):
            return value
        return self.unshaped(OperationCode.QUANTIZE, self.real(value), out=type)

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
        if value.code is OperandCode.TENSOR_BOOL8 and value.array is None:
            return self.as_bool(self.reshape(self.as_number(value, F32), shape))
        return self.graph.reshape(value, shape)

    def around(self, value: Value, axis: int) -> Value:
        """The value with all dimensions before ``axis`` as one and all behind it as one."""
        shape = value.shape
        return self.reshape(value, (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])))

    def unshaped(self, code: OperationCode, value: Value, *parameters: Argument, out: OperandType) -> Value:
        """An operation on each element by itself, which has no need of a rank above `MAX_RANK`."""
        if len(value.shape) <= MAX_RANK:
            return self.emit(code, value, *parameters, out=out)
        flat = self.emit(code, self.reshape(value, (value.size,)), *parameters, out=out)
        return self.reshape(flat, value.shape)

    def broadcast(self, value: Value, shape: Shape) -> Value:
        """The value repeated along its dimensions of size 1 to fill ``shape``."""
        if value.shape == shape:
            return value
        padded = (1,) * (len(shape) - len(value.shape)) + value.shape
        if len(padded) != len(shape) or any(size not in (1, full) for size, full in zip(padded, shape, strict=True)):
            raise Unmapped(f"a tensor of shape {list(value.shape)} can't be broadcast to {list(shape)}")
        if (array := value.array) is not None:
            return self.computed(shape, value.type, lambda: np.broadcast_to(array, shape))
        if value.code is OperandCode.TENSOR_BOOL8:
            return self.emit(OperationCode.LOGICAL_OR, value, self.filled(False, BOOL8, shape), out=BOOL8)
        repeats = [full // size for size, full in zip(padded, shape, strict=True)]
        return self.emit(OperationCode.TILE, self.reshape(value, padded), np.array(repeats), out=value.type)

    def filled(self, number: float, type: OperandType, shape: Sequence[int]) -> Value:
        """A constant of one number (a step where the type is quantised) everywhere."""
        return self.computed(shape, type, lambda: np.full(tuple(shape), number, type.dtype))

    # --- booleans ------------------------------------------------------------------------------------------------

    def as_number(self, value: Value, type: OperandType) -> Value:
        """1 where a boolean tensor is true, 0 elsewhere: NNAPI casts and moves no booleans."""
        ones, zeros = (self.filled(number, type, value.shape) for number in (1, 0))
        return self.emit(OperationCode.SELECT, value, ones, zeros, out=type)

    def as_bool(self, value: Value) -> Value:
        """True where a tensor is not 0."""
        zero = self.constant(value.type.zero_point, value.type)
        return self.emit(OperationCode.NOT_EQUAL, value, zero, out=BOOL8)


def is_quantised(value: Value) -> bool:
    """Whether elements are steps of a scale (a bias's scale does not count)."""
    return value.code in QUANT8_CODES or value.code in (
        OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        OperandCode.TENSOR_QUANT16_SYMM,
        OperandCode.TENSOR_QUANT8_SYMM,
    )


def same_quantisation(one: OperandType, other: OperandType) -> bool:
    """Whether two types have the same scale, up to a converter's rounding, and zero point."""
    return one.zero_point == other.zero_point and math.isclose(one.scale, other.scale, rel_tol=_SCALE_TOLERANCE)


def dequantized(value: Value) -> np.ndarray:
    """Real numbers, float32, of a quantised constant."""
    assert value.array is not None
    real = value.array.astype(np.float32)  # and then in place: a large constant's copies are large
    real -= np.float32(value.type.zero_point)
    channels = value.type.channel_quant
    scale = np.float32(value.type.scale)
    if channels is not None:
        shape = [1] * len(value.shape)
        shape[channels.channel_dim] = -1
        scale = np.array(channels.scales, np.float32).reshape(shape)
    with np.errstate(over="ignore"):
        real *= scale
    return real
