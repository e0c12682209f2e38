"""ROUND_FLOAT on the GPU: the reference's bits, also around ties, infinities and NaN."""

from __future__ import annotations

import numpy as np
import pytest
from against_reference import check_like_the_reference

from nnvk.check.model_rows import Row, execute, parse, reference

FORMATS = [
    "7 -126 300000000000000000000000000000000000000.0f",
    "3 -6 448.0f",
    "2 -14 57344.0f",
    "1 0 6.0f",
    "22 -10 1000.0f",
]


@pytest.mark.parametrize("overflow", [0, 1, 2])
@pytest.mark.parametrize("format_", FORMATS)
def test_like_the_reference(vulkan, format_, overflow):
    check_like_the_reference(vulkan, f"ROUND_FLOAT f32[3,5,7] {format_} {overflow}")


@pytest.mark.parametrize("format_", FORMATS)
def test_every_exponent(vulkan, format_):
    bits = np.random.default_rng(1).integers(0, 1 << 32, 4099, np.uint32)
    bits[:2048] = bits[:2048] & 0xFFF80000  # ties are common
    exponents = (bits >> 23) & 255
    x = np.where(exponents == 0, np.uint32(0), bits).astype(np.uint32).view(np.float32)  # devices may flush these
    row = Row(parse(f"ROUND_FLOAT f32[4099] {format_} 1").model, [x])
    given = np.zeros(4099, np.float32)
    execute(vulkan, row, [given])
    (expected,) = reference(row)
    np.testing.assert_array_equal(given, expected)
