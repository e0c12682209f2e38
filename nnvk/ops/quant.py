"""Quantised arithmetic as TensorFlow Lite's reference kernels define it, vectorised.

A real multiplier is a 32-bit mantissa in Q31 and a power of two; products are rounded twice, half away from
zero (gemmlowp's SaturatingRoundingDoublingHighMul and RoundingDivideByPOT). Integers are held in int64, so
that nothing overflows on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nnvk.ops.call import Tensor
from nnvk.types.codes import FuseCode, OperandCode

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

_LIMITS = {
    OperandCode.TENSOR_QUANT8_ASYMM: (0, 255),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: (-128, 127),
    OperandCode.TENSOR_QUANT8_SYMM: (-128, 127),
    OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL: (-128, 127),
    OperandCode.TENSOR_QUANT16_SYMM: (-32768, 32767),
    OperandCode.TENSOR_QUANT16_ASYMM: (0, 65535),
}


def limits(code: OperandCode) -> tuple[int, int]:
    """The smallest and largest level of a quantised type."""
    return _LIMITS[code]


def is_quantised(code: OperandCode) -> bool:
    """Whether elements of this type are levels of a scale."""
    return code in _LIMITS


def float32(scale: float) -> float:
    """A scale as NNAPI holds it: rounded to float32."""
    return float(np.float32(scale))


_MOST_LEFT = 29
"""Bits that a multiplier shifts to the left at most: a sum of 1 is then beyond 16 bits, as it is with more, and 32 bits
hold it with its sign and one bit to spare."""


def quantize_multiplier(real: float) -> tuple[int, int]:
    """The mantissa (Q31, in [2^30, 2^31)) and shift (positive: left) that stand for a real multiplier >= 0.

    Multipliers from 2^29 on, with which everything saturates, are the largest that there is.
    """
    if real == 0.0:
        return 0, 0
    if real >= 2.0**_MOST_LEFT:
        return INT32_MAX, _MOST_LEFT
    fraction, shift = math.frexp(real)
    mantissa = math.floor(fraction * 2**31 + 0.5)
    if mantissa == 2**31:
        mantissa, shift = mantissa // 2, shift + 1
    if shift < -31:
        return 0, 0
    return mantissa, shift


def quantize_multipliers(reals: Sequence[float] | np.ndarray, *, above: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """`quantize_multiplier` of each: two int64 arrays. ``above``: the next larger mantissas, not the nearest ones."""
    reals = np.atleast_1d(np.asarray(reals, np.float64))
    fractions, exponents = np.frexp(np.minimum(reals, 2.0**_MOST_LEFT))
    mantissas = np.floor(fractions * 2**31 + (1 if above else 0.5)).astype(np.int64)
    shifts = exponents.astype(np.int64)
    carried = mantissas == 2**31
    mantissas[carried] //= 2
    shifts += carried
    largest = reals >= 2.0**_MOST_LEFT
    mantissas[largest], shifts[largest] = INT32_MAX, _MOST_LEFT
    vanishing = (shifts < -31) | (mantissas == 0)
    mantissas[vanishing] = shifts[vanishing] = 0
    return mantissas, shifts


def saturating_rounding_doubling_high_mul(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """``round(a * b / 2^31)``, halves towards positive infinity, of 32-bit integers."""
    # gemmlowp adds a nudge that depends on the sign and divides towards zero: for all signs that is this shift.
    high = np.asarray(a, np.int64) * b
    high += 1 << 30
    high >>= 31
    saturated: np.ndarray = np.minimum(high, INT32_MAX)
    return saturated


def rounding_divide_by_pot(x: np.ndarray, exponent: np.ndarray | int) -> np.ndarray:
    """``round(x / 2^exponent)``, half away from zero; ``exponent`` >= 0."""
    x = np.asarray(x, np.int64)
    exponent = np.asarray(exponent, np.int64)
    half = (np.int64(1) << exponent) >> 1
    # Halves of negative numbers go down: one less before the shift, which rounds down, unless nothing is shifted out.
    rounded: np.ndarray = (x + half + ((x >> 63) & -(half > 0).astype(np.int64))) >> exponent
    return rounded


def multiply_by_quantized_multiplier(x: np.ndarray, mantissa: np.ndarray | int, shift: np.ndarray | int) -> np.ndarray:
    """``x * mantissa / 2^31 * 2^shift`` with the reference's two roundings; broadcasts. ``x`` has 32 bits.

    Where a shift to the left would leave 32 bits, it saturates, so that the result is beyond all limits of 16 bits.
    """
    x, shift = np.asarray(x, np.int64), np.asarray(shift, np.int64)
    if (shift > 0).any():
        x = np.clip(x << np.maximum(shift, 0), INT32_MIN, INT32_MAX)
    return rounding_divide_by_pot(saturating_rounding_doubling_high_mul(x, mantissa), np.maximum(-shift, 0))


def multiply_once_by_quantized_multiplier(
    x: np.ndarray, mantissa: np.ndarray | int, shift: np.ndarray | int
) -> np.ndarray:
    """``x * mantissa / 2^31 * 2^shift`` with one rounding, halves up; broadcasts. ``x`` has 32 bits."""
    right = 31 - np.asarray(shift, np.int64)
    product: np.ndarray = np.asarray(x, np.int64) * mantissa
    product += np.int64(1) << (right - 1)
    product >>= right
    return product


MOST_WIDE_SHIFT = 7
"""Bits that a multiplier of sums of 64 bits shifts to the left at most."""


def multiply_wide(x: np.ndarray, mantissa: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """``x * mantissa / 2^31 * 2^shift`` of sums of 64 bits, as TFLite has it: with 15 bits of the mantissa, halves up.

    ``shift`` is at most `MOST_WIDE_SHIFT`. Products beyond 64 bits wrap round, and so do results beyond 32.
    """
    reduced, right = short_factors(mantissa, shift)
    return ((x * reduced + (np.int64(1) << (right - 1))) >> right).astype(np.int32).astype(np.int64)


def short_factors(mantissa: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The factors of `multiply_wide`, and the bits by which it shifts to the right."""
    return np.where(mantissa < 0x7FFF0000, (mantissa + (1 << 15)) >> 16, 0x7FFF), 15 - shift


def once_factors(mantissa: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of `multiply_once`."""
    return mantissa, 31 - shift


_MOST_SUM = 2**47 - 1
"""The largest sum that is rescaled with one rounding; sums saturate there."""


def multiply_once(x: np.ndarray, mantissa: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """``x * mantissa / 2^31 * 2^shift`` with one rounding, halves up, of sums of 48 bits.

    ``shift`` is at most `MOST_WIDE_SHIFT`.
    """
    x, (mantissa, right) = np.clip(x, -_MOST_SUM, _MOST_SUM), once_factors(mantissa, shift)
    low = ((x & 0xFFFF) * mantissa + (np.int64(1) << (right - 1))) >> 16
    product: np.ndarray = ((x >> 16) * mantissa + low) >> (right - 16)
    return product


def round_half_away(x: np.ndarray) -> np.ndarray:
    """Round to the nearest integer, halves away from zero (C's ``round``)."""
    rounded: np.ndarray = np.trunc(x + np.copysign(0.5, x))
    return rounded


def dequantize(tensor: Tensor) -> np.ndarray:
    """Real values, float32, of a tensor of any numeric type (per-channel scales too)."""
    data = tensor.data
    if not is_quantised(tensor.code):
        return data.astype(np.float32)
    levels: np.ndarray = data.astype(np.float32) - np.float32(tensor.zero_point)
    scales: np.ndarray | np.float32 = np.float32(tensor.scale)
    channels = tensor.type.channel_quant
    if channels is not None:
        shape = [1] * data.ndim
        shape[channels.channel_dim] = -1
        scales = np.array(channels.scales, np.float32).reshape(shape)
    values: np.ndarray = levels * scales
    return values


def quantize(real: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Real values in the type of ``tensor``: rounded half away from zero and saturated where it is quantised."""
    if not is_quantised(tensor.code):
        return np.asarray(real).astype(tensor.dtype)
    return saturate(round_half_away(np.asarray(real) / np.float32(tensor.scale)) + tensor.zero_point, tensor)


def requantize(source: Tensor, result: Tensor) -> np.ndarray:
    """The levels of a tensor in another one's scale and zero point, halves up, in its dtype."""
    if (source.scale, source.zero_point) == (result.scale, result.zero_point):
        return source.data
    ratio = float32(source.scale) / float32(result.scale)

    def convert(levels: np.ndarray) -> np.ndarray:
        moved = np.floor((levels.astype(np.float64) - source.zero_point) * ratio + 0.5)
        return saturate(moved + result.zero_point, result)

    return map_levels(convert, source.data)


def map_levels(function: Callable[[np.ndarray], np.ndarray], data: np.ndarray) -> np.ndarray:
    """``function`` of each element of an array of integers; of 8-bit ones computed once for each of the 256 levels."""
    if data.dtype.itemsize > 1:
        return function(data)
    table = function(np.arange(256, dtype=np.uint8).view(data.dtype))
    return table[data.view(np.uint8)]


def saturate(levels: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Whole numbers clipped to the limits of a quantised tensor's type, in its dtype. NaN is the highest level."""
    low, high = limits(tensor.code)
    clipped = np.clip(levels, low, high) if levels.dtype.kind in "iu" else np.maximum(np.fmin(levels, high), low)
    saturated: np.ndarray = clipped.astype(tensor.dtype)
    return saturated


def quantised_activation_range(activation: int, tensor: Tensor) -> tuple[int, int]:
    """The levels between which a fused activation keeps a quantised output."""
    low, high = limits(tensor.code)

    def level(real: float) -> int:
        with np.errstate(over="ignore"):
            levels = round_half_away(np.array(real, np.float32) / np.float32(tensor.scale))
        return tensor.zero_point + int(np.clip(levels, INT32_MIN, INT32_MAX))

    if activation == FuseCode.RELU:
        low = max(low, level(0.0))
    elif activation == FuseCode.RELU6:
        low, high = max(low, level(0.0)), min(high, level(6.0))
    elif activation == FuseCode.RELU1:
        low, high = max(low, level(-1.0)), min(high, level(1.0))
    return low, high
