"""ROI_ALIGN and ROI_POOLING."""

import math

import numpy as np
import pytest
import regions as naive

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops.quant import multiply_by_quantized_multiplier, quantize_multiplier
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Operand
from nnvk.types.operand import OperandType

HEIGHT, WIDTH, CHANNELS = 7, 11, 3
STRIDES = Y_STRIDE, X_STRIDE = 4.0, 2.0


def feature_map(batches=3, seed=1):
    return np.random.default_rng(seed).standard_normal((batches, HEIGHT, WIDTH, CHANNELS)).astype(np.float32)


def regions(count=13, batches=3, seed=2):
    """Boxes on a grid of 1/8 pixel in an image of 28 x 22, and their batches."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.integers(0, int(WIDTH * X_STRIDE * 8) + 1, (count, 2)), axis=1) / 8
    y = np.sort(rng.integers(0, int(HEIGHT * Y_STRIDE * 8) + 1, (count, 2)), axis=1) / 8
    boxes = np.stack((x[:, 0], y[:, 0], x[:, 1], y[:, 1]), axis=1).astype(np.float32)
    if count > 1:
        boxes[0] = [0, 0, WIDTH * X_STRIDE, HEIGHT * Y_STRIDE]
        boxes[1] = [5, 9, 5, 9]
    return boxes, rng.integers(0, batches, count).astype(np.int32)


def quantised(code, steps, scale, zero_point):
    data = np.asarray(steps, OperandType(code).dtype)
    return Operand(OperandType(code, data.shape, scale, zero_point), Lifetime.CONSTANT, data)


def rois16(boxes):
    return quantised(OperandCode.TENSOR_QUANT16_ASYMM, np.round(boxes * 8), 0.125, 0)


def align(ops, source, boxes, split, *, height=2, width=3, ratios=(2, 3), nchw=False, outputs=None):
    options = (height, width, Y_STRIDE, X_STRIDE, *ratios, nchw)
    return ops.run(OperationCode.ROI_ALIGN, source, boxes, split, *options, outputs=outputs)[0]


def pool(ops, source, boxes, split, *, height=2, width=3, nchw=False, outputs=None):
    options = (height, width, Y_STRIDE, X_STRIDE, nchw)
    return ops.run(OperationCode.ROI_POOLING, source, boxes, split, *options, outputs=outputs)[0]


@pytest.mark.parametrize("ratios", [(2, 3), (1, 1), (0, 0), (0, 2)])
@pytest.mark.parametrize(("height", "width"), [(2, 3), (1, 1), (5, 2)])
def test_align_is_its_definition(ops, ratios, height, width):
    source, (boxes, split) = feature_map(), regions()
    result = align(ops, source, boxes, split, height=height, width=width, ratios=ratios)
    sums, counts = naive.align(source, boxes, split, (height, width), STRIDES, ratios)
    np.testing.assert_allclose(result, sums / counts, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("run", [align, pool])
def test_nchw_is_transposed(ops, run):
    source, (boxes, split) = feature_map(), regions()
    nchw = run(ops, np.ascontiguousarray(source.transpose(0, 3, 1, 2)), boxes, split, nchw=True)
    assert np.array_equal(nchw.transpose(0, 2, 3, 1), run(ops, source, boxes, split))


@pytest.mark.parametrize("run", [align, pool])
def test_float16_rounds_once(ops, run):
    source, (boxes, split) = feature_map().astype(np.float16), regions()
    strides = np.float16(Y_STRIDE), np.float16(X_STRIDE)
    code = OperationCode.ROI_ALIGN if run is align else OperationCode.ROI_POOLING
    ratios = (2, 3) if run is align else ()
    (result,) = ops.run(code, source, boxes.astype(np.float16), split, 2, 3, *strides, *ratios, False)
    expected = run(ops, source.astype(np.float32), boxes.astype(np.float16).astype(np.float32), split)
    assert np.array_equal(result, expected.astype(np.float16))


@pytest.mark.parametrize("ratios", [(2, 2), (0, 0)])
def test_align_quantised_is_fixed_point_and_signed_is_unsigned(ops, ratios):
    steps, (boxes, split) = np.random.default_rng(3).integers(0, 256, (3, HEIGHT, WIDTH, CHANNELS)), regions()
    results = []
    for code, offset in ((OperandCode.TENSOR_QUANT8_ASYMM, 0), (OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 128)):
        source = quantised(code, steps - offset, 0.05, 117 - offset)
        output = OperandType(code, (), 0.04, 99 - offset)
        result = align(ops, source, rois16(boxes), split, ratios=ratios, outputs=[output])
        results.append(result.astype(int) + offset)
    assert np.array_equal(*results)
    # Interpolation weights in steps of 1/255.
    sums, counts = naive.align(
        steps - 117, boxes, split, (2, 3), STRIDES, ratios, lambda weight: math.floor(weight * 255 + 0.5)
    )
    scale = np.float32(0.05) * (np.float32(1) / np.float32(255)) / np.float32(0.04)
    expected = np.empty_like(results[0])
    for region, count in enumerate(counts.ravel()):
        multiplier = quantize_multiplier(float(scale / np.float32(count)))
        expected[region] = multiply_by_quantized_multiplier(sums[region].astype(int), *multiplier) + 99
    # The oracle's points are in double precision: where a weight is half a step, it may differ by one.
    difference = np.abs(results[0] - np.clip(expected, 0, 255))
    assert difference.max() <= 1 and (difference > 0).mean() < 0.03


@pytest.mark.parametrize(("height", "width"), [(2, 4), (1, 1), (8, 16)])
def test_pooling_is_its_definition(ops, height, width):
    source, (boxes, split) = feature_map(), regions()
    result = pool(ops, source, boxes, split, height=height, width=width)
    assert np.array_equal(result, naive.pool(source, boxes, split, (height, width), STRIDES))


def test_pooling_quantised_and_empty_bins(ops):
    steps, (boxes, split) = np.random.default_rng(4).integers(0, 256, (3, HEIGHT, WIDTH, CHANNELS)), regions()
    for code, offset in ((OperandCode.TENSOR_QUANT8_ASYMM, 0), (OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 128)):
        source = quantised(code, steps - offset, 0.05, 117 - offset)
        output = source.type.with_dimensions(())
        result = pool(ops, source, rois16(boxes), split, height=8, width=16, outputs=[output])
        assert np.array_equal(result.astype(int) + offset, naive.pool(steps, boxes, split, (8, 16), STRIDES, 117))


@pytest.mark.parametrize("run", [align, pool])
@pytest.mark.parametrize("ratio", [(0, 0), (2, 2)])
def test_no_regions(ops, run, ratio):
    options = {"ratios": ratio} if run is align else {}
    result = run(ops, feature_map(), np.zeros((0, 4), np.float32), np.zeros(0, np.int32), **options)
    assert result.shape == (0, 2, 3, CHANNELS)


@pytest.mark.parametrize("run", [align, pool])
@pytest.mark.parametrize(
    ("box", "batch", "words"),
    [
        ((0, 0, 8, 8), 3, "batch_split[0] must be in [0, 3), got 3"),
        ((0, 0, 8, 8), -1, "batch_split[0] must be in [0, 3), got -1"),
        ((8, 0, 0, 8), 0, "rois must have x1 <= x2 and y1 <= y2"),
        ((-1, 0, 8, 8), 0, "rois must lie on the feature map, 11 x 7 elements"),
        ((0, 0, 23, 8), 0, "rois must lie on the feature map"),
        ((0, 0, 8, 29), 0, "got [0.0, 0.0, 8.0, 29.0] (in pixels of the image) in region 0"),
        ((0, 0, math.nan, 8), 0, "rois must have x1 <= x2"),
    ],
)
def test_regions_that_do_not_fit(ops, run, box, batch, words):
    with pytest.raises(NnapiError) as error:
        run(ops, feature_map(), np.array([box], np.float32), np.array([batch], np.int32))
    assert error.value.code == ResultCode.BAD_DATA and words in error.value.reason


@pytest.mark.parametrize("run", [align, pool])
def test_options_that_do_not_fit(ops, run):
    source, (boxes, split) = feature_map(), regions()
    with pytest.raises(NnapiError, match="output_height must be more than 0, got 0"):
        run(ops, source, boxes, split, height=0)
    with pytest.raises(NnapiError, match=r"input must have rank 4, got shape \[7, 11, 3\]"):
        run(ops, source[0], boxes, split)
    with pytest.raises(NnapiError, match=r"batch_split must have shape \[13\], got \[12\]"):
        run(ops, source, boxes, split[1:].copy())


def test_rules_of_one_operation(ops):
    source, (boxes, split) = feature_map(), regions()
    with pytest.raises(NnapiError, match=r"width_sampling_ratio must be 0 \(adaptive\) or more, got -1"):
        align(ops, source, boxes, split, ratios=(0, -1))
    steps = quantised(OperandCode.TENSOR_QUANT8_ASYMM, np.zeros((3, HEIGHT, WIDTH, CHANNELS)), 0.5, 3)
    output = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 0.25, 3)
    with pytest.raises(NnapiError, match="output must have the scale and zero point of input"):
        pool(ops, steps, rois16(boxes), split, outputs=[output])
    coarse = quantised(OperandCode.TENSOR_QUANT16_ASYMM, boxes, 1.0, 0)
    with pytest.raises(NnapiError, match=r"rois must have scale 0.125 and zero point 0"):
        align(ops, steps, coarse, split, outputs=[output])
