"""Where generators get their numbers and operands from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from nnvk.ops.quant import is_quantised, limits
from nnvk.ops.signature import F16, F32, I32, Q8, Q8_CHANNEL, Q8_SYMM, Q8S, Q16_ASYMM, Q16_SYMM
from nnvk.types.codes import OperandCode
from nnvk.types.extension import KnownCode
from nnvk.types.model import Model
from nnvk.types.operand import ChannelQuant, OperandType, Shape

T = TypeVar("T")

SCALES = (0.5, 0.25, 1 / 128, 0.05, 1.0, 0.0173)
_ASYMMETRIC = (Q8, Q8S, Q16_ASYMM)


@dataclass(frozen=True, slots=True, eq=False)
class Arg:
    """An input of a case: its type, its value (None: omitted), and what a model does with it."""

    type: OperandType
    data: np.ndarray | None
    is_parameter: bool = False
    """A number or weight that a model mostly has as a constant; otherwise data."""
    model: Model | None = None
    """An operand of type MODEL has this model."""
    index: int | None = None
    """The operand of a graph that this is, where it is one that the graph has."""

    @property
    def shape(self) -> Shape:
        """Actual dimensions."""
        return self.type.dimensions


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One valid operation. The outputs' dimensions are left open."""

    code: KnownCode
    inputs: tuple[Arg, ...]
    outputs: tuple[OperandType, ...]


class Draw:
    """Draws numbers and operands. Graphs and fuzzers override some of it."""

    def __init__(self, seed: int | np.random.Generator = 0) -> None:
        self.rng = np.random.default_rng(seed)

    # --- numbers -------------------------------------------------------------------------------------------------

    def integer(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.integer(0, len(items) - 1)]

    def chance(self, share: float = 0.5) -> bool:
        """True so often."""
        return self.integer(0, 99) < 100 * share

    def sizes(self, rank: int, most: int = 5) -> Shape:
        """A shape."""
        return tuple(self.integer(1, most) for _ in range(rank))

    def loose(self, *shape: int) -> Shape:
        """A shape, or another of as many elements, for operands of which only their number matters."""
        count = math.prod(shape)
        return self.pick([shape, shape, (count,), (1, *shape), (count, 1)])

    # --- types ---------------------------------------------------------------------------------------------------

    def scale(self) -> float:
        """A scale."""
        return self.pick(SCALES)

    def quantised(self, code: OperandCode, shape: Shape = ()) -> OperandType:
        """A type with any quantisation, where it has one."""
        if code not in (*_ASYMMETRIC, Q8_SYMM, Q16_SYMM):
            return OperandType(code, shape)
        low, high = limits(code)
        zero_point = self.integer(low, high) if code in _ASYMMETRIC else 0
        return OperandType(code, shape, self.scale(), zero_point)

    # --- operands ------------------------------------------------------------------------------------------------

    def values(self, type_: OperandType, low: float = -2.0, high: float = 2.0) -> np.ndarray:
        """Values of a type: real numbers from ``low`` to ``high``, all levels of a quantised type, small integers."""
        return np.asarray(self._elements(type_, low, high), type_.dtype)

    def _elements(self, type_: OperandType, low: float, high: float) -> np.ndarray:
        shape, dtype = type_.dimensions, type_.dtype
        if dtype == np.bool_:
            return self.rng.integers(0, 2, shape)
        if dtype.kind == "f":
            return np.asarray(self.rng.random(shape) * (high - low) + low)
        if is_quantised(type_.code):
            least, most = limits(type_.code)
            return self.rng.integers(least, most + 1, shape)
        return self.rng.integers(math.ceil(max(low, -100)), math.floor(min(high, 100)) + 1, shape)

    def new(self, type_: OperandType, low: float = -2.0, high: float = 2.0, *, is_parameter: bool = False) -> Arg:
        """A tensor or scalar of its own."""
        return Arg(type_, self.values(type_, low, high), is_parameter)

    def tensor(self, code: OperandCode, shape: Shape) -> Arg:
        """Data of this shape, of any quantisation. A graph may give what it has."""
        return self.new(self.quantised(code, shape))

    def any(self, code: OperandCode, least: int = 1, most: int = 4) -> Arg:
        """Data of any shape of a rank from ``least`` to ``most``. A graph may give what it has."""
        return self.tensor(code, self.sizes(self.integer(least, most)))

    def weights(self, code: OperandCode, *shape: int, scale: float | None = None) -> Arg:
        """A parameter of many numbers."""
        type_ = self.quantised(code, shape)
        return self.new(replace(type_, scale=scale) if scale else type_, -1.0, 1.0, is_parameter=True)

    def per_channel(self, shape: Shape, channel_dim: int) -> Arg:
        """Weights with a scale for each index of a dimension."""
        scales = tuple(self.pick((0.01, 0.02, 0.005)) for _ in range(shape[channel_dim]))
        type_ = OperandType(Q8_CHANNEL, shape, channel_quant=ChannelQuant(scales, channel_dim))
        return self.new(type_, is_parameter=True)


# --- operands with given values ----------------------------------------------------------------------------------


def ints(*numbers: int, shape: Shape | None = None) -> Arg:
    """An INT32 tensor, of rank 1 unless a shape is given, that a model mostly has as a constant."""
    data = np.array(numbers, np.int32).reshape(len(numbers) if shape is None else shape)
    return Arg(OperandType(I32, data.shape), data, is_parameter=True)


def i32(number: int) -> Arg:
    """An INT32 scalar."""
    return Arg(OperandType(OperandCode.INT32), np.array(number, np.int32), is_parameter=True)


def boolean(truth: bool) -> Arg:
    """A BOOL scalar."""
    return Arg(OperandType(OperandCode.BOOL), np.array(truth), is_parameter=True)


def real(beside: OperandCode, number: float) -> Arg:
    """A FLOAT16 scalar beside TENSOR_FLOAT16, else a FLOAT32 scalar."""
    code = OperandCode.FLOAT16 if beside is F16 else OperandCode.FLOAT32
    return Arg(OperandType(code), np.array(number, OperandType(code).dtype), is_parameter=True)


def given(type_: OperandType, data: object) -> Arg:
    """Data with these values."""
    array = np.asarray(data, type_.dtype)
    return Arg(type_.with_dimensions(array.shape), array)


def omitted(code: OperandCode = F32) -> Arg:
    """An optional operand without a value."""
    return Arg(OperandType(code), None, is_parameter=True)


def like(arg: Arg) -> OperandType:
    """An output of the type and quantisation of an input."""
    return arg.type.with_dimensions(())


def unit(code: OperandCode, scale: float, offset: int) -> OperandType:
    """An output in a fixed scale, whose zero point is ``offset`` above the lowest level; of 16 bits always the same."""
    if code is Q16_SYMM:
        return OperandType(code, (), 1 / 32768)
    return OperandType(code, (), scale, limits(code)[0] + offset) if is_quantised(code) else OperandType(code)
