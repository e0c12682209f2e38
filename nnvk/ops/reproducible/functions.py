"""Functions of floats that have the same bits on every device: the same instructions as in shaders/include/math.glsl.

Each is a float32 operation that is rounded correctly; ``a * b + c`` is rounded twice. Subnormal results are zeros.
"""

from __future__ import annotations

import numpy as np

from nnvk.ops.fused import REAL_RANGES
from nnvk.types.codes import FuseCode

LEAST_NORMAL = np.float32(2.0**-126)
_CUT = np.float32(-87.33654)
"""The exponential of a smaller number is subnormal."""


def _f(number: float) -> np.float32:
    return np.float32(number)


def polynomial(x: np.ndarray, *coefficients: float) -> np.ndarray:
    """A polynomial by Horner's scheme, the highest power first."""
    sum_ = np.full_like(x, coefficients[0])
    for each in coefficients[1:]:
        sum_ = sum_ * x + _f(each)
    return sum_


def normal(x: np.ndarray) -> np.ndarray:
    """The numbers, those that are subnormal as zeros of their sign."""
    return np.where(np.abs(x) < LEAST_NORMAL, np.copysign(_f(0), x), x)


def quotient(a: np.ndarray | np.float32, b: np.ndarray | np.float32) -> np.ndarray:
    """The floats nearest to the quotients: those of double precision have enough bits to be rounded again."""
    wide = np.divide(normal(np.asarray(a)), normal(np.asarray(b)), dtype=np.float64)
    return np.where(np.abs(wide) < LEAST_NORMAL, np.copysign(0.0, wide), wide).astype(np.float32)


def square_root(x: np.ndarray) -> np.ndarray:
    """The floats nearest to the roots."""
    return np.sqrt(normal(x))


def inverse_square_root(x: np.ndarray) -> np.ndarray:
    """The quotients of 1 and the roots, each rounded."""
    return quotient(_f(1), square_root(x))


def powers_of_2(exponents: np.ndarray) -> np.ndarray:
    """Powers of 2 as floats."""
    return np.ldexp(_f(1), exponents)


def _reduced(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The n and the r of x = n ln 2 + r."""
    n = np.floor(x * _f(1.44269504088896341) + _f(0.5))
    return n, (x - n * _f(0.693359375)) + n * _f(2.12194440e-4)


EXPONENTIAL = 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1


def _expm1_near_0(r: np.ndarray) -> np.ndarray:
    return (polynomial(r, *EXPONENTIAL) * r) * r + r


def exp(x: np.ndarray, scale: int | np.ndarray = 0) -> np.ndarray:
    """The power e^x 2^scale."""
    n, r = _reduced(np.clip(x, _f(-200), _f(130)))
    power = _expm1_near_0(r) + _f(1)
    whole = np.clip(np.where(np.isnan(n), 0, n).astype(np.int64) + scale, -250, 250)
    part = np.trunc(whole / 2).astype(np.int64)
    scaled = power * powers_of_2(part) * powers_of_2(whole - part)
    is_subnormal = x < _CUT - np.float32(scale) * _f(0.693147182)
    return np.where(np.isnan(x), x, np.where(is_subnormal, _f(0), scaled))


def expm1(x: np.ndarray) -> np.ndarray:
    """The power e^x, less 1."""
    n, r = _reduced(np.clip(x, _f(-30), _f(30)))
    power = powers_of_2(np.where(np.isnan(n), 0, n).astype(np.int64))
    near = power * _expm1_near_0(r) + (power - _f(1))
    return np.where((np.abs(n) > 24) | np.isnan(x), exp(x) - _f(1), near)


_LOGARITHM = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)


def log(x: np.ndarray) -> np.ndarray:
    """The natural logarithm."""
    with np.errstate(all="ignore"):
        bits = x.view(np.uint32).astype(np.int64)
        n = (bits >> 23) - 126
        m = ((bits & 0x7FFFFF) | 0x3F000000).astype(np.uint32).view(np.float32)
        is_small = m < _f(0.707106781)
        m = np.where(is_small, m + m, m) - _f(1)
        whole = np.where(is_small, n - 1, n).astype(np.float32)
        square = m * m
        result = polynomial(m, *_LOGARITHM) * m * square - whole * _f(2.12194440e-4) - _f(0.5) * square + m
        result = result + whole * _f(0.693359375)
    result = np.where(x > 0, result, _f(np.nan))
    result = np.where(np.abs(x) < LEAST_NORMAL, _f(-np.inf), result)
    return np.where(np.isposinf(x), x, result)


def log1p(x: np.ndarray) -> np.ndarray:
    """The natural logarithm of 1 + x, for x from 0 on."""
    sum_ = _f(1) + x
    logarithm = log(sum_)
    return np.where(sum_ < _f(1e9), logarithm + quotient(x - (sum_ - _f(1)), sum_), logarithm)


def tanh(x: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent."""
    square = x * x
    series = -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1
    near = (polynomial(square, *series) * square) * x + x
    far = _f(1) - quotient(_f(2), exp(_f(2) * np.abs(x)) + _f(1))
    return np.where(np.abs(x) < _f(0.625), near, np.where(x < 0, -far, np.where(np.isnan(x), x, far)))


def logistic(x: np.ndarray) -> np.ndarray:
    """The quotient 1 / (1 + e^-x)."""
    tail = exp(-np.abs(x))
    return quotient(np.where(x >= 0, _f(1), tail), _f(1) + tail)


_TAIL = (
    *(5.399194607e-5, 2.674376462e-5, -4.695282988e-4, -3.539205438e-4, 2.986835639e-3, 1.159258080e-3),
    *(-2.272509998e-2, 4.516416989e-2, -1.643250978e-2, -9.652676842e-2, 4.860557974e-1),
)


def _tail_ratio(t: np.ndarray) -> np.ndarray:
    """The tail of the normal distribution beyond t, times e^(t^2 / 2)."""
    return quotient(polynomial(quotient(t - _f(3), t + _f(3)), *_TAIL), _f(1) + t)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function."""
    size, square = np.abs(x), x * x
    series = 7.853850963e-5, -8.010190391e-4, 5.188327303e-3, -2.685381172e-2, 1.128358514e-1, -3.761262582e-1
    near = np.where(size < _f(1e-18), x * _f(1.128379167), polynomial(square, *series, 0.128379167) * x + x)
    far = np.where(size > 6, _f(1), _f(1) - _f(2) * _tail_ratio(size * _f(1.41421356)) * exp(-size * size))
    return np.where(size < 1, near, np.where(x < 0, -far, np.where(np.isnan(x), x, far)))


_TAIL_FROM = -40
"""The exponent below which weights are computed times 2^64, because a product with a subnormal number is none."""


def _from_tail(x: np.ndarray) -> np.ndarray:
    """The number times 2^-64, or 0 where that is subnormal."""
    return np.where(np.abs(x) < _f(2.0**-62), np.copysign(_f(0), x), x * _f(2.0**-64))


def exact_product(a: np.ndarray | np.float32, b: np.ndarray | np.float32) -> tuple[np.ndarray, np.ndarray]:
    """A product as a sum of two floats (Dekker)."""
    a, b = np.asarray(a), np.asarray(b)
    product = np.asarray(a * b)
    a_far, b_far = a * _f(4097), b * _f(4097)
    a_high, b_high = a_far - (a_far - a), b_far - (b_far - b)
    a_low, b_low = a - a_high, b - b_high
    return product, np.asarray(((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)


def _vanished(x: np.ndarray) -> np.ndarray:
    """The product of x and 0, for x < 0."""
    return np.where(np.isinf(x), _f(np.nan), _f(-0.0))


def gelu(x: np.ndarray) -> np.ndarray:
    """The product of x and the share of a normal distribution that is below x."""
    size = np.abs(x)
    square, low = exact_product(size, size)
    is_far = _f(0.5) * square > -_TAIL_FROM
    tail = _tail_ratio(size) * exp(_f(-0.5) * square, np.where(is_far, 64, 0))
    tail = tail - tail * (_f(0.5) * low)
    near = normal(x * (_f(0.5) + _f(0.5) * erf(x * _f(0.70710678))))
    weighted = np.where(size < _f(0.5), near, x * np.where(x > 0, _f(1) - tail, tail))
    result = np.where(is_far, np.where(x > 0, x, _from_tail(x * tail)), weighted)
    return np.where(np.isnan(x) | (size > 20), np.where(np.isnan(x) | (x > 0), x, _f(-0.0)), result)


def _gated(x: np.ndarray, y: np.ndarray, y_low: np.ndarray) -> np.ndarray:
    """The product of x and the logistic function of a number that is the sum of two floats."""
    tail = exp(-np.abs(y), np.where(y < _TAIL_FROM, 64, 0))
    tail = tail - tail * np.where(y < 0, -y_low, y_low)
    share = quotient(tail, _f(1) + tail)
    below = np.where(tail > _f(0.25), share, tail - tail * share)
    result = normal(x * np.where(y >= 0, quotient(_f(1), _f(1) + tail), below))
    result = np.where(y < _TAIL_FROM, _from_tail(x * tail), result)
    is_far = np.isnan(x) | (np.abs(y) > 190)
    return np.where(is_far, np.where(np.isnan(x) | (y > 0), x, _vanished(x)), result)


def swish(x: np.ndarray, alpha: float) -> np.ndarray:
    """The product of x and the logistic function of alpha x."""
    y = _f(alpha) * x
    is_exact = (np.abs(y) > _f(1e-6)) & (np.abs(x) < _f(1e30))
    product, low = exact_product(_f(alpha), x)
    return _gated(x, np.where(is_exact, product, y), np.where(is_exact, low, _f(0)))


def gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    """The product x / 2 (1 + tanh(y / 2)), which is that of x and the logistic function of y.

    y is x (1 + 0.044715 x^2) sqrt(8 / pi).
    """
    square, square_low = exact_product(x, x)
    cube, cube_low = exact_product(square, _f(0.044715))
    cube_low = cube_low + (square_low * _f(0.044715) + square * _f(1.54614449e-9))
    sum_ = _f(1) + cube
    rest = (_f(1) - (sum_ - cube)) + (cube - (sum_ - (sum_ - cube))) + cube_low
    weighted, weighted_low = exact_product(x, sum_)
    weighted_low = weighted_low + x * rest
    y, y_low = exact_product(weighted, _f(1.59576917))
    y_low = y_low + (weighted_low * _f(1.59576917) - weighted * _f(4.53406804e-8))
    is_far = np.isnan(x) | (np.abs(x) > 100)
    return np.where(is_far, np.where(np.isnan(x) | (x > 0), x, _f(-0.0)), _gated(x, y, y_low))


def softplus(x: np.ndarray) -> np.ndarray:
    """The natural logarithm of 1 + e^x."""
    return np.where(np.isnan(x), x, np.maximum(x, _f(0)) + log1p(exp(-np.abs(x))))


def mish(x: np.ndarray) -> np.ndarray:
    """The product of x and the hyperbolic tangent of ln (1 + e^x)."""
    e = exp(np.minimum(x, _f(20)), np.where(x < _TAIL_FROM, 64, 0))
    d = e * (e + _f(2)) + _f(2)
    near = normal(x * np.where(x < 0, e - e * quotient(e * e + e, d), _f(1) - quotient(_f(2), d)))
    result = np.where(x < _TAIL_FROM, _from_tail(x * e), near)
    is_far = np.isnan(x) | (np.abs(x) > 190)
    return np.where(is_far, np.where(np.isnan(x) | (x > 0), x, _vanished(x)), result)


_WORDS = 0, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0x4F10E410
_TWO_OVER_PI = np.array(_WORDS, np.uint64)
"""The bits of 2 / pi, in words."""


def reduced_angle(size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The quadrant, and the angle in it as a sum of two floats, of an angle of at least 0 (Payne and Hanek)."""
    bits = size.view(np.uint32).astype(np.uint64)
    exponent = np.maximum(bits >> np.uint64(23), np.uint64(126)) - np.uint64(126)
    first = np.minimum(exponent >> np.uint64(5), np.uint64(4)).astype(np.int64)
    shift, word = exponent & np.uint64(31), np.uint64(32)
    mantissa = (bits << np.uint64(8) | np.uint64(0x80000000)) & np.uint64(0xFFFFFFFF)
    x, y, z = (
        (((_TWO_OVER_PI[first + at] << word) | _TWO_OVER_PI[first + at + 1]) << shift) >> word for at in range(3)
    )
    product = mantissa * y + (mantissa * z >> word) + (mantissa * x << word)
    high, low = product >> word, product & np.uint64(0xFFFFFFFF)
    quadrant = (high >> np.uint64(30)) + (high >> np.uint64(29) & np.uint64(1))
    fraction = (high << np.uint64(2)).astype(np.uint32).view(np.int32) >> 2
    most = (fraction + 32) & ~63
    near = most.astype(np.float32)
    rest = (fraction - most).astype(np.float32) + low.astype(np.float32) * _f(2.3283064365e-10)
    angle, angle_low = exact_product(near, _f(1.4629181200e-09))
    angle_low = angle_low + (rest * _f(1.4629181200e-09) + near * _f(-4.07094043e-17))
    is_small = size < _f(0.7853981)
    return (
        np.where(is_small, 0, quadrant.astype(np.int64)),
        np.where(is_small, size, angle),
        np.where(is_small, _f(0), angle_low),
    )


def _sine(x: np.ndarray, more: int) -> np.ndarray:
    """The sine of an angle, and a number of quadrants more."""
    quadrant, angle, low = reduced_angle(np.abs(x))
    is_negative = np.signbit(x) & (more == 0)
    quadrant = quadrant + more
    square = angle * angle
    sine = (polynomial(square, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1) * square) * angle + low + angle
    series = polynomial(square, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
    cosine = ((series * square) * square + -angle * low - _f(0.5) * square) + _f(1)
    result = np.where(quadrant & 1 == 0, sine, cosine)
    result = np.where((quadrant & 2 != 0) != is_negative, -result, result)
    return np.where(np.isfinite(x), result, _f(np.nan))


def sin(x: np.ndarray) -> np.ndarray:
    """The sine."""
    return _sine(x, 0)


def cos(x: np.ndarray) -> np.ndarray:
    """The cosine."""
    return _sine(x, 1)


def hard_swish(x: np.ndarray) -> np.ndarray:
    """The product x min(max(x + 3, 0), 6) / 6."""
    return np.where(x >= 3, x, quotient(x * np.clip(x + _f(3), _f(0), _f(6)), _f(6)))


def elu(x: np.ndarray, alpha: float) -> np.ndarray:
    """The number x, or alpha (e^x - 1) where that is negative."""
    return np.where(np.isnan(x) | (x >= 0), x, smaller(normal(_f(alpha) * expm1(x)), _f(0)))


def larger(a: np.ndarray, b: np.ndarray | np.float32) -> np.ndarray:
    """The larger numbers, or NaN where one is that."""
    return np.where((a > b) | np.isnan(a), a, b)


def smaller(a: np.ndarray, b: np.ndarray | np.float32) -> np.ndarray:
    """The smaller numbers, or NaN where one is that."""
    return np.where((a < b) | np.isnan(a), a, b)


def activated(values: np.ndarray, activation: int) -> np.ndarray:
    """The numbers within the range of a fused activation."""
    low, high = REAL_RANGES[FuseCode(activation)]
    return smaller(larger(values, np.float32(low)), np.float32(high))
