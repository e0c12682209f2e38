"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

import itertools
import math

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperationCode

rng = np.random.default_rng(19)
NEAREST, BILINEAR = OperationCode.RESIZE_NEAREST_NEIGHBOR, OperationCode.RESIZE_BILINEAR
SIZES = [
    pytest.param((5, 7), (5, 7), id="same"),
    pytest.param((5, 7), (11, 3), id="up_and_down"),
    pytest.param((1, 1), (3, 5), id="from_one"),
    pytest.param((6, 4), (1, 1), id="to_one"),
    pytest.param((2, 3), (7, 13), id="up"),
    pytest.param((13, 9), (4, 2), id="down"),
]
OPTIONS = pytest.mark.parametrize(
    ("align", "half"), [(False, False), (True, False), (False, True)], ids=["legacy", "align_corners", "half_pixel"]
)


def position(index, size, out, align, half):
    """Where an output element lies in the input, in float32 as TFLite computes it; half is still to be taken off."""
    scale = np.float32(size - 1) / np.float32(out - 1) if align and out > 1 else np.float32(size) / np.float32(out)
    return (np.float32(index) + np.float32(0.5 if half else 0)) * scale


def nearest(source, out, align, half):
    """TFLite's reference, a pixel at a time."""
    result = np.empty((source.shape[0], *out, source.shape[3]), source.dtype)
    for y, x in itertools.product(*map(range, out)):
        at = []
        for index, size, count in ((y, source.shape[1], out[0]), (x, source.shape[2], out[1])):
            place = float(position(index, size, count, align, half))
            at.append(min(math.floor(place + 0.5) if align else math.floor(place), size - 1))
        result[:, y, x] = source[:, at[0], at[1]]
    return result


def bilinear(source, out, align, half):
    """TFLite's reference, a pixel at a time, in real numbers."""
    result = np.empty((source.shape[0], *out, source.shape[3]))
    for y, x in itertools.product(*map(range, out)):
        taps = []
        for index, size, count in ((y, source.shape[1], out[0]), (x, source.shape[2], out[1])):
            place = float(position(index, size, count, align, half) - np.float32(0.5 if half else 0))
            low, high = max(math.floor(place), 0), min(math.ceil(place), size - 1)
            taps.append(((low, 1 - (place - low)), (high, place - low)))
        result[:, y, x] = sum(
            source[:, row, column].astype(float) * weight * factor
            for (row, weight), (column, factor) in itertools.product(*taps)
        )
    return result


@pytest.mark.parametrize(("size", "out"), SIZES)
@OPTIONS
@pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])
@pytest.mark.parametrize(
    ("code", "oracle", "tolerance"), [(NEAREST, nearest, 0), (BILINEAR, bilinear, 2e-6)], ids=["nearest", "bilinear"]
)
def test_sizes_and_options(ops, code, oracle, tolerance, size, out, align, half, nchw):
    source = rng.standard_normal((2, *size, 3)).astype(np.float32)
    given = np.ascontiguousarray(source.transpose(0, 3, 1, 2)) if nchw else source
    (result,) = ops.run(code, given, out[1], out[0], nchw, align, half)
    if nchw:
        result = result.transpose(0, 2, 3, 1)
    assert np.allclose(result, oracle(source, out, align, half), rtol=0, atol=tolerance)


@pytest.mark.parametrize(("size", "out"), SIZES)
@OPTIONS
@pytest.mark.parametrize("code", [NEAREST, BILINEAR], ids=["nearest", "bilinear"])
def test_quantised_rounds_halves_up_signed_or_not(ops, code, size, out, align, half):
    source = rng.integers(0, 256, (1, *size, 2), dtype=np.uint8)
    (result,) = ops.run(code, (source, 0.5, 100), out[1], out[0], False, align, half)
    real = bilinear(source, out, align, half) if code is BILINEAR else nearest(source, out, align, half)
    # Where the float32 mean falls next to a half, either neighbour is right.
    assert np.abs(result - real).max() <= 0.5 + 1e-3
    signed = (source.astype(int) - 128).astype(np.int8)
    (shifted,) = ops.run(code, (signed, 0.5, -28), out[1], out[0], False, align, half)
    assert np.abs(shifted.astype(int) + 128 - real).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("code", [NEAREST, BILINEAR], ids=["nearest", "bilinear"])
@pytest.mark.parametrize(
    ("scales", "expected"),
    [((1.5, 2.0), (6, 4)), ((0.4, 0.9), (2, 1)), ((1.0, 0.67), (2, 3))],
)
@pytest.mark.parametrize("real", [np.float32, np.float16])
def test_by_scale_rounds_the_size_down(ops, code, scales, expected, real):
    source = np.ones((1, 3, 3, 1), real)
    # Width comes first.
    (result,) = ops.run(code, source, real(scales[0]), real(scales[1]))
    assert result.shape == (1, *expected, 1)
    assert (result == 1).all()


@pytest.mark.parametrize("code", [NEAREST, BILINEAR], ids=["nearest", "bilinear"])
def test_no_batches(ops, code):
    assert ops.run(code, np.zeros((0, 3, 5, 2), np.float32), 7, 11)[0].shape == (0, 11, 7, 2)


def test_float16_interpolates_in_float32(ops):
    source = np.array([1, 2], np.float16).reshape(1, 1, 2, 1)
    (result,) = ops.run(BILINEAR, source, 3, 1)
    assert result.ravel().tolist() == [1, np.float16(np.float32(5) / 3), 2]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        pytest.param((3, 0), "output_height must be at least 1, got 0", id="size"),
        pytest.param((0.1, 1.0), "width_scale must leave at least one element of 3, got 0.1", id="small_scale"),
        pytest.param((1.0, -1.0), "height_scale must be finite and positive, got -1", id="negative_scale"),
        pytest.param((1.0, math.inf), "height_scale must be finite and positive, got inf", id="infinite_scale"),
        pytest.param(
            (3, 3, False, True, True), "align_corners must be false where half_pixel_centers is", id="options"
        ),
    ],
)
@pytest.mark.parametrize("code", [NEAREST, BILINEAR], ids=["nearest", "bilinear"])
def test_errors(ops, code, inputs, message):
    with pytest.raises(NnapiError, match=f"{code.name}: {message}") as error:
        ops.infer(code, np.zeros((1, 3, 3, 1), np.float32), *inputs)
    assert error.value.code is ResultCode.BAD_DATA
