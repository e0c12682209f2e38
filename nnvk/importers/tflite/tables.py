"""Tables for TABLE_LOOKUP with TFLite's result of an elementwise operator for each level.

TFLite has tables for some of them, of 16-bit levels with interpolation, and rescales integers in others. All of that is
done here, once for each level that an input can have.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnvk.api import OperandCode, OperandType, OperationCode
from nnvk.importers.emitter import NONE, same_quantisation
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.ops.interpolated import interpolated, interpolation_table
from nnvk.ops.quant import float32, limits, multiply_by_quantized_multiplier, quantize_multiplier, round_half_away
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode

Function = Callable[[np.ndarray], np.ndarray]
"""A function of real numbers, float32, or of levels, int64."""

_BYTES = frozenset({OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED})
_WIDE = OperandCode.TENSOR_QUANT16_SYMM
_ALL_16 = np.float32(65536)


def are_bytes(*types: OperandType) -> bool:
    """Whether elements of all types are 8-bit levels."""
    return {type_.code for type_ in types} <= _BYTES


def are_quantised(*types: OperandType) -> bool:
    """Whether elements of all types are 8-bit or 16-bit levels."""
    return {type_.code for type_ in types} <= {*_BYTES, _WIDE}


def has_table(source: OperandType, out: OperandType) -> bool:
    """Whether a table can map levels of one type to the other: both have 8 bits, or both 16."""
    return {source.code, out.code} <= _BYTES or source.code is out.code is _WIDE


def look_up(c: Context, source: Value, out: OperandType, levels: Callable[[np.ndarray], np.ndarray]) -> Value:
    """Add a TABLE_LOOKUP. ``levels`` computes the results of levels, int64, which saturate."""
    dtype, out = source.type.dtype, out.with_dimensions(())
    entries = 1 << 8 * dtype.itemsize

    def make() -> np.ndarray:
        every = np.arange(entries).astype(f"u{dtype.itemsize}").view(dtype)
        with np.errstate(all="ignore"):  # infinity is a result, as in C
            return _saturated(levels(every.astype(np.int64)), out)

    table = c.computed((entries,), out, make)
    return c.emit(ExtendedOperationCode.TABLE_LOOKUP, source, table, out=out)


# --- functions of real numbers -------------------------------------------------------------------------------


def real_function(source: OperandType, out: OperandType, function: Function) -> Callable[[np.ndarray], np.ndarray]:
    """Apply a function of real numbers: exact for 8-bit levels, interpolated in a table for 16-bit levels."""
    scale, out_scale = np.float32(source.scale), np.float32(out.scale)

    def each(levels: np.ndarray) -> np.ndarray:
        numbers = function(scale * (levels - source.zero_point).astype(np.float32)) * (np.float32(1) / out_scale)
        return _saturated(round_half_away(numbers.astype(np.float64)) + out.zero_point, out)

    def between(levels: np.ndarray) -> np.ndarray:
        low, high = (np.float32(bound) for bound in limits(_WIDE))
        factor = _ALL_16 / (out_scale * high - out_scale * low)
        return interpolated(levels, interpolation_table(function, scale * low, scale * high, factor))

    return between if source.code is _WIDE else each


def _in_double(function: Callable[[np.ndarray], np.ndarray]) -> Function:
    """A function of floats as C libraries have it: to the last place, in which they differ for some numbers."""
    return lambda x: function(x.astype(np.float64)).astype(np.float32)


exponential = _in_double(np.exp)
_logarithm = _in_double(np.log)
_erfc = _in_double(np.vectorize(math.erfc, otypes=[np.float64]))
_tanh = _in_double(np.tanh)
_expm1 = _in_double(np.expm1)
_HALF, _ONE = np.float32(0.5), np.float32(1)


def logarithm(out: OperandType) -> Function:
    """The natural logarithm. Numbers without one give the lowest number of the output."""
    lowest = np.float32(limits(out.code)[0] - out.zero_point) * np.float32(out.scale)
    return lambda x: np.where(x > 0, _logarithm(x), lowest)


def inverse_root(out: OperandType) -> Function:
    """1 / sqrt(x). Numbers without one give the highest number of the output."""
    highest = np.float32(limits(out.code)[1] - out.zero_point) * np.float32(out.scale)
    return lambda x: np.where(x > 0, _ONE / np.sqrt(x), highest)


def elu(x: np.ndarray) -> np.ndarray:
    """exp(x) - 1 below 0."""
    return np.where(x < 0, _expm1(x), x)


def negated(source: OperandType, _: OperandType) -> Function:
    """TFLite negates levels, whatever their zero point is; the lowest level stays as it is."""
    return lambda levels: (-levels).astype(source.dtype)


def truncated_root(source: OperandType, out: OperandType) -> Function:
    """The square root of levels. TFLite cuts the fraction of a level off, and refuses numbers below 0."""
    scale, out_scale = np.float32(source.scale), np.float32(out.scale)

    def levels(given: np.ndarray) -> np.ndarray:
        numbers = scale * np.maximum(given - source.zero_point, 0).astype(np.float32)
        cut: np.ndarray = np.trunc(np.sqrt(numbers) / out_scale) + out.zero_point
        return cut

    return levels


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU by the error function."""
    return _HALF * x * _erfc(x * np.float32(-math.sqrt(0.5)))


def gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    """The approximation with TANH."""
    inner = x + np.float32(0.044715) * x * x * x
    return _HALF * x * (_ONE + _tanh(np.float32(math.sqrt(2 / math.pi)) * inner))


# --- rescaling -----------------------------------------------------------------------------------------------


def single_ratio(source: OperandType, out: OperandType) -> float:
    """The ratio of two scales, in single precision."""
    return float(np.float32(source.scale) / np.float32(out.scale))


def _double_ratio(source: OperandType, out: OperandType) -> float:
    """The ratio of two scales, in double precision."""
    return float32(source.scale) / float32(out.scale)


def rescaled(
    source: OperandType,
    out: OperandType,
    ratio: float,
    function: Callable[[np.ndarray], np.ndarray] = lambda numbers: numbers,
    *,
    low: float = -math.inf,
    high: float = math.inf,
) -> Callable[[np.ndarray], np.ndarray]:
    """Levels in another quantisation, with two roundings. ``function`` is of levels from the zero point.

    ``ratio`` is that of the scales; ``low`` and ``high`` are real numbers that results are clipped to.
    """
    multiplier = quantize_multiplier(ratio)
    lowest, highest = _level(low, out), _level(high, out)

    def levels(given: np.ndarray) -> np.ndarray:
        moved = multiply_by_quantized_multiplier(function(given - source.zero_point), *multiplier) + out.zero_point
        clipped: np.ndarray = np.clip(moved, lowest, highest)
        return clipped

    return levels


def requantized(c: Context, source: Value, out: OperandType) -> Value:
    """Requantise 8-bit or 16-bit levels to 8-bit or 16-bit levels."""
    if source.code is out.code and same_quantisation(source.type, out):
        return source
    ratio = _double_ratio(source.type, out)
    if has_table(source.type, out):
        return look_up(c, source, out, rescaled(source.type, out, ratio))
    source = _widened(c, source)
    levels = rescaled(source.type, out, ratio)
    return c.quantized(look_up(c, source, _wide(out), lambda given: levels(given) - out.zero_point), out)


def _wide(type_: OperandType) -> OperandType:
    """The 16-bit type whose levels are those of a type of 8 bits, from the zero point."""
    return OperandType(_WIDE, scale=type_.scale)


def _widened(c: Context, value: Value) -> Value:
    """Convert 8-bit levels to the same numbers in 16 bits."""
    return c.quantized(value, _wide(value.type))


def squared_difference(c: Context, first: Value, second: Value, out: OperandType) -> Value:
    """The squared difference of two tensors of INT8, with TFLite's roundings: each gets 7 bits more, and is halved.

    The intermediate results have 16 bits, because the difference of two rescaled tensors is at most 32640.
    """
    twice_largest = 2.0 * float32(max(first.type.scale, second.type.scale))
    between = OperandType(_WIDE, scale=twice_largest / 128)

    def moved(value: Value) -> Value:
        multiplier = quantize_multiplier(float32(value.type.scale) / twice_largest)
        levels = _widened(c, value)
        return look_up(c, levels, between, lambda given: multiply_by_quantized_multiplier(given << 7, *multiplier))

    difference = c.emit(Op.SUB, moved(first), moved(second), NONE, out=between)
    multiplier = quantize_multiplier(twice_largest**2 / float32(16384 * float32(out.scale)))

    def squared(levels: np.ndarray) -> np.ndarray:
        result = multiply_by_quantized_multiplier(levels * levels, *multiplier) + out.zero_point
        return _saturated(result, out) - out.zero_point

    return c.quantized(look_up(c, difference, _wide(out), squared), out)


def comparable(c: Context, first: Value, second: Value) -> tuple[Value, Value]:
    """Two tensors of 8 bits that compare as TFLite compares them: in 256ths, which rescaling rounds twice.

    They are real numbers, the places of the rescaled levels in their order, where that differs from the order of the
    numbers that the levels stand for.
    """
    values = first, second
    if any(value.type.scale >= 1 for value in values):
        return values  # TFLite has no multiplier for them
    rescalings = [_in_256ths(value.type) for value in values]
    levels = [_levels_from_zero(value.type) for value in values]
    numbers = [own.astype(np.float32) * np.float32(value.type.scale) for own, value in zip(levels, values, strict=True)]
    rescaled_levels = [rescale(own) for own, rescale in zip(levels, rescalings, strict=True)]
    if np.array_equal(_order(*numbers), _order(*rescaled_levels)):
        return values
    places = np.unique(np.concatenate(rescaled_levels))
    whole = OperandType(_WIDE, scale=1.0)

    def placed(value: Value, rescale: Callable[[np.ndarray], np.ndarray]) -> Value:
        found = look_up(c, _widened(c, value), whole, lambda given: np.searchsorted(places, rescale(given)))
        return c.real(found)

    return placed(first, rescalings[0]), placed(second, rescalings[1])


def relabelled(c: Context, value: Value, type_: OperandType) -> Value:
    """The same levels in another quantisation."""
    return look_up(c, value, type_, lambda levels: levels)


def as_levels(c: Context, value: Value, zero_point: int | None = None) -> Value:
    """Levels, from their zero point or another one, as the real numbers that they would stand for with scale 1."""
    zero_point = value.type.zero_point if zero_point is None else zero_point
    return c.real(relabelled(c, value, OperandType(value.code, scale=1.0, zero_point=zero_point)))


def _in_256ths(type_: OperandType) -> Callable[[np.ndarray], np.ndarray]:
    """The rescaling of levels from the zero point that comparisons begin with."""
    multiplier = quantize_multiplier(float32(type_.scale))
    return lambda levels: multiply_by_quantized_multiplier(levels << 8, *multiplier)


def _levels_from_zero(type_: OperandType) -> np.ndarray:
    """All levels of a type of 8 bits, from the zero point, int64."""
    low, high = limits(type_.code)
    return np.arange(low, high + 1) - type_.zero_point


def _order(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """-1, 0 or 1 for each pair of a number of the first and one of the second."""
    order: np.ndarray = np.sign(first[:, np.newaxis] - second)
    return order


def _saturated(levels: np.ndarray, type_: OperandType) -> np.ndarray:
    low, high = limits(type_.code)
    saturated: np.ndarray = np.clip(levels, low, high)
    return saturated


def _level(number: float, type_: OperandType) -> int:
    low, high = limits(type_.code)
    if math.isinf(number):
        return high if number > 0 else low
    level = type_.zero_point + int(round_half_away(np.array(np.float32(number) / np.float32(type_.scale), np.float64)))
    return min(max(level, low), high)
