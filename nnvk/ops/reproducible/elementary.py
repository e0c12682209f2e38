"""Powers, angles and hyperbolic functions, as in shaders/include/{pow,circular,hyperbolic}.glsl."""

from __future__ import annotations

import numpy as np

from nnvk.ops.reproducible.functions import (
    EXPONENTIAL,
    LEAST_NORMAL,
    exact_product,
    exp,
    log,
    log1p,
    normal,
    polynomial,
    powers_of_2,
    quotient,
    reduced_angle,
    square_root,
)

_f = np.float32
_HALF_PI, _HALF_PI_LOW, _PI, _PI_LOW = _f(1.57079637), _f(-4.37113883e-8), _f(3.14159274), _f(-8.74227766e-8)
_LN2 = _f(0.693147182)
_NAN, _INFINITY = _f(np.nan), _f(np.inf)


def _within(size: np.ndarray, last: float, near: np.ndarray, far: np.ndarray) -> np.ndarray:
    """The first result up to 1/2, then the second one up to the last argument, and NaN from there on."""
    return np.where(size <= _f(0.5), near, np.where(size <= _f(last), far, _NAN))


# --- angles --------------------------------------------------------------------------------------------------

_TANGENT = (
    *(4.377592144e-3, 8.692682559e-5, 1.083782180e-2, 2.128143210e-2, 5.406005884e-2, 1.333266212e-1),
    3.333334979e-1,
)
_ARCTANGENT = (
    *(-1.793593847e-3, 1.091448081e-2, -3.117761265e-2, 5.795735917e-2, -8.403436629e-2, 1.095218109e-1),
    *(-1.426424079e-1, 1.999854820e-1, -3.333329909e-1),
)
_ARCSINE = 4.216628628e-2, 2.417952637e-2, 4.547037406e-2, 7.495297651e-2, 1.666675248e-1


def tan(x: np.ndarray) -> np.ndarray:
    """The tangent."""
    quadrant, angle, low = reduced_angle(np.abs(x))
    square = angle * angle
    tangent = angle + ((polynomial(square, *_TANGENT) * square) * angle + (square * low + low))
    tangent = np.where(quadrant & 1 != 0, quotient(_f(-1), tangent), tangent)
    return np.where(np.isfinite(x), np.where(np.signbit(x), -tangent, tangent), _NAN)


def _atan_to_1(x: np.ndarray) -> np.ndarray:
    square = x * x
    return (polynomial(square, *_ARCTANGENT) * square) * x + x


def atan(x: np.ndarray) -> np.ndarray:
    """The arctangent."""
    size = np.abs(x)
    beyond = _HALF_PI + (_HALF_PI_LOW - _atan_to_1(np.where(size < _f(1e30), quotient(_f(1), size), _f(0))))
    return np.where(np.isnan(x), x, np.copysign(np.where(size > 1, beyond, _atan_to_1(size)), x))


def atan2(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The angle of the point (x, y)."""
    up, right = np.abs(normal(y)), np.abs(normal(x))
    less, more = np.minimum(up, right), np.maximum(up, right)
    ratio = np.where(less != more, quotient(less, more), _f(1))
    angle = _atan_to_1(np.where((more == 0) | (np.isinf(more) & (less != more)), _f(0), ratio))
    angle = np.where(up > right, _HALF_PI + (_HALF_PI_LOW - angle), angle)
    angle = np.where(np.signbit(x), _PI + (_PI_LOW - angle), angle)
    return np.where(np.isnan(x) | np.isnan(y), _NAN, np.copysign(angle, y))


def _arcsine(x: np.ndarray, square: np.ndarray) -> np.ndarray:
    return (polynomial(square, *_ARCSINE) * square) * x + x


def _twice_arcsine_of_rest(size: np.ndarray) -> np.ndarray:
    """The angle 2 asin(sqrt((1 - x) / 2)), which is acos(x)."""
    square = _f(0.5) * (_f(1) - size)
    return _arcsine(_f(2) * square_root(square), square)


def asin(x: np.ndarray) -> np.ndarray:
    """The arcsine."""
    size = np.abs(x)
    far = _HALF_PI + (_HALF_PI_LOW - _twice_arcsine_of_rest(size))
    return _within(size, 1, _arcsine(x, x * x), np.copysign(far, x))


def acos(x: np.ndarray) -> np.ndarray:
    """The arccosine."""
    size = np.abs(x)
    near, angle = _HALF_PI + (_HALF_PI_LOW - _arcsine(x, x * x)), _twice_arcsine_of_rest(size)
    return _within(size, 1, near, np.where(x > 0, angle, _PI + (_PI_LOW - angle)))


# --- hyperbolic functions ------------------------------------------------------------------------------------

_HYPERBOLIC_SINE = 2.816951368e-6, 1.983615975e-4, 8.333350058e-3, 1.666666650e-1
_AREA_TANGENT = 1.766903677e-1, 5.135880171e-2, 1.182371617e-1, 1.422276355e-1, 2.000251823e-1, 3.333330007e-1


def _half_powers(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The powers e^|x| / 2 and e^-|x| / 2, the latter 0 where it does not matter."""
    up = exp(np.abs(x), -1)
    return up, np.where(up < _f(1e9), quotient(_f(0.25), up), _f(0))


def sinh(x: np.ndarray) -> np.ndarray:
    """The hyperbolic sine."""
    square, (up, down) = x * x, _half_powers(x)
    near = (polynomial(square, *_HYPERBOLIC_SINE) * square) * x + x
    return np.where(np.isnan(x), x, np.where(np.abs(x) < 1, near, np.copysign(up - down, x)))


def cosh(x: np.ndarray) -> np.ndarray:
    """The hyperbolic cosine."""
    up, down = _half_powers(x)
    return np.where(np.isnan(x), x, up + down)


def asinh(x: np.ndarray) -> np.ndarray:
    """The inverse of the hyperbolic sine."""
    size = np.abs(x)
    square = size * size
    near = log1p(size + quotient(square, _f(1) + square_root(_f(1) + square)))
    result = np.copysign(np.where(size > _f(1e9), log(size) + _LN2, near), x)
    return np.where(np.isnan(x) | (size < _f(2.4e-4)), x, result)


def acosh(x: np.ndarray) -> np.ndarray:
    """The inverse of the hyperbolic cosine."""
    over = x - _f(1)
    near = log1p(over + square_root(over * (over + _f(2))))
    return np.where(x >= 1, np.where(x > _f(1e9), log(x) + _LN2, near), _NAN)


def atanh(x: np.ndarray) -> np.ndarray:
    """The inverse of the hyperbolic tangent."""
    size, square = np.abs(x), x * x
    near = (polynomial(square, *_AREA_TANGENT) * square) * x + x
    far = np.where(size == 1, _INFINITY, _f(0.5) * log1p(quotient(_f(2) * size, _f(1) - size)))
    return np.where(size < _f(0.5), near, np.where(size <= 1, np.copysign(far, x), _NAN))


# --- powers --------------------------------------------------------------------------------------------------


def cbrt(x: np.ndarray) -> np.ndarray:
    """The cube root."""
    size = np.abs(x)
    scale = np.where(size > _f(1e18), _f(1 / 4096), np.where(size < _f(1e-18), _f(4096), _f(1)))
    scaled = size * (scale * scale * scale)
    root = exp(log(scaled) * _f(0.333333333))
    square, square_low = exact_product(root, root)
    cube, cube_low = exact_product(square, root)
    root = root - quotient((cube - scaled) + (cube_low + square_low * root), _f(3) * square)
    result = np.copysign(np.where(size < LEAST_NORMAL, _f(0), quotient(root, scale)), x)
    return np.where(np.isfinite(x), result, x)


def _precise_log(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The natural logarithm as a sum of two floats."""
    bits = x.view(np.uint32).astype(np.int64)
    m = ((bits & 0x7FFFFF) | 0x3F800000).astype(np.uint32).view(np.float32)
    is_large = m > _f(1.41421356)
    m, n = np.where(is_large, m * _f(0.5), m), ((bits >> 23) - 127 + is_large).astype(np.float32)
    over, under = m - _f(1), m + _f(1)
    under_low = m - (under - _f(1))
    t = quotient(over, under)
    back, back_low = exact_product(t, under)
    t_low = quotient(((over - back) - back_low) - t * under_low, under)
    square = t * t
    of_square = polynomial(square, 9.0909091e-2, 1.1111111e-1, 1.4285714e-1, 2.0e-1, 3.3333333e-1)
    low = _f(2) * (t_low + t * square * of_square)
    whole, part = n * _f(0.693359375), _f(2) * t
    high = whole + part
    kept = high - whole
    low = low + ((whole - (high - kept)) + (part - kept)) - n * _f(2.12194440e-4)
    sum_ = high + low
    return sum_, low - (sum_ - high)


def _positive_power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    logarithm, logarithm_low = _precise_log(x)
    exponent, low = exact_product(logarithm, y)
    low = low + logarithm_low * y
    n = np.floor(exponent * _f(1.44269504) + _f(0.5))
    large, small = exponent - n * _f(0.693359375), n * _f(2.12194440e-4) + low
    r = large + small
    of_small = r - large
    lost = (large - (r - of_small)) + (small - of_small)
    sum_ = _f(1) + r
    power = sum_ + ((r - (sum_ - _f(1))) + (polynomial(r, *EXPONENTIAL) * r * r + (lost * r + lost)))
    whole = np.where(np.abs(n) < 200, n, 0).astype(np.int64)
    part = np.trunc(whole / 2).astype(np.int64)
    scaled = powers_of_2(part) * power
    is_subnormal = (whole < -99) & (scaled < np.ldexp(_f(1), np.minimum(part - whole - 126, 0)))
    result = np.where(is_subnormal, _f(0), scaled * powers_of_2(whole - part))
    is_extreme = (x < LEAST_NORMAL) | np.isinf(x) | np.isinf(y) | (np.abs(logarithm * y) > 110)
    extreme = np.where((x > 1) == (y > 0), _INFINITY, _f(0))
    return np.where((x == 1) | (y == 0), _f(1), np.where(is_extreme, extreme, result))


def power(x: np.ndarray, y: np.ndarray | np.float32) -> np.ndarray:
    """The power x^y."""
    x, y = np.broadcast_arrays(x, y)
    size = _positive_power(np.abs(x), y)
    is_whole = np.isinf(y) | (y == np.trunc(y))
    is_odd = (np.abs(y) < 16777216) & (np.abs(y - _f(2) * np.trunc(_f(0.5) * y)) == 1)
    signed = np.where(~is_whole & (x < 0) & ~np.isinf(x), _NAN, np.where(is_odd, -size, size))
    result = np.where(np.isnan(x) | np.isnan(y), _NAN, np.where(np.signbit(x), signed, size))
    return np.where((y == 0) | (x == 1), _f(1), result)
