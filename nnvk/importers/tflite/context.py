"""A mapper's view of the operator that it maps, and decompositions that many mappers share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import tflite

from nnvk.api import FuseCode, Model, OperandType, OperationCode
from nnvk.importers.decompositions.arithmetic import with_number
from nnvk.importers.decompositions.int64 import Number, Words
from nnvk.importers.dynamic_extents import DynamicExtent
from nnvk.importers.emitter import F32, Emitter, Inputs
from nnvk.importers.errors import NotConstant, Unmapped
from nnvk.importers.graph_builder import Argument, Graph, Value, at_least_1d
from nnvk.importers.ports import COMPLEX
from nnvk.importers.tflite.operands import has_offset, operand_type
from nnvk.importers.tflite.schema import Operator, Tensor
from nnvk.importers.tflite.variables import Variables
from nnvk.types.codes import OperandCode
from nnvk.types.extension import KnownCode
from nnvk.types.operand import Shape

_Kind = tflite.ActivationFunctionType
_FUSED = {
    _Kind.NONE: FuseCode.NONE,
    _Kind.RELU: FuseCode.RELU,
    _Kind.RELU_N1_TO_1: FuseCode.RELU1,
    _Kind.RELU6: FuseCode.RELU6,
}
_AFTER = {
    FuseCode.RELU: (OperationCode.RELU, 0, None),
    FuseCode.RELU1: (OperationCode.RELU1, -1, 1),
    FuseCode.RELU6: (OperationCode.RELU6, 0, 6),
}
"""The operation of each activation, and its limits."""
_MOVING = frozenset(
    {"DEQUANTIZE", "EXPAND_DIMS", "QUANTIZE", "RESHAPE", "SLICE", "SQUEEZE", "STRIDED_SLICE", "TRANSPOSE"}
)
_JOINING = frozenset({"CONCATENATION", "PACK"})
"""The operators with outputs that only have elements of their inputs."""
_MOST_NUMBERS = 64
"""The most numbers of a parameter with some for each axis."""


class Context(Emitter, Inputs[Value]):
    """One operator: its inputs as values, its outputs as the file declares them, and the graph to add to."""

    def __init__(
        self,
        graph: Graph,
        operator: Operator,
        inputs: Sequence[Value | None],
        tensors: Sequence[Tensor],
        subgraph: Callable[[int, Sequence[Value]], Model],
        inlined: Callable[[int, Sequence[Value]], Sequence[Value]],
        round_hybrid: bool,
        writers: Mapping[int, Operator],
        variables: Variables,
        extents: Sequence[DynamicExtent | None],
        words: Sequence[Words | None],
        *,
        is_real: bool = False,
    ) -> None:
        super().__init__(graph)
        self.operator = operator
        self.is_real = is_real
        """Whether the operator computes in real numbers although the file has INT16."""
        self.inputs = inputs
        self.words = words
        """The 64-bit numbers of inputs that are checked to fit into 32 bits."""
        self.extents = extents
        """The dynamic extent of each input, where it has one."""
        self.gives: dict[int, DynamicExtent] = {}
        """Dynamic extents of outputs, by position, where they are not those of inputs."""
        self.outputs = [tensors[index] for index in operator.outputs]
        self.intermediates = [tensors[index] for index in operator.intermediates]
        self.subgraph = subgraph
        """The model of another subgraph by its index and the inputs that it gets, for control flow."""
        self.inlined = inlined
        """The outputs of another subgraph, by its index and inputs, whose operators are added to this graph."""
        self.round_hybrid = round_hybrid
        """Whether to round activations as TFLite's hybrid kernels do."""
        self.variables = variables
        """The resource variables of the subgraph."""
        self.updates: dict[int, Value] = {}
        """New values of variable tensors, by the index of the tensor."""
        self._tensors = tensors
        self._writers = writers

    # --- the operator --------------------------------------------------------------------------------------------

    def tensor(self, position: int) -> Tensor:
        """An input that must be there as the file declares it."""
        return self._tensors[self.index(position)]

    def index(self, position: int) -> int:
        """The number of the tensor that is an input, which must be there."""
        inputs = self.operator.inputs
        if position >= len(inputs) or inputs[position] < 0:
            raise Unmapped(f"input {position} is missing")
        return inputs[position]

    def exact(self, position: int) -> Number:
        """Whole numbers of up to 64 bits: an input that must be there."""
        value = self.input(position)
        return self.wide_number(position) or value

    def wide_number(self, position: int) -> Words | None:
        """The 64-bit number of an input that is checked to fit into 32 bits, if it is one."""
        return self.words[position] if position < len(self.words) else None

    def with_inputs(self, inputs: Sequence[Value | None]) -> Context:
        """A context of the operator with other inputs."""
        other = copy(self)
        other.inputs, other.words = inputs, [None] * len(inputs)
        return other

    def ints(self, position: int, what: str) -> list[int]:
        """The numbers of an integer input, which must be a constant. ``what`` names it in the error.

        They are few: for axes, or one for each output.
        """
        array = self.input(position).known_array
        if array is None:
            raise self.not_constant(f"{what} (input {position}) must be a constant", position)
        if array.dtype.kind not in "iu":
            raise Unmapped(f"{what} (input {position}) must be whole numbers, got {array.dtype}")
        if array.size > (most := max(_MOST_NUMBERS, len(self.outputs))):
            raise Unmapped(f"{what} (input {position}) must be at most {most} numbers, got {array.size}")
        numbers: list[int] = array.reshape(-1).tolist()
        return numbers

    def not_constant(self, reason: str, *positions: int) -> NotConstant:
        """The error of an operator that must know inputs."""
        return NotConstant(reason, [self.operator.inputs[position] for position in positions])

    def integer(self, position: int, what: str) -> int:
        """The one number of an integer input, which must be a constant."""
        numbers = self.ints(position, what)
        if len(numbers) != 1:
            raise Unmapped(f"{what} (input {position}) must be one number, got {len(numbers)}")
        return numbers[0]

    def is_complex(self, position: int) -> bool:
        """Whether an input that must be there is of complex numbers."""
        return self.tensor(position).type == COMPLEX

    def wide(self, position: int) -> np.ndarray | None:
        """The words of a bias of INT64, two for each number, the low one first; None where there is none."""
        index = self.operator.inputs[position] if position < len(self.operator.inputs) else -1
        tensor = self._tensors[index] if index >= 0 else None
        if tensor is None or tensor.type != "INT64":
            return None
        if tensor.data is None:
            raise Unmapped(f"a bias of INT64 (input {position}) must be a constant")
        return np.frombuffer(tensor.data, "<i4").astype(np.int32)

    def is_scalar(self, position: int) -> bool:
        """Whether an input, which must be there, is of TFLite's rank 0, which is [1] in NNAPI."""
        self.input(position)
        tensor = self.tensor(position)
        return tensor.is_static and not tensor.shape

    def comes_from(self, position: int, names: Collection[str]) -> bool:
        """Whether all elements of an input are out of operators of these names, however they were moved since."""
        pending, seen = [self.index(position)], set()
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
        tensor = self.tensor(position)
        if tensor.is_variable:
            self.updates[tensor.index] = value

    def options(self, table: str) -> Any:
        """The generated accessor of the operator's options."""
        return self.operator.options(table)

    def output(self, position: int = 0) -> Tensor:
        """An output as the file declares it."""
        if position >= len(self.outputs):
            raise Unmapped(f"output {position} is missing")
        return self.outputs[position]

    def out(self, position: int = 0) -> OperandType:
        """The operand type of an output as the file declares it, or of the real numbers in its place."""
        tensor = self.output(position)
        declared = operand_type(tensor)
        if has_offset(tensor):
            return F32.with_dimensions(declared.dimensions)
        if self.is_real and declared.code is OperandCode.TENSOR_QUANT16_SYMM:
            return F32.with_dimensions(declared.dimensions)
        return declared

    def declared_shape(self, position: int = 0) -> Shape | None:
        """The shape of an output where the file knows it."""
        tensor = self.output(position)
        return at_least_1d(tensor.shape) if tensor.is_static else None

    # --- adding operations ---------------------------------------------------------------------------------------

    def emit(self, code: KnownCode, *inputs: Argument, out: OperandType | None = None) -> Value:
        """Add an operation of one output, by default of the type of the operator's; inference gives the shape."""
        declared = self.declared_shape() if out is None else None
        types = [self.out() if out is None else out]
        return self.add(code, inputs, types, None if declared is None else [declared])[0]

    def sized(self, code: KnownCode, value: Value, *parameters: Argument) -> Value:
        """`keep`, where the shape may be known from the file alone: parameters may come when the model runs."""
        declared = self.declared_shape()
        shapes = None if declared is None else [declared]
        return self.add(code, (value, *parameters), [value.type], shapes)[0]

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
        if fuse is FuseCode.NONE:
            return value
        code, low, high = _AFTER[fuse]
        if value.code is not OperandCode.TENSOR_INT32:
            return self.keep(code, value)
        value = with_number(self, OperationCode.MAXIMUM, value, low)
        return value if high is None else with_number(self, OperationCode.MINIMUM, value, high)
