"""BITS and BITCAST on the GPU: the reference's bits."""

from __future__ import annotations

import pytest
from against_reference import check_like_the_reference


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("shape", ["[1]", "[7]", "[3,5,11]"])
def test_bits(vulkan, shape, kind):
    by = 2147483647 if kind < 3 else 40
    check_like_the_reference(vulkan, f"BITS i32{shape}~2147483647 i32{shape}~{by} {kind}")


@pytest.mark.parametrize("text", ["BITCAST f32[3,5,11] -> i32", "BITCAST i32[3,5,11]=1078530011 -> f32"])
def test_bitcast(vulkan, text):
    check_like_the_reference(vulkan, text)
