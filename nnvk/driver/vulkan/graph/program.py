"""Programs: elementwise calls that one dispatch computes (`shaders/include/elementwise.glsl`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from nnvk.ops.call import Call, Tensor
from nnvk.ops.fused import REAL_RANGES, activation_range
from nnvk.ops.internal import InternalCode, code_of, traits_of
from nnvk.ops.traits import Function
from nnvk.types.codes import FuseCode, OperandCode
from nnvk.types.operand import Shape

SOURCES, NUMBERS, RESULTS = 5, 8, 2
"""The most sources, numbers and results of a program."""
INSTRUCTIONS = {"short": 6, "long": 16}
"""The most instructions of a program, by the axis LENGTH of fused_elementwise.comp."""
_FLOAT32, _FLOAT16 = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16
_OPEN = 64
"""The number that is added to the code of an operation if its result is not rounded yet (elementwise.glsl)."""


class Spread(IntEnum):
    """The relation between the elements of a source and of the results."""

    ABSENT = 1
    EACH_ONE = 2
    """The source has an element for each result."""
    SINGLE = 3
    """The source has one element."""
    WITHIN = 4
    """The source is repeated after `Source.size` vec4s."""
    ACROSS = 5
    """Each of its elements counts for `Source.size` vec4s."""


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor that a program reads."""

    index: int
    """The index of the tensor."""
    spread: Spread = Spread.EACH_ONE
    size: int = 1

    def __hash__(self) -> int:
        return hash((self.index, self.spread))  # not of the size, which may be an extent


@dataclass(frozen=True, slots=True)
class Number:
    """A constant, by the bits of its float32, so that 0.0 and -0.0 differ."""

    bits: int

    @classmethod
    def of(cls, value: float) -> Number:
        """The nearest float32."""
        return cls(int(np.float32(value).view(np.uint32)))


@dataclass(frozen=True, slots=True)
class Result:
    """The result of the instruction with this number."""

    instruction: int


Value = Source | Number | Result


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation of a program. An operation on a single operand has it as both operands."""

    function: Function
    left: Value
    right: Value
    is_open: bool = False
    """The limits of an activation follow, so rounding is left to the last of them."""

    @property
    def word(self) -> int:
        """The code of the instruction in elementwise.glsl."""
        return int(self.function) | (_OPEN if self.is_open else 0)


@dataclass(frozen=True, slots=True)
class Formula:
    """The function of an elementwise call."""

    result: int
    """The index of the call's output."""
    operands: tuple[Source | Number, ...]
    tensors: Mapping[int, Tensor]
    """The tensors that are sources, by their indices."""
    function: Function | None
    """None if the call only limits or converts its operand."""
    low: float = -math.inf
    high: float = math.inf
    """The limits of the activation, which follow the function,"""
    has_activation: bool = False
    """if the call has an activation."""
    widens: bool = False
    """Whether the call only converts float16 to float32."""
    is_wide: bool = False
    """Whether the result has 32 bits. With float16 tensors, it is then not rounded."""


class ElementwiseProgram:
    """Instructions in order. Each has sources, numbers and earlier results as operands."""

    def __init__(self, formulas: Iterable[Formula]) -> None:
        """The program of calls by their formulas, in order."""
        self.sources: dict[Source, int] = {}
        self.numbers: dict[Number, int] = {}
        self.instructions: list[Instruction] = []
        self.results: dict[int, Value] = {}
        """The results of all calls, by the indices of the tensors. A conversion to float32 has that of its operand."""
        self.tensors: dict[int, Tensor] = {}
        """The tensors that are sources, by their indices."""
        formulas = tuple(formulas)
        is_mixed = len({formula.is_wide for formula in formulas}) > 1
        for formula in formulas:
            first = len(self.instructions)
            self.results[formula.result] = self._add_formula(formula)
            if is_mixed and formula.is_wide:
                self.instructions[first:] = [replace(each, is_open=True) for each in self.instructions[first:]]

    @classmethod
    def of(cls, calls: Sequence[Call]) -> ElementwiseProgram:
        """The program of calls that have formulas, in order."""
        formulas = [formula_of(call) for call in calls]
        assert None not in formulas, "a call can't be fused"
        return cls(formula for formula in formulas if formula is not None)

    def _add_formula(self, formula: Formula) -> Value:
        operands: list[Value] = []
        for operand in formula.operands:
            if isinstance(operand, Number):
                operands.append(operand)
            elif operand.index in self.results:
                operands.append(self.results[operand.index])
            else:
                operands.append(operand)
                self.tensors.setdefault(operand.index, formula.tensors[operand.index])
        if formula.widens:
            return operands[0]
        if formula.function is None:
            return self.limit(operands[0], formula.low, formula.high, is_stored=True)
        result = self.add(formula.function, *operands)
        if formula.has_activation:
            return self.limit(result, formula.low, formula.high, is_stored=False)
        return result

    def add(self, function: Function, left: Value, right: Value | None = None) -> Result:
        """Append an instruction. An operation on a single operand has it as both operands."""
        right = left if right is None else right
        for value in (left, right):
            if isinstance(value, Source):
                self.sources.setdefault(value, len(self.sources))
            elif isinstance(value, Number):
                self.numbers.setdefault(value, len(self.numbers))
        self.instructions.append(Instruction(function, left, right))
        return Result(len(self.instructions) - 1)

    def limit(self, value: Value, low: float, high: float, *, is_stored: bool) -> Result:
        """The limits of an activation, where they are not infinite.

        ``is_stored``: the activation is a separate operation, so other operations may read its rounded input.
        """
        for function, end in ((Function.AT_LEAST, low), (Function.AT_MOST, high)):
            if math.isfinite(end):
                if isinstance(value, Result) and not is_stored:
                    self.instructions[value.instruction] = replace(self.instructions[value.instruction], is_open=True)
                value = self.add(function, value, Number.of(end))
        return value if isinstance(value, Result) else self.add(Function.AT_LEAST, value, Number.of(-math.inf))

    def result(self, output: Tensor) -> Result:
        """The instruction that computes a tensor."""
        result = self.results[output.index]
        assert isinstance(result, Result), f"{output.name} is only converted"
        return result

    @property
    def fits(self) -> bool:
        """Whether one dispatch can compute it."""
        return (
            len(self.sources) <= SOURCES
            and len(self.numbers) <= NUMBERS
            and len(self.instructions) <= INSTRUCTIONS["long"]
        )


def formula_of(call: Call) -> Formula | None:
    """The formula of a call; None if a program can't compute it: it is on floats, and its parameters are known."""
    if widens(call) or narrows(call):
        function = None if widens(call) else Function.SATURATE
        return _formula(call, [Source(call.input.index)], [call.input], function, widens=widens(call))
    trait = traits_of(code_of(call)).elementwise
    if trait is None or not call.output.size or call.output.code not in (_FLOAT32, _FLOAT16):
        return None
    if any(call.known(name) is None for name in trait.parameters):
        return None
    function = trait.function
    if trait.approximate is not None and call.approximate:
        _, function = trait.approximate
    if trait.clip is FuseCode.NONE and function is None:
        return None
    tensors: list[Tensor] = [getattr(call, name) for name in trait.operands]
    operands = [_operand(tensor, call.output) for tensor in tensors]
    if None in operands:
        return None
    operands += [Number.of(float(getattr(call, name))) for name in trait.numbers] if function is not None else []
    low, high = REAL_RANGES[trait.clip]
    if trait.is_fused:
        low, high = activation_range(call.activation, call.output)
    known = [operand for operand in operands if operand is not None]
    return _formula(call, known, tensors, function, low=low, high=high, has_activation=trait.is_fused)


def _formula(
    call: Call,
    operands: Sequence[Source | Number],
    tensors: Sequence[Tensor],
    function: Function | None,
    **options: Any,
) -> Formula:
    by_index, is_wide = {tensor.index: tensor.whole for tensor in tensors}, call.output.code is _FLOAT32
    return Formula(call.output.index, tuple(operands), by_index, function, is_wide=is_wide, **options)


def widens(call: Call) -> bool:
    """Whether a call converts float16 to float32."""
    return traits_of(code_of(call)).converts and (call.input.code, call.output.code) == (_FLOAT16, _FLOAT32)


def narrows(call: Call) -> bool:
    """Whether a call converts float32 to float16, with numbers beyond the range at its ends."""
    return code_of(call) is InternalCode.CONVERT_FLOAT and call.output.code is _FLOAT16 and bool(call.saturate)


def _operand(tensor: Tensor, output: Tensor) -> Source | Number | None:
    """The operand that a tensor is which broadcasts to an output; None if it is not simply repeated."""
    source = source_of(tensor, output)
    if source is not None and source.spread is Spread.SINGLE and tensor.is_constant:
        return Number.of(tensor.data.item())
    return source


def source_of(tensor: Tensor, output: Tensor) -> Source | None:
    """The source that a tensor is which broadcasts to an output; None if it is not simply repeated."""
    elements, own = output.size, tensor.size
    if own == 1:
        return Source(tensor.index, Spread.SINGLE)
    if own == elements:
        return Source(tensor.index)
    sizes = four_sizes(output.shape)
    kept = [axis for axis, size in enumerate(four_sizes(tensor.shape)) if size > 1]
    inner = math.prod(sizes[kept[-1] + 1 :])
    if math.prod(sizes[kept[0] : kept[-1] + 1]) != own:
        return None  # it is repeated in the middle
    if inner == 1 and own % 4 == 0:
        return Source(tensor.index, Spread.WITHIN, own // 4)
    if inner * own == elements and inner % 4 == 0:
        return Source(tensor.index, Spread.ACROSS, inner // 4)
    return None


def four_sizes(shape: Shape) -> list[int]:
    """The sizes of four dimensions: those of a shape behind sizes of 1."""
    return [1] * (4 - len(shape)) + list(shape)
