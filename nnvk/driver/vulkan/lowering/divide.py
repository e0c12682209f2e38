"""Divisors for `shaders/include/divide.glsl`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from nnvk.base.extents import applied
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

EXACT_FLOATS = 1 << 24
"""The number below which 32-bit floats have all integers."""


def magic(divisor: int) -> int:
    """The factor that turns a division of 32-bit numbers by ``divisor`` into a multiplication.

    The divisor 0 gets a factor that nobody uses, because nothing is divided by the size of an empty tensor.
    """
    return applied(_magic, divisor)


def _magic(divisor: int) -> int:
    return min(2**32 // max(divisor, 1), 2**32 - 1)


def float_magic(divisor: int) -> int:
    """The bits of the same factor for numbers below `EXACT_FLOATS`: the largest float that is not above 1 / divisor."""
    inverse = np.float32(1 / max(divisor, 1))
    if Fraction(float(inverse)) * divisor > 1:
        inverse = np.nextafter(inverse, np.float32(0))
    return int(inverse.view(np.uint32))


def divisors(**values: int) -> dict[str, int]:
    """Push constants ``magic_<name>`` for each divisor."""
    return {f"magic_{name}": magic(value) for name, value in values.items()}


def divisors_below(device: DeviceProfile, end: int, **values: int) -> tuple[dict[str, int], dict[str, bool]]:
    """`divisors` for dividends below ``end``, and the specialisation constants for the division."""
    if end > EXACT_FLOATS or not device.has_small_subgroups:
        return divisors(**values), {}
    factors = {f"magic_{name}": applied(float_magic, value) for name, value in values.items()}
    return factors, {"DIVIDE_AS_FLOATS": True}
