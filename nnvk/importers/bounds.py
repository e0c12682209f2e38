"""Interval analysis: the bounds of integer elements, from the operations that compute them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nnvk.base.extents import is_open
from nnvk.base.sizes import largest, least
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode
from nnvk.types.operand import OperandType

Op = OperationCode

Bounds = tuple[int, int]
"""The least and the largest number that an element may be."""

INT32: Bounds = (-(2**31), 2**31 - 1)
INT64: Bounds = (-(2**63), 2**63 - 1)


def within(bounds: Bounds, outer: Bounds) -> bool:
    """Whether all numbers lie within other bounds."""
    return outer[0] <= bounds[0] and bounds[1] <= outer[1]


def of_dtype(dtype: np.dtype) -> Bounds:
    """The range of an integer type."""
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def of_array(array: np.ndarray) -> Bounds:
    """The least and the largest element of whole numbers."""
    if is_open(array):
        return least(*array.flat), largest(*array.flat)
    return (int(array.min()), int(array.max())) if array.size else (0, 0)


def union(*several: Bounds) -> Bounds:
    """The bounds of elements out of any of these."""
    return least(*(low for low, _ in several)), largest(*(high for _, high in several))


# --- exact results: no number comes round --------------------------------------------------------------------


def total(first: Bounds, second: Bounds) -> Bounds:
    """Bound the sums of two numbers."""
    return first[0] + second[0], first[1] + second[1]


def difference(first: Bounds, second: Bounds) -> Bounds:
    """Bound the differences of two numbers."""
    return first[0] - second[1], first[1] - second[0]


def product(first: Bounds, second: Bounds) -> Bounds:
    """Bound the products of two numbers."""
    corners = [one * other for one in first for other in second]
    return least(*corners), largest(*corners)


def quotient(first: Bounds, second: Bounds) -> Bounds:
    """Bound the quotients of two numbers, however they are rounded. A number divided by 0 is 0."""
    divisors = {one for one in (*second, -1, 1) if one and second[0] <= one <= second[1]}
    rounded = [found for number in first for one in divisors for found in (number // one, -(-number // one))]
    return (least(0, *rounded), largest(0, *rounded)) if rounded else (0, 0)


def magnitude(source: Bounds) -> Bounds:
    """Bound the absolute values of numbers."""
    lowest = 0 if source[0] <= 0 <= source[1] else least(*map(abs, source))
    return lowest, largest(*map(abs, source))


PAIRS: Mapping[KnownCode, Callable[[Bounds, Bounds], Bounds]] = {
    Op.ADD: total,
    Op.SUB: difference,
    Op.MUL: product,
    Op.DIV: quotient,
    Op.MAXIMUM: lambda first, second: (largest(first[0], second[0]), largest(first[1], second[1])),
    Op.MINIMUM: lambda first, second: (least(first[0], second[0]), least(first[1], second[1])),
}
SINGLE: Mapping[KnownCode, Callable[[Bounds], Bounds]] = {
    Op.ABS: magnitude,
    Op.NEG: lambda source: (-source[1], -source[0]),
}

# --- of operations -------------------------------------------------------------------------------------------

_MOVING: frozenset[KnownCode] = frozenset(
    {
        *(Op.EXPAND_DIMS, Op.GATHER, Op.MIRROR_PAD, Op.REDUCE_MAX, Op.REDUCE_MIN, Op.RESHAPE, Op.REVERSE, Op.SLICE),
        *(Op.SPLIT, Op.SQUEEZE, Op.STRIDED_SLICE, Op.TILE, Op.TRANSPOSE, ExtendedOperationCode.GATHER_ND),
    }
)
"""Operations with outputs that are elements of their first input."""
_JOINING: frozenset[KnownCode] = frozenset({Op.CONCATENATION, Op.PACK, Op.SELECT})
"""Operations with outputs that are elements of all inputs except the first; of CONCATENATION, except the last."""
_POSITIONS: frozenset[KnownCode] = frozenset({Op.ARGMAX, Op.ARGMIN})


def of_results(
    code: KnownCode, inputs: Sequence[Bounds | None], operands: Sequence[OperandType], results: int
) -> list[Bounds]:
    """The bounds of an operation's results as TENSOR_INT32, which wrap.

    ``inputs`` are None for operands that are not whole numbers, ``operands`` their types.
    """
    everything = [INT32] * results
    first = inputs[0] if inputs else None
    if code in _POSITIONS:
        found = [(0, math.prod(operands[0].dimensions))]
    elif code is Op.CAST:
        found = [(0, 255) if operands[0].code is OperandCode.TENSOR_QUANT8_ASYMM else first or INT32]
    elif code is Op.TOPK_V2:
        found = [first or INT32, (0, operands[0].dimensions[-1])]
    elif code in _MOVING and first is not None:
        found = [first] * results
    elif code in _JOINING:
        joined = inputs[:-1] if code is Op.CONCATENATION else inputs[1:]
        known = [one for one in joined if one is not None]
        found = [union(*known)] if len(known) == len(joined) else everything
    elif code in PAIRS and first is not None and inputs[1] is not None:
        found = [PAIRS[code](first, inputs[1])]
    elif code in SINGLE and first is not None:
        found = [SINGLE[code](first)]
    elif code is ExtendedOperationCode.COMPARE_INT64:
        found = [(-1, 1)]
    else:
        found = everything
    return [one if within(one, INT32) else INT32 for one in found]
