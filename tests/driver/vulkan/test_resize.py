"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR on the GPU: whatever the options, the reference to the last bit."""

import numpy as np
import pytest
from against_reference import check_like_the_reference

from nnvk.check.model_rows import empty_like, execute, parse, reference

TYPES = {"f32{}": "f", "f16{}": "h", "u8{}*0.5+120": "f", "i8{}*0.25-7": "f"}
CASES = """
[1,1,1,1] 1 1
[1,1,1,4] 5 3
[1,5,7,4] 3 2
[2,5,7,8] 11 13 nhwc
[2,5,7,3] 11 13 nhwc true
[1,7,5,4] 14 10 nhwc true false
[1,7,5,3] 2 3 nhwc false true
[1,5,7,4] 9 1 nhwc false true
[1,6,4,5] 1 1 nhwc true
[2,3,5,7] 11 4 nchw
[1,4,5,7] 13 11 nchw true
[2,3,5,8] 4 3 nchw false true
[1,5,7,4] 1.5S 2.0S
[1,5,7,3] 0.7S 0.41S nhwc
[1,3,5,7] 3.25S 1.9S nchw false true
[1,24,31,3] 67 53
"""
ROWS = [
    f"{code} {type_.format(case.split()[0])} {' '.join(case.split()[1:]).replace('S', suffix)}"
    for code in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    for type_, suffix in TYPES.items()
    for case in CASES.strip().splitlines()
]


@pytest.mark.parametrize("text", ROWS)
def test_like_the_reference(vulkan, text):
    check_like_the_reference(vulkan, text)


@pytest.mark.parametrize(
    "text", ["RESIZE_BILINEAR f32[1,19,23,5] 41 37 nhwc false true", "RESIZE_BILINEAR f32[1,9,8,4] 7 9"]
)
def test_to_the_last_bit(vulkan, text):
    row = parse(text)
    expected = reference(row)
    outputs = empty_like(expected)
    execute(vulkan, row, outputs)
    np.testing.assert_array_equal(outputs[0], expected[0])


def test_dispatches_that_fold(narrow):
    check_like_the_reference(narrow, "RESIZE_BILINEAR u8[1,24,31,3]*0.5+120 67 53")
    check_like_the_reference(narrow, "RESIZE_NEAREST_NEIGHBOR i8[1,24,31,4]*0.5+120 67 53")
