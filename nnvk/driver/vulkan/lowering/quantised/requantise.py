"""The floats by which sums of bytes become bytes (`ByteMultiplier` of `shaders/include/requantise.glsl`)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

ERROR = 2.0**-12
"""A bound on the error of floats there, in units of a result.

The numbers from which results follow are at most 257 from the zero point. The roundings of a sum to a float, of the
multiplier, and of their product, are each at most 2^-23 of that, that of the addend is 2^-16, and those of two more
operations are 2^-15 each. Together that is less than 1.7e-4.
"""
SHIFTS = -10, -2
"""The least and the largest shift of such multipliers."""


def may_be_bytes(shifts: Iterable[int]) -> bool:
    """Whether multipliers with these shifts can be a `ByteMultiplier`."""
    return all(SHIFTS[0] <= shift <= SHIFTS[1] for shift in shifts)


def byte_multipliers(
    mantissas: np.ndarray, shifts: np.ndarray, zero: int, limits: tuple[int, int], *, saturates: bool, once: bool
) -> np.ndarray:
    """`scale`, `below` and `above` of multipliers, float32 [3, ...], for results with a zero point and limits.

    ``saturates``: results are fractions of the range, and are rounded, not truncated, to integers.
    ``once``: there is one rounding.
    """
    low, high = limits
    step = 0.0 * shifts if once else np.ldexp(1.0, shifts - 1)
    base, size = (low, max(high - low, 1)) if saturates else (-0.5, 1)
    below = zero - base + (step if low >= zero else -step) - ERROR
    every = np.stack([np.ldexp(1.0, shifts - 31) * mantissas, below, zero - base + step + ERROR]) / size
    return every.astype(np.float32)
