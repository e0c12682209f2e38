"""Quotients by multiplication, as shaders compute them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from profiles import GPU

from nnvk.driver.vulkan.lowering.divide import EXACT_FLOATS, divisors, divisors_below, float_magic, magic

DIVISORS = [1, 2, 3, 5, 7, 10, 64, 641, 65535, 65536, 65537, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1]


@pytest.mark.parametrize("divisor", DIVISORS)
def test_quotients_are_exact(divisor: int) -> None:
    """As `divide` of divide.glsl, in 32 bits, next to multiples and at both ends."""
    assert 0 < magic(divisor) < 2**32
    multiples = np.linspace(0, 2**32 // divisor, 1009, dtype=np.uint64) * np.uint64(divisor)
    one, ends = np.uint64(1), np.array([2**31, 2**32 - 1], np.uint64)
    numbers = np.concatenate([multiples, multiples + one, multiples[1:] - one, ends])
    numbers = numbers[numbers < 2**32]
    quotients = (numbers * np.uint64(magic(divisor))) >> np.uint64(32)
    quotients += numbers - quotients * np.uint64(divisor) >= divisor
    assert np.array_equal(quotients, numbers // np.uint64(divisor))


@pytest.mark.parametrize("divisor", [*DIVISORS, *range(1, 4096, 61), EXACT_FLOATS - 1, EXACT_FLOATS, EXACT_FLOATS + 1])
@pytest.mark.parametrize("rounded", ["to nearest", "to zero"])
def test_quotients_by_floats_are_exact(divisor: int, rounded: str) -> None:
    """As `divide` with DIVIDE_AS_FLOATS; Vulkan allows products to be rounded to nearest or to zero."""
    inverse = np.uint32(float_magic(divisor)).view(np.float32)
    next_one = np.nextafter(inverse, np.float32(2))
    assert Fraction(float(inverse)) * divisor <= 1 < Fraction(float(next_one)) * divisor
    multiples = np.arange(0, EXACT_FLOATS, divisor * max(1, EXACT_FLOATS // divisor // 9973), dtype=np.int64)
    numbers = np.concatenate([multiples, multiples + 1, multiples - 1, [EXACT_FLOATS - 1]])
    numbers = numbers[(numbers >= 0) & (numbers < EXACT_FLOATS)]
    products = numbers.astype(np.float64) * float(inverse)  # exact: 24 by 24 bits
    floats = products.astype(np.float32)
    if rounded == "to zero":
        floats = np.where(floats > products, np.nextafter(floats, np.float32(0)), floats)
    quotients = floats.astype(np.int64)
    quotients += numbers - quotients * divisor >= divisor
    assert np.array_equal(quotients, numbers // divisor)


def test_numbers_are_divided_as_floats_where_these_are_exact() -> None:
    small = replace(GPU, subgroup_size=16)
    as_floats = {"magic_rows": float_magic(3)}, {"DIVIDE_AS_FLOATS": True}
    assert divisors_below(small, EXACT_FLOATS, rows=3) == as_floats
    assert divisors_below(small, EXACT_FLOATS + 1, rows=3) == (divisors(rows=3), {})
    assert divisors_below(GPU, EXACT_FLOATS, rows=3) == (divisors(rows=3), {})


def test_push_constants() -> None:
    assert divisors(rows=3, empty=0) == {"magic_rows": 2**32 // 3, "magic_empty": 2**32 - 1}
