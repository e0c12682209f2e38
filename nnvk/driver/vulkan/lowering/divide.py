"""Divisors for `shaders/include/divide.glsl`."""

from __future__ import annotations


def magic(divisor: int) -> int:
    """The factor that turns a division of 32-bit numbers by ``divisor`` into a multiplication.

    The divisor 0 gets a factor that nobody uses, because nothing is divided by the size of an empty tensor.
    """
    return min(2**32 // max(divisor, 1), 2**32 - 1)


def divisors(**values: int) -> dict[str, int]:
    """Push constants ``magic_<name>`` for each divisor."""
    return {f"magic_{name}": magic(value) for name, value in values.items()}
