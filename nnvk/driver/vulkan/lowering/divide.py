"""Divisors of shaders, as `shaders/include/divide.glsl` takes them."""

from __future__ import annotations


def magic(divisor: int) -> int:
    """The factor that makes quotients of numbers of 32 bits, for a divisor from 1 on.

    Of 0 there are none to make: nothing is divided by the size of an empty tensor.
    """
    return min(2**32 // max(divisor, 1), 2**32 - 1)


def divisors(**values: int) -> dict[str, int]:
    """Push constants ``magic_<name>`` for each divisor."""
    return {f"magic_{name}": magic(value) for name, value in values.items()}
