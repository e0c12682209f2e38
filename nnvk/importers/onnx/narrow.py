"""Types of few bits that NumPy itself has not: BFLOAT16, real numbers of 8 and 4 bits, integers of 4 and 2 bits.

Wider types carry their numbers, FLOAT32 or integers of 8 bits, which have all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from nnvk.ops.extension.round_float import Overflow


@dataclass(frozen=True, slots=True)
class Format:
    """A format of real numbers, as ROUND_FLOAT has it."""

    mantissa_bits: int
    least_exponent: int
    largest: float
    overflow: Overflow
    """The result of a conversion from larger numbers that does not saturate."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """A type."""

    dtype: np.dtype
    """Its NumPy type, of the package ml_dtypes."""
    carrier: np.dtype
    """The type that carries its numbers."""
    bits: int
    """The bits of an element in a file."""
    format: Format | None = None
    """The format of real numbers that others can be rounded to."""

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
        if self.carrier == np.uint8:
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1


def _real(name: str, bits: int, format_: Format | None) -> Narrow:
    return Narrow(np.dtype(getattr(ml_dtypes, name)), np.dtype(np.float32), bits, format_)


def _integer(name: str, bits: int) -> Narrow:
    carrier = np.dtype(np.uint8 if name.startswith("u") else np.int8)
    return Narrow(np.dtype(getattr(ml_dtypes, name)), carrier, bits)


_TYPES = {
    one.dtype: one
    for one in (
        _real("bfloat16", 16, Format(7, -126, (2 - 2.0**-7) * 2.0**127, Overflow.INFINITY)),
        _real("float8_e4m3fn", 8, Format(3, -6, 448.0, Overflow.NAN)),
        _real("float8_e4m3fnuz", 8, Format(3, -7, 240.0, Overflow.NAN)),
        _real("float8_e5m2", 8, Format(2, -14, 57344.0, Overflow.INFINITY)),
        _real("float8_e5m2fnuz", 8, Format(2, -15, 57344.0, Overflow.NAN)),
        _real("float8_e8m0fnu", 8, None),
        _real("float4_e2m1fn", 4, Format(1, 0, 6.0, Overflow.SATURATE)),
        *(_integer("int4", 4), _integer("uint4", 4), _integer("int2", 2), _integer("uint2", 2)),
    )
}


def narrow_of(dtype: np.dtype) -> Narrow | None:
    """The type of a NumPy type; None for NumPy's own."""
    return _TYPES.get(dtype)
