"""ROUND_FLOAT: the nearest numbers that a floating-point format with fewer bits has, ties to even."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.signature import EXTENSIONS_SINCE, F32, Signature, i32, real, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

MANTISSA_BITS = 23
"""The bits of a FLOAT32's mantissa."""
EXPONENT_BIAS = 127
LEAST_EXPONENT = -126
"""The exponent of the smallest normal FLOAT32. A format has the same one, or all of its numbers are normal here."""
_NAN, _INFINITY = np.uint32(0x7FC00000), np.uint32(0x7F800000)


class Overflow(IntEnum):
    """The result for numbers, infinity too, that are larger than the format's largest one after rounding."""

    SATURATE = 0
    INFINITY = 1
    NAN = 2


def _infer(call: Call) -> list[Shape]:
    bits, least, largest = call.mantissa_bits, call.least_exponent, float(call.largest)
    if not 1 <= bits < MANTISSA_BITS:
        raise bad_data(f"mantissa_bits must be in [1, {MANTISSA_BITS}), got {bits}")
    if not LEAST_EXPONENT <= least <= EXPONENT_BIAS or (least > LEAST_EXPONENT and least - bits < LEAST_EXPONENT):
        raise bad_data(
            f"least_exponent must be {LEAST_EXPONENT}, or {LEAST_EXPONENT + bits} to {EXPONENT_BIAS}, got {least}"
        )
    if not 0 < largest < np.inf:
        raise bad_data(f"largest must be positive and finite, got {largest}")
    if call.overflow not in list(Overflow):
        raise bad_data(f"overflow must be 0 to {max(Overflow)}, got {call.overflow}")
    return [call.input.shape]


def overflow_bits(call: Call) -> int:
    """The bits of the result for numbers that are too large."""
    largest = int(np.float32(call.largest).view(np.uint32))
    return {Overflow.SATURATE: largest, Overflow.INFINITY: int(_INFINITY), Overflow.NAN: int(_NAN)}[
        Overflow(call.overflow)
    ]


def _halves_to_even(numbers: np.ndarray, shift: np.ndarray | np.uint32) -> np.ndarray:
    half = (np.uint32(1) << (shift - np.uint32(1))) - np.uint32(1)
    found: np.ndarray = (numbers + half + (numbers >> shift & np.uint32(1))) >> shift
    return found


def _round_float(call: Call) -> np.ndarray:
    bits = np.ascontiguousarray(call.input.data).view(np.uint32)
    sign, size = bits & np.uint32(0x80000000), bits & np.uint32(0x7FFFFFFF)
    shift = np.uint32(MANTISSA_BITS - call.mantissa_bits)
    first = np.uint32(call.least_exponent + EXPONENT_BIAS)
    exponent = size >> np.uint32(MANTISSA_BITS)
    normal = _halves_to_even(size, shift) << shift
    # Below the format's normal numbers, digits lie at fixed places.
    significand = size & np.uint32(0x7FFFFF) | (exponent > 0).astype(np.uint32) << np.uint32(MANTISSA_BITS)
    exponent = np.maximum(exponent, np.uint32(1))
    deeper = np.minimum(shift + (first - np.minimum(exponent, first)), np.uint32(26))
    places = _halves_to_even(significand, deeper).astype(np.float32)
    small = places * np.float32(2.0 ** max(call.least_exponent - call.mantissa_bits, LEAST_EXPONENT))
    result = np.where(exponent < first, small.view(np.uint32), normal)
    result = np.where(result > np.float32(call.largest).view(np.uint32), np.uint32(overflow_bits(call)), result)
    result = np.where(size > _INFINITY, _NAN, result) | sign
    return result.view(np.float32)


define(
    ExtendedOperationCode.ROUND_FLOAT,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types={F32: EXTENSIONS_SINCE},
    signatures=Signature(
        tensor("input"),
        i32("mantissa_bits"),
        i32("least_exponent"),
        real("largest"),
        i32("overflow", int(Overflow.SATURATE)),
    ),
    infer=_infer,
    reference=_round_float,
)
