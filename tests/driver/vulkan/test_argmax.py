"""ARGMAX and ARGMIN on the GPU: what the reference gives, on shapes that leave a tail, and nothing else is written."""

import numpy as np
import pytest
from against_reference import check_like_the_reference

from nnvk.check.model_rows import Row, empty_like, execute, parse, reference
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
# Axes that several invocations share: the last one, one whose vec4s are neighbours, and one whose elements are not.
SHARED = ["[1,32003] 1", "[1,4096] 1", "[3,131] 1", "[131,4] 0", "[2,1009,8] 1", "[2,1009,3] 1", "[40009] 0"]
SHARED_ROWS = [
    f"{code} {type_.format(shape)} {axis} -> i32"
    for code in ("ARGMAX", "ARGMIN")
    for type_ in TYPES
    for shape, axis in map(str.split, SHARED)
]


@pytest.mark.parametrize("text", ROWS)
def test_like_the_reference(vulkan, text):
    check_like_the_reference(vulkan, text)


@pytest.mark.parametrize("text", SHARED_ROWS)
@pytest.mark.crossed
def test_axes_that_invocations_share(vulkan, as_gpu, text):
    check_like_the_reference(vulkan, text)
    check_like_the_reference(as_gpu, text)


@pytest.mark.parametrize("text", ["f32[3,1021] 1", "f16[1021,3] 0", "f32[1021,4] 0", "f16[1,1021] 1"])
@pytest.mark.parametrize("code", ["ARGMAX", "ARGMIN"])
@pytest.mark.parametrize("filling", [0, -np.inf, np.inf, np.nan])
@pytest.mark.crossed
def test_the_first_of_equal_ones_wins(vulkan, as_gpu, code, text, filling):
    """Also among infinities and NaN, wherever they are: an extreme element at two positions, all others are equal."""
    row = parse(f"{code} {text} -> i32")
    (source,) = row.inputs
    axis = int(np.argmax(source.shape))
    rng = np.random.default_rng(7)
    for extreme in (np.nan, np.inf, -np.inf, 1, -1):
        source[:] = filling
        places = np.sort(rng.choice(source.shape[axis], 2, replace=False))
        np.moveaxis(source, axis, 0)[places] = extreme
        for device in (vulkan, as_gpu):
            check(device, row)


def check(device, row: Row) -> None:
    expected = reference(row)
    outputs = empty_like(expected)
    execute(device, row, outputs)
    np.testing.assert_array_equal(outputs[0], expected[0])


@pytest.mark.parametrize("position", [0, 1, 255, 256, 1020, 69_999, 70_000])
def test_a_long_axis(vulkan, as_gpu, position):
    row = parse("ARGMAX f32[70001] 0 -> i32")
    row.inputs[0][position] = 1e9
    for device in (vulkan, as_gpu):
        check(device, row)


def test_long_axes_are_refused(vulkan):
    row = parse(f"ARGMAX i8[{LONGEST + 1}]*1+0 0 -> i32")
    (support,) = vulkan.get_supported_operations(row.model)
    assert support.reason == "axis 0 has 7680001 elements, the shader searches at most 7680000"
