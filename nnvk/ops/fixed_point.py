"""Fixed-point functions of 16-bit integers, as gemmlowp defines them for TensorFlow Lite, vectorised.

A number with ``i`` integer bits is a 16-bit integer in units of ``2^-(15 - i)``: 0 integer bits cover [-1, 1), 3 cover
[-8, 8). Integers are held in int64; results are bit for bit those of ``gemmlowp::FixedPoint<int16_t, i>``.
"""

from __future__ import annotations

import numpy as np

from nnvk.ops.quant import INT32_MAX, INT32_MIN, rounding_divide_by_pot, saturating_rounding_doubling_high_mul

INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1

_ONE = INT16_MAX
"""1 with 0 integer bits."""
# Constants of gemmlowp's 32-bit formats, rounded to 16 bits as it does.
_EXP_MINUS_EIGHTH = 28918
_THIRD = 10923
_48_OVER_17 = 23130
_MINUS_32_OVER_17 = -15420
_EXP_FACTORS = {-2: 25520, -1: 19875, 0: 12055, 1: 4435, 2: 600, 3: 11, 4: 0}
"""exp(-2^exponent) with 0 integer bits, by exponent."""


def clip(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Clip numbers to the range from ``low`` to ``high``."""
    clipped: np.ndarray = np.clip(x, low, high)
    return clipped


def saturate16(x: np.ndarray) -> np.ndarray:
    """Integers clipped to 16 bits."""
    return clip(x, INT16_MIN, INT16_MAX)


def multiply(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """The product, with the sum of both integer bits: ``round(a * b / 2^15)``, half away from zero."""
    product = np.asarray(a, np.int64) * b
    total = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    # C++ divides towards zero.
    return np.minimum(np.where(total >= 0, total >> 15, -((-total) >> 15)), INT16_MAX)


def shift(x: np.ndarray, exponent: int, low: int = INT16_MIN, high: int = INT16_MAX) -> np.ndarray:
    """``x * 2^exponent``, rounded half away from zero, or saturated."""
    if exponent <= 0:
        return rounding_divide_by_pot(x, -exponent)
    return clip(np.asarray(x, np.int64) << exponent, low, high)


def rescale(x: np.ndarray, integer_bits: int, to: int) -> np.ndarray:
    """The same number with other integer bits."""
    return shift(x, integer_bits - to)


def _exp_between_minus_quarter_and_0(a: np.ndarray) -> np.ndarray:
    """``exp(a)`` for a in [-1/4, 0), all with 0 integer bits: the Taylor expansion around -1/8."""
    x = a + (1 << 12)
    x2 = multiply(x, x)
    x3 = multiply(x2, x)
    x4 = multiply(x2, x2)
    tail = shift(multiply(shift(x4, -2) + x3, _THIRD) + x2, -1)
    return saturate16(_EXP_MINUS_EIGHTH + multiply(x + tail, _EXP_MINUS_EIGHTH))


def exp_of_negative(a: np.ndarray, integer_bits: int) -> np.ndarray:
    """``exp(a)``, with 0 integer bits, for a <= 0."""
    a = np.asarray(a, np.int64)
    fraction_bits = 15 - integer_bits
    if fraction_bits >= 2:
        quarter = 1 << (fraction_bits - 2)
        below = (a & (quarter - 1)) - quarter
    else:
        below = np.zeros_like(a)
    result = _exp_between_minus_quarter_and_0(rescale(below, integer_bits, 0))
    remainder = below - a
    for exponent, factor in _EXP_FACTORS.items():
        if integer_bits > exponent:
            bit = 1 << (fraction_bits + exponent)
            result = np.where(remainder & bit, multiply(result, factor), result)
    if integer_bits > 5:
        result = np.where(a < -32 << fraction_bits, 0, result)
    return np.where(a == 0, _ONE, result)


def _newton_reciprocal(a: np.ndarray) -> np.ndarray:
    """``2 / (1 + a)``, with 2 integer bits, for a in [0, 1) with 0: three Newton-Raphson iterations."""
    half_denominator = (a + _ONE + 1) // 2
    x = multiply(half_denominator, _MINUS_32_OVER_17) + _48_OVER_17
    one = 1 << 13
    for _ in range(3):
        x = x + rescale(multiply(x, one - multiply(half_denominator, x)), 4, 2)
    return x


def logistic(a: np.ndarray, integer_bits: int) -> np.ndarray:
    """``1 / (1 + exp(-a))`` with 0 integer bits."""
    a = np.asarray(a, np.int64)
    positive = rescale(_newton_reciprocal(exp_of_negative(-np.abs(a), integer_bits)), 1, 0)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, _ONE - positive))


def tanh(a: np.ndarray, integer_bits: int) -> np.ndarray:
    """``tanh(a)`` with 0 integer bits."""
    a = np.asarray(a, np.int64)
    # exp(-2 |a|): the same integer with one integer bit more is twice the number
    magnitude = rescale(_newton_reciprocal(exp_of_negative(-np.abs(a), integer_bits + 1)) - (1 << 13), 2, 0)
    return np.where(a < 0, -magnitude, np.where(a > 0, magnitude, 0))


def inverse_square_root(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mantissa (Q31) and shift (negative: right), as of a quantised multiplier, of ``1 / sqrt(x)`` for 32-bit x >= 0.

    0 counts as 1. (GetInvSqrtQuantizedMultiplierExp.)
    """
    x = np.asarray(x, np.int64)
    scaled = np.maximum(x, 2)
    right = np.full(x.shape, 11, np.int64)
    for _ in range(2):  # 2^31 needs no more
        large = scaled >= 1 << 29
        scaled, right = np.where(large, scaled // 4, scaled), right + large
    leading_zeros = 31 - np.floor(np.log2(scaled)).astype(np.int64)
    pairs = (leading_zeros - 1) // 2 - 1
    scaled, right = scaled << (2 * pairs), right - pairs

    def to_3_integer_bits(y: np.ndarray, integer_bits: int) -> np.ndarray:
        return shift(y, integer_bits - 3, INT32_MIN, INT32_MAX)

    product = saturating_rounding_doubling_high_mul
    half_input = rounding_divide_by_pot(scaled >> 1, 1)
    root = np.full(x.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = to_3_integer_bits(product(product(root, root), root), 9)
        root = to_3_integer_bits(product(root, (1 << 28) + (1 << 27)) - product(half_input, cube), 6)
    root = product(root, 1518500250)  # sqrt(1/2)
    root, right = root << np.maximum(-right, 0), np.maximum(right, 0)
    small = x <= 1
    return np.where(small, INT32_MAX, root), np.where(small, 0, -right)
