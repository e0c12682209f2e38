"""Quotients by multiplication, as shaders compute them."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.driver.vulkan.lowering.divide import divisors, magic

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


def test_push_constants() -> None:
    assert divisors(rows=3, empty=0) == {"magic_rows": 2**32 // 3, "magic_empty": 2**32 - 1}
