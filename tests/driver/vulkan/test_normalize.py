"""L2_NORMALIZATION, INSTANCE_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION and LOG_SOFTMAX on the GPU."""

import numpy as np
import pytest
from against_reference import agree, check_like_the_reference

from nnvk.check.model_rows import empty_like, execute, parse, reference

FLOATS = {"f32{}": "f", "f16{}": "h"}
STEPS = {"u8{}*0.5+120": " -> u8*0.0078125+128", "i8{}*0.25-7": " -> i8*0.0078125+0"}
# Shapes and axes: short slices and long ones that are taken in parts, side by side or not, whole vec4s or not. Then a
# beta of LOG_SOFTMAX, and a radius and a beta of LOCAL_RESPONSE_NORMALIZATION.
AXES = [
    line.split()
    for line in """
[1] 0            1.0   0 0.75
[7] -1           0.3   2 0.5
[3,5] 0         -0.7   1 1.0
[3,5] 1          0.0   9 0.75
[2,3,5,7] 1      1.0   1 0.5
[2,3,5,8] -2     0.3   3 1.0
[5,1,3] 1       -0.7   5 0.75
[6,64] 1         0.0   5 0.5
[3,129] -1       1.0   2 1.0
[130,7] 0        0.3   200 0.75
[1300,8] 0      -0.7   300 0.5
[2,9001] 1       0.0   700 1.0
[9002] 0         1.0   2147483647 0.75
""".strip().splitlines()
]
IMAGES = """
[1,1,1,1] nhwc
[2,3,5,7] nhwc
[2,3,5,7] nchw
[1,6,5,4] nhwc
[3,4,11,13] nchw
[1,70,61,3] nhwc
[1,70,61,8] nhwc
[1,3,101,97] nchw
"""
ROWS = [
    *(
        f"L2_NORMALIZATION {type_.format(shape)} {axis}{STEPS.get(type_, '')}"
        for type_ in (*FLOATS, *STEPS)
        for shape, axis, *_ in AXES
    ),
    *(
        f"LOG_SOFTMAX {type_.format(shape)} {beta}{suffix} {axis}"
        for type_, suffix in FLOATS.items()
        for shape, axis, beta, *_ in AXES
    ),
    *(
        f"LOCAL_RESPONSE_NORMALIZATION {type_.format(shape)} {radius} 1.5{suffix} 0.25{suffix} {beta}{suffix} {axis}"
        for type_, suffix in FLOATS.items()
        for shape, axis, _, radius, beta in AXES
    ),
    *(
        f"INSTANCE_NORMALIZATION {type_.format(shape)} 1.5{suffix} -0.5{suffix} 0.001{suffix} {layout}"
        for type_, suffix in FLOATS.items()
        for shape, layout in map(str.split, IMAGES.strip().splitlines())
    ),
    "L2_NORMALIZATION f32[2,3,5,7]",
    "LOCAL_RESPONSE_NORMALIZATION f32[2,3,5,7] 2 1.0f 0.1f 0.75f",
    "LOG_SOFTMAX f32[1,2,1,3,1,5] 1.0f 3",
]


@pytest.mark.parametrize("text", ROWS)
def test_like_the_reference(vulkan, text):
    check_like_the_reference(vulkan, text)


LONG_ROWS = [
    f"{operation} {type_.format(shape)} {beta}{suffix}{axis}"
    for type_, suffix in {**FLOATS, "u8{}*0.05+120": "f", "i8{}*0.1-7": "f"}.items()
    for operation, axis in {"SOFTMAX": "", "LOG_SOFTMAX": " -1"}.items()
    for shape in ("[2,128]", "[5,131]", "[3,1021]", "[1,10007]", "[2,17003]")
    for beta in (1.0, -0.5)
    if (operation == "LOG_SOFTMAX" and type_ in FLOATS) or (operation == "SOFTMAX" and beta > 0)
]


@pytest.mark.parametrize("text", [row for row in ROWS if row.startswith(("L2_NORM", "INSTANCE"))])
def test_slices_that_workgroups_of_gpus_share(as_gpu, text):
    check_like_the_reference(as_gpu, text)


@pytest.mark.parametrize("text", LONG_ROWS)
def test_rows_that_workgroups_of_gpus_share(as_gpu, text):
    check_like_the_reference(as_gpu, text)


@pytest.mark.parametrize("text", ["SOFTMAX f32[7,131] 1.0f", "SOFTMAX f16[5,1021] 1.0h"])
def test_masked_rows_that_workgroups_of_gpus_share(as_gpu, text):
    """Elements of minus infinity give 0, wherever they are. The neighbouring rows of a row do not matter."""
    row = parse(text)
    (source,) = row.inputs
    source[1::2] += 60
    source[0, :-1] = source[1, 1:] = source[2, 5:100] = source[3, -1] = -np.inf
    (expected,) = reference(row)
    (actual,) = outputs = empty_like([expected])
    execute(as_gpu, row, outputs)
    agree(expected, actual)
    assert actual[0, -1] == 1 and actual[1, 0] == 1 and not actual[2, 5:100].any()


def compute(device, row, sources):
    """The output for other inputs, and the reference's."""
    for given, source in zip(row.inputs, sources, strict=True):
        given[:] = source
    (expected,) = reference(row)
    (actual,) = outputs = empty_like([expected])
    execute(device, row, outputs)
    return actual, expected


@pytest.mark.parametrize("text", ["L2_NORMALIZATION f32[5,300] 1", "L2_NORMALIZATION f32[300,5] 0"])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-7, 1e-3, 1e18, 1e30, 3e38])
def test_l2_of_all_sizes(vulkan, text, size):
    row = parse(text)
    source = np.random.default_rng(1).uniform(-size, size, row.inputs[0].shape)
    agree(*compute(vulkan, row, [source]))


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e18, 1e30])
def test_images_of_all_sizes(vulkan, layout, size):
    row = parse(f"INSTANCE_NORMALIZATION f32[2,20,30,20] 1.0f 0.5f 0.0f {layout}")
    source = np.random.default_rng(1).uniform(-size, size, row.inputs[0].shape)
    agree(*compute(vulkan, row, [source]))


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_a_mean_far_from_the_deviation(vulkan, layout):
    row = parse(f"INSTANCE_NORMALIZATION f32[1,40,50,40] 1.0f 0.0f 0.00001f {layout}")
    rng = np.random.default_rng(1)
    source = rng.standard_normal(row.inputs[0].shape, np.float32) + 1000
    source[0, 0, 0] = -1e6
    agree(*compute(vulkan, row, [source]))


@pytest.mark.parametrize("kind", ["u8[256,256]*{}+0 1 -> u8*0.0078125+128", "i8[256,256]*{}-128 1 -> i8*0.0078125+0"])
@pytest.mark.parametrize("scale", ["0.5", "1e-20", "1e30"])
def test_halves_of_steps(vulkan, kind, scale):
    """The sum of squares is 256 by 256 in each slice, so that results are multiples of a half."""
    row = parse(f"L2_NORMALIZATION {kind.format(scale)}")
    squares = np.zeros((256, 256), int)
    for first in range(256):
        squares[first, 0], rest = first, 65536 - first * first
        for place in range(1, 256):
            squares[first, place] = min(255, int(rest**0.5))
            rest -= squares[first, place] ** 2
        assert rest == 0
    actual, expected = compute(vulkan, row, [squares + row.model.operands[0].type.zero_point])
    np.testing.assert_array_equal(actual, expected)
    assert (actual[1:, 0].astype(int) - actual[0, 0] == np.minimum((np.arange(1, 256) + 1) // 2, 127)).all()


def test_a_sum_of_squares_beyond_32_bits(vulkan):
    row = parse("L2_NORMALIZATION u8[70000,4]*1+0 0 -> u8*0.0078125+128")
    actual, expected = compute(vulkan, row, [np.full((70000, 4), 255)])
    np.testing.assert_array_equal(actual, expected)


def test_dispatches_that_fold(narrow):
    check_like_the_reference(narrow, "L2_NORMALIZATION f32[90,3,130] 2")
    check_like_the_reference(narrow, "INSTANCE_NORMALIZATION f32[2,70,61,8] 1.5f -0.5f 0.001f nhwc")
    check_like_the_reference(narrow, "LOCAL_RESPONSE_NORMALIZATION f32[5,3,700] 300 1.0f 0.1f 0.75f")
