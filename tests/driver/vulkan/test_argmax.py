"""ARGMAX and ARGMIN on the GPU: what the reference gives, on shapes that leave a tail, and nothing else is written."""

import pytest
from against_reference import check_like_the_reference

from nnvk.check.model_rows import parse
from nnvk.driver.vulkan.kernels.argmax import LONGEST

# A type and its quantisation; few different elements, so that many are equal.
TYPES = ["f32{}~4", "f16{}~4", "i32{}~4", "u8{}*0.5+120~4", "i8{}*0.25-7~4"]
CASES = ["[1] 0", "[7] 0", "[5,11] 1", "[5,11] -2", "[5,11] @0", "[2,3,5,7] 1", "[3,1,4] 1", "[2,2,3,2,5] 3"]
ROWS = [
    f"{code} {type_.format(shape)} {axis} -> i32"
    for code in ("ARGMAX", "ARGMIN")
    for type_ in TYPES
    for shape, axis in map(str.split, CASES)
]


@pytest.mark.parametrize("text", ROWS)
def test_like_the_reference(vulkan, text):
    check_like_the_reference(vulkan, text)


def test_long_axes_are_refused(vulkan):
    row = parse(f"ARGMAX f32[{LONGEST + 1}] 0 -> i32")
    (support,) = vulkan.get_supported_operations(row.model)
    assert support.reason == "axis 0 has 60001 elements, the shader searches at most 60000"
