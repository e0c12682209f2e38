"""L2_NORMALIZATION, INSTANCE_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION."""

from __future__ import annotations

import math

import numpy as np

from nnvk.ops.call import Call
from nnvk.ops.reproducible.elementary import power
from nnvk.ops.reproducible.functions import quotient, square_root
from nnvk.ops.reproducible.reductions import ordered_sum, parts_of, sum_of_part

_f = np.float32
_SCALE = _f(2.0**-80)
"""The factor of numbers whose squares add up to `_LARGEST` or more. There, those below `_SMALL` count as 0."""
_LARGEST, _SMALL = _f(1e37), _f(1e10)
_SMALLEST_NORM = _f(1e-6)


def _scaled_square(x: np.ndarray) -> np.ndarray:
    small = np.where(np.abs(x) < _SMALL, _f(0), x) * _SCALE
    return small * small


def l2(call: Call) -> np.ndarray:
    """The elements divided by the root of the sum of their squares."""
    x = np.moveaxis(call.input.data, call.axis, 0)
    squares = ordered_sum([sum_of_part(part * part) for part in parts_of(x)])
    scaled = ordered_sum([sum_of_part(_scaled_square(part)) for part in parts_of(x)])
    norm, is_large = square_root(squares), ~(squares < _LARGEST)
    divisor = np.where(is_large, square_root(scaled), np.where(norm < _SMALLEST_NORM, _SMALLEST_NORM, norm))
    result = quotient(x * np.where(is_large, _SCALE, _f(1)), divisor)
    return np.ascontiguousarray(np.moveaxis(result, 0, call.axis))


def instance(call: Call) -> np.ndarray:
    """The differences from the mean of an image, divided by the root of their mean square, times gamma, and beta.

    Each part adds up the differences from a pivot, which is near its mean. All sums are converted to one pivot.
    """
    moved = np.moveaxis(call.input.data, (2, 3) if call.nchw else (1, 2), (0, 1))
    x = moved.reshape(math.prod(moved.shape[:2]), *moved.shape[2:])
    parts, count = parts_of(x), _f(len(x))
    pivots = [sum_of_part(part * quotient(_f(1), _f(len(part)))) for part in parts]
    pivot, totals = pivots[0], np.zeros((3, *x.shape[1:]), np.float32)
    if len(parts) > 1:
        pivot = ordered_sum([own * quotient(_f(len(part)), count) for own, part in zip(pivots, parts, strict=True)])
    for own, part in zip(pivots, parts, strict=True):
        away, size = part - own, _f(len(part))
        squares, scaled, sums = sum_of_part(away * away), sum_of_part(_scaled_square(away)), sum_of_part(away)
        if len(parts) > 1:
            shift, small = own - pivot, (own - pivot) * _SCALE
            squares = squares + _f(2) * shift * sums + size * shift * shift
            scaled = scaled + _f(2) * small * (sums * _SCALE) + size * small * small
            sums = sums + size * shift
        totals += [squares, scaled, sums]
    squares, scaled, sums = totals
    mean, epsilon, is_large = quotient(sums, count), _f(call.epsilon), ~(squares < _LARGEST)
    scaled_mean = mean * _SCALE
    deviation = square_root(np.maximum(quotient(squares, count) - mean * mean, _f(0)) + epsilon)
    of_large = square_root(quotient(scaled, count) - scaled_mean * scaled_mean + epsilon * _SCALE * _SCALE)
    centred = ((x - pivot) - mean) * np.where(is_large, _SCALE, _f(1))
    result = quotient(centred, np.where(is_large, of_large, deviation)) * _f(call.gamma) + _f(call.beta)
    back = np.moveaxis(result.reshape(moved.shape), (0, 1), (2, 3) if call.nchw else (1, 2))
    return np.ascontiguousarray(back)


def local_response(call: Call) -> np.ndarray:
    """The elements divided by a power of the sum of the squares around them."""
    x = np.moveaxis(call.input.data, call.axis, 0)
    radius = min(call.radius, len(x) - 1)
    padded = np.pad(x * x, ((radius, radius), *((0, 0),) * (x.ndim - 1)))
    sums = ordered_sum([padded[first : first + len(x)] for first in range(2 * radius + 1)])
    result = quotient(x, power(_f(call.bias) + _f(call.alpha) * sums, _f(call.beta)))
    return np.ascontiguousarray(np.moveaxis(result, 0, call.axis))
