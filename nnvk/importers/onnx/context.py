"""A mapper's view of the node that it maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from onnx import GraphProto

from nnvk.importers.bounds import INT32, of_array, of_dtype, within
from nnvk.importers.decompositions.arithmetic import with_number
from nnvk.importers.decompositions.int64 import Number, Words, bounded, low, moved, narrowed, unsigned
from nnvk.importers.decompositions.int64 import constant as int64_constant
from nnvk.importers.emitter import BOOL8, F32, I32, NONE, Emitter, Inputs, is_quantised
from nnvk.importers.errors import NotConstant, Unmapped
from nnvk.importers.graph_builder import Graph, Value, at_least_1d
from nnvk.importers.onnx.narrow import Narrow
from nnvk.importers.onnx.node import Node
from nnvk.importers.onnx.reader import types_of
from nnvk.importers.onnx.tensors import F16, Tensor, carrier
from nnvk.types.codes import OperationCode
from nnvk.types.constant import OpenConstant, converted
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

_MOST_NUMBERS = 4096
"""The most numbers of a parameter with some for each axis, or for each part."""


class Surroundings(Protocol):
    """The questions that a mapper may ask of the graph that its node is in."""

    def follower(self, name: str) -> Node | None:
        """The one node that reads a tensor, which is no output of the model; None where there are others."""

    def constant(self, name: str) -> np.ndarray | None:
        """The elements of a tensor, where they are known before it is read."""

    def absorb(self, node: Node) -> None:
        """Say that a follower is done: its output is that of the node that is mapped."""

    def inlined(self, graph: GraphProto, given: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of a graph in this one, whose inputs are ``given``."""

    def choice(self, condition: Value, branches: Sequence[GraphProto]) -> list[Tensor]:
        """The outputs of an IF between two graphs."""


class Context(Emitter, Inputs[Tensor]):
    """One node: its inputs, its attributes, and the graph to add to."""

    rounding = ExtendedOperationCode.QUANTIZE_TIES_TO_EVEN

    def __init__(self, graph: Graph, node: Node, inputs: Sequence[Tensor | None], around: Surroundings) -> None:
        super().__init__(graph)
        self.node = node
        self.inputs = inputs
        self.outside = around

    # --- inputs --------------------------------------------------------------------------------------------------

    tensor = Inputs[Tensor].input
    tensors = Inputs[Tensor].all_inputs

    def has(self, position: int) -> bool:
        """Whether an input is there."""
        return self.optional(position) is not None

    def wants(self, position: int) -> bool:
        """Whether somebody wants an output."""
        return position < len(self.node.outputs) and bool(self.node.outputs[position])

    def carried(self, tensor: Tensor) -> Value:
        """The NNAPI tensor, which is quantised where that is how it came about.

        Whole numbers of 64 bits are checked to fit into 32 when the model runs.
        """
        if tensor.words is not None:
            return narrowed(self, tensor.words, is_unsigned=tensor.dtype.kind == "u")
        if tensor.value is None:
            tensor.value = self._constant(tensor)
        return tensor.value

    def _constant(self, tensor: Tensor) -> Value:
        """The operand of a constant; other real numbers than FLOAT32 are converted when they are looked at."""
        if not tensor.size:
            raise Unmapped(f"a tensor of shape {list(tensor.shape)} has no elements, which NNAPI has not")
        type_, constant = carrier(tensor.dtype), tensor.constant
        is_of_type = tensor.dtype.kind != "f" or (isinstance(constant, np.ndarray) and tensor.dtype == type_.dtype)
        if constant is None or (is_of_type and not isinstance(constant, OpenConstant)):
            return self.constant(tensor.array, type_)
        shape = at_least_1d(tensor.shape)
        return self.graph.kept(type_.with_dimensions(shape), converted(constant, shape, type_.dtype))

    def plain(self, tensor: Tensor) -> Value:
        """The NNAPI tensor of numbers that stand for themselves: real ones, INT32 or booleans."""
        value = self.carried(tensor)
        if not is_quantised(value):
            return value
        return self.real(value) if tensor.dtype.kind == "f" else value.once("whole", lambda: self._whole(value))

    def _whole(self, value: Value) -> Value:
        """The levels of a quantised tensor as integers."""
        levels = with_number(self, OperationCode.MUL, self.real(value), 1 / value.type.scale, NONE)
        shifted = with_number(self, OperationCode.ADD, levels, value.type.zero_point + 0.5, NONE)
        return self.emit(OperationCode.CAST, self.emit(OperationCode.FLOOR, shifted, out=F32), out=I32)

    def value(self, position: int = 0) -> Value:
        """`carried` of an input: for operators that only move elements, or that NNAPI has quantised."""
        return self.carried(self.tensor(position))

    def number(self, position: int = 0) -> Value:
        """`plain` of an input."""
        return self.plain(self.tensor(position))

    def real_number(self, position: int = 0) -> Value:
        """`plain` of an input that must be of real numbers."""
        value = self.number(position)
        if value.code is not F32.code:
            raise Unmapped(f"input {position} must be of real numbers, got {self.tensor(position).dtype}")
        return value

    def numbers(self) -> list[Value]:
        """`plain` of all inputs."""
        return [self.plain(tensor) for tensor in self.tensors()]

    def array(self, position: int, what: str) -> np.ndarray:
        """The elements of an input that must be a constant. ``what`` names it in the error."""
        tensor = self.tensor(position)
        if not tensor.is_constant:
            raise NotConstant(f"{what} (input {position}) must be a constant", frozenset({self.node.inputs[position]}))
        return tensor.array

    def ints(self, position: int, what: str) -> list[int]:
        """The whole numbers of an input that must be a constant, and few."""
        array = self.array(position, what)
        if self.tensor(position).dtype.kind not in "iu":
            raise Unmapped(f"{what} (input {position}) must be whole numbers, got {array.dtype}")
        if array.size > _MOST_NUMBERS:
            raise Unmapped(f"{what} (input {position}) must be at most {_MOST_NUMBERS} numbers, got {array.size}")
        numbers: list[int] = array.reshape(-1).tolist()
        return numbers

    def scalar(self, position: int, what: str) -> float:
        """The one number of an input that must be a constant."""
        array = self.array(position, what)
        if array.size != 1 or self.tensor(position).dtype.kind not in "biuf":
            raise Unmapped(f"{what} (input {position}) must be one number, got {array.dtype} {list(array.shape)}")
        number: float = array.reshape(()).item()
        return number

    def integers(self, name: str, position: int) -> list[int] | None:
        """Whole numbers that are an attribute in older versions, and an input in newer ones."""
        given = self.node.integers(name)
        if given is not None or not self.has(position):
            return given
        return self.ints(position, name)

    def target(self) -> tuple[np.dtype, Narrow | None]:
        """The type that a Cast or CastLike converts to, by the type that carries its numbers, and its format."""
        if self.node.op_type != "Cast":
            like = self.tensor(1)
            return like.dtype, like.narrow
        dtype, narrow = types_of(self.node.integer("to", 0), "its output")
        return dtype if narrow is None else narrow.carrier, narrow

    def needs_words(self, tensor: Tensor) -> bool:
        """Whether it may have whole numbers beyond 32 bits."""
        if isinstance(tensor.constant, OpenConstant) and tensor.constant.bounds is not None:
            return False  # see `nnvk.importers.onnx.open_folding`
        if tensor.words is None and tensor.is_constant and tensor.dtype.kind in "iu" and tensor.dtype.itemsize > 2:
            found = None if within(of_array(tensor.array), INT32) else int64_constant(self, tensor.array)
            tensor.words = found if isinstance(found, Words) else None
        return tensor.words is not None

    def exact(self, tensor: Tensor) -> Number:
        """Integers of up to 64 bits."""
        if self.needs_words(tensor):
            assert tensor.words is not None
            return tensor.words
        value = self.plain(tensor)
        return bounded(value, of_dtype(tensor.dtype)) if tensor.dtype.kind == "u" else value

    # --- outputs -------------------------------------------------------------------------------------------------

    def give(self, value: Value, shape: Sequence[int] | None = None, dtype: np.dtype | type | None = None) -> Tensor:
        """An output of this value.

        Its shape is the value's unless given, and of rank 0 where all inputs are; its type that of the first input,
        unless given or another one than the value is of.
        """
        if shape is None:
            present = [tensor for tensor in self.inputs if tensor is not None]
            is_scalar = value.shape == (1,) and present and not any(tensor.rank for tensor in present)
            shape = () if is_scalar else value.shape
        dtype = self._dtype(value) if dtype is None else np.dtype(dtype)
        return Tensor(dtype, tuple(shape), self.reshape(value, at_least_1d(tuple(shape))), None)

    def give_exactly(self, number: Number, shape: Sequence[int], dtype: np.dtype) -> Tensor:
        """An output of whole numbers, which come round as its type has them; those of UINT64 must fit into 32 bits."""
        if dtype == np.uint32:
            number = unsigned(self, number)
        elif dtype == np.uint64:
            number = narrowed(self, number, is_unsigned=True)
        elif dtype != np.int64:
            number = self.wrapped(low(number), dtype)
        number = moved(self, lambda word: self.reshape(word, at_least_1d(tuple(shape))), number)
        if isinstance(number, Words):
            return Tensor(dtype, tuple(shape), words=number)
        return Tensor(dtype, tuple(shape), number)

    def _dtype(self, value: Value) -> np.dtype:
        first = next((tensor.dtype for tensor in self.inputs if tensor is not None), np.dtype(np.float32))
        if is_quantised(value) or carrier(first).code is value.code:
            return first
        return np.dtype({F32.code: np.float32, I32.code: np.int64, BOOL8.code: np.bool_}[value.code])

    def wrapped(self, value: Value, dtype: np.dtype, bits: int = 0) -> Value:
        """Whole numbers that may have left the range of a type of fewer than 32 bits, as that type has them.

        ``bits`` are those of the type, if it has fewer than ``dtype``.
        """
        bits = bits or dtype.itemsize * 8
        if value.code is not I32.code or dtype.kind not in "iu" or bits >= 32:
            return value
        span, low = 1 << bits, 0 if dtype.kind == "u" else -(1 << (bits - 1))
        shifted = with_number(self, OperationCode.ADD, value, -low, NONE) if low else value
        whole = with_number(self, OperationCode.DIV, shifted, span, NONE)  # rounds down
        rest = with_number(self, OperationCode.MUL, whole, span, NONE)
        return self.emit(OperationCode.SUB, value, rest, NONE, out=I32)

    def halved(self, value: Value) -> Value:
        """FLOAT32 rounded to FLOAT16, as inputs and outputs of models are."""
        return value.once("half", lambda: self.emit(OperationCode.CAST, value, out=F16))

    def rounded(self, value: Value) -> Value:
        """FLOAT32 numbers rounded to the precision of FLOAT16."""
        return self.widened(self.halved(value))

    def cast(self, value: Value, dtype: np.dtype) -> Value:
        """Numbers that stand for themselves in another type; whole numbers wrap round, real ones lose their parts."""
        target = carrier(dtype)
        if value.code is BOOL8.code:
            return value if target.code is BOOL8.code else self.as_number(value, target)
        if target.code is BOOL8.code:
            return self.as_bool(value)
        if value.code is not target.code:
            source = value
            value = value.once(("cast", target.code), lambda: self.emit(OperationCode.CAST, source, out=target))
        return self.wrapped(value, dtype)

    def take_cast(self, value: Value, result: Value) -> None:
        """Let casts of a value to the type of ``result``, which has the same numbers, be that."""
        value.once(("cast", result.code), lambda: result)

    def scaled(self, levels: Value, scale: float, zero_point: int) -> Value:
        """Dequantise levels that are stored as real numbers."""
        less = with_number(self, OperationCode.ADD, levels, -zero_point, NONE) if zero_point else levels
        return with_number(self, OperationCode.MUL, less, scale, NONE)

    def shaped(self, tensor: Tensor, shape: Shape) -> Value:
        """`carried` in another shape."""
        return self.reshape(self.carried(tensor), at_least_1d(shape))
