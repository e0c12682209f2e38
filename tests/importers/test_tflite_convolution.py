"""Operators with filters and windows against TFLite's reference kernels."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import tflite
from tflite_net import Net, T, write
from tflite_oracle import actual, check, compare, f32, f32c, i32c, int4c, q8, q8c

from nnvk.api import ExtendedOperationCode
from nnvk.api import OperationCode as Op
from nnvk.importers.tflite import TfliteImportError, load

SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID
STEPS = {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
ACTIVATIONS = tflite.ActivationFunctionType


def codes(imported) -> list[Op]:
    return [operation.code for operation in imported.model.frozen.operations]


def conv(source, weights, bias, result=(), **options):
    return check("CONV_2D", [source, weights, bias], result, "Conv2DOptions", **{**STEPS, **options})


@pytest.mark.parametrize("padding", [SAME, VALID], ids=["same", "valid"])
@pytest.mark.parametrize("stride, dilation", [((1, 1), (1, 1)), ((3, 2), (1, 1)), ((1, 1), (3, 2)), ((1, 1), (1, 2))])
def test_conv_2d_float(padding: int, stride: tuple[int, int], dilation: tuple[int, int]) -> None:
    """Strides and dilations are (vertical, horizontal)."""
    steps = dict(zip(("StrideH", "StrideW", "DilationHFactor", "DilationWFactor"), stride + dilation, strict=True))
    imported = conv(f32(2, 7, 9, 3), f32c(5, 3, 2, 3), f32c(5), Padding=padding, **steps)
    assert codes(imported) == [Op.CONV_2D]


@pytest.mark.parametrize("kind", ["NONE", "RELU", "RELU_N1_TO_1", "RELU6"])
def test_conv_2d_fused_activation(kind: str) -> None:
    fused = getattr(ACTIVATIONS, kind)
    assert len(codes(conv(f32(1, 4, 4, 2), f32c(3, 1, 1, 2, scale=4), f32c(3), FusedActivationFunction=fused))) == 1


@pytest.mark.parametrize("source, weights", [(f32(1, 4, 4, 2), f32c(3, 2, 2, 2)), (q8(1, 4, 4, 2), q8c(3, 2, 2, 2))])
def test_conv_2d_without_bias_gets_zeros(source: T, weights: T) -> None:
    """TFLite's own kernel wants one, its NNAPI delegate does not."""
    result = T(source.type, scale=source.scale)
    graph = Net([source], [result])
    graph.op("CONV_2D", [source, weights], result, "Conv2DOptions", **STEPS)
    model = load(write(graph)).model.frozen
    bias = model.operands[model.operations[0].inputs[2]]
    assert not bias.value.any()
    assert bias.type.scale == (float(np.float32(0.05) * np.float32(0.02)) if source.scale else 0)


def test_conv_2d_groups() -> None:
    assert codes(conv(f32(1, 5, 5, 6), f32c(4, 3, 3, 3), f32c(4))) == [Op.GROUPED_CONV_2D]


def test_conv_2d_groups_with_dilation_is_refused() -> None:
    with pytest.raises(TfliteImportError, match="grouped convolution with dilation"):
        conv(f32(1, 5, 5, 6), f32c(4, 3, 3, 3), f32c(4), DilationWFactor=2)


def test_conv_2d_int8_per_channel() -> None:
    scales = [0.01, 0.02, 0.005]
    bias = T("INT32", data=[100, -200, 300], scale=[0.05 * s for s in scales])
    imported = conv(q8(1, 6, 6, 2), q8c(3, 3, 3, 2, scale=scales), bias, q8(scale=0.1, zero_point=-4))
    assert codes(imported) == [Op.CONV_2D]


def test_conv_2d_uint8() -> None:
    source, weights = q8(1, 6, 6, 2, type="UINT8", zero_point=120), q8c(3, 3, 3, 2, type="UINT8", zero_point=130)
    bias = T("INT32", data=[100, -200, 300], scale=0.05 * 0.02)
    conv(source, weights, bias, q8(type="UINT8", scale=0.1, zero_point=128), FusedActivationFunction=ACTIVATIONS.RELU6)


@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize("stride, dilation", [((1, 1), (1, 1)), ((1, 1), (1, 2)), ((1, 1), (2, 1)), ((3, 2), (1, 1))])
def test_depthwise_conv_2d(multiplier: int, stride: tuple[int, int], dilation: tuple[int, int]) -> None:
    """Strides and dilations are (vertical, horizontal)."""
    options = {"StrideH": stride[0], "StrideW": stride[1], "DepthMultiplier": multiplier}
    dilated = {"DilationHFactor": dilation[0], "DilationWFactor": dilation[1]}
    inputs = [f32(1, 6, 7, 2), f32c(1, 3, 3, 2 * multiplier), f32c(2 * multiplier)]
    check("DEPTHWISE_CONV_2D", inputs, (), "DepthwiseConv2DOptions", **options, **dilated)


def test_depthwise_conv_2d_int8_per_channel() -> None:
    scales = [0.01, 0.02, 0.005, 0.03]
    bias = T("INT32", data=[100, -200, 300, 5], scale=[0.05 * s for s in scales])
    inputs = [q8(1, 6, 7, 2), q8c(1, 3, 3, 4, scale=scales, dim=3), bias]
    options = {"StrideW": 2, "StrideH": 2, "DepthMultiplier": 2, "DilationWFactor": 1, "DilationHFactor": 1}
    check("DEPTHWISE_CONV_2D", inputs, q8(scale=0.1), "DepthwiseConv2DOptions", **options)


@pytest.mark.parametrize("with_bias", [False, True])
def test_transpose_conv(with_bias: bool) -> None:
    shape = T("INT32", data=[1, 8, 6, 3])
    inputs = [shape, f32c(3, 3, 3, 2), f32(1, 4, 3, 2), *([f32c(3)] if with_bias else [])]
    check("TRANSPOSE_CONV", inputs, (), "TransposeConvOptions", Padding=SAME, StrideW=2, StrideH=2)


def test_transpose_conv_int8_per_channel() -> None:
    scales = [0.01, 0.02, 0.005]
    inputs = [T("INT32", data=[1, 8, 6, 3]), q8c(3, 3, 3, 2, scale=scales), q8(1, 4, 3, 2)]
    check("TRANSPOSE_CONV", inputs, q8(scale=0.1), "TransposeConvOptions", Padding=SAME, StrideW=2, StrideH=2)


ROWS = [(shape, keep) for shape in ((3, 4), (2, 3, 4), (2, 1, 2, 4)) for keep in (False, True)]


@pytest.mark.parametrize("shape, keep", [*ROWS, ((2, 6), False)], ids=str)
def test_fully_connected(shape: tuple[int, ...], keep: bool) -> None:
    inputs = [f32(*shape), f32c(5, 4), f32c(5)]
    check("FULLY_CONNECTED", inputs, (), "FullyConnectedOptions", KeepNumDims=keep)


def test_fully_connected_without_bias_and_with_relu() -> None:
    fused = ACTIVATIONS.RELU
    check("FULLY_CONNECTED", [f32(3, 4), f32c(5, 4), None], (), "FullyConnectedOptions", FusedActivationFunction=fused)


def test_fully_connected_int8() -> None:
    bias = T("INT32", data=[100, -200, 300], scale=0.05 * 0.02)
    check("FULLY_CONNECTED", [q8(2, 7), q8c(3, 7), bias], q8(scale=0.1), "FullyConnectedOptions")


def test_fully_connected_int8_per_channel() -> None:
    scales = [0.01, 0.02, 0.005]
    bias = T("INT32", data=[100, -200, 300], scale=[0.05 * s for s in scales])
    inputs = [q8(2, 7), q8c(3, 7, scale=scales), bias]
    check("FULLY_CONNECTED", inputs, q8(scale=0.1), "FullyConnectedOptions", steps=0)


def test_fully_connected_rounds_halves_away_from_zero() -> None:
    """Halves of the double-precision product with 1 / 204, of which the nearest mantissa is too small."""
    weights, bias = T("INT8", data=[[102]], scale=1 / 256), T("INT32", data=[0], scale=1 / 512)
    feed = [np.arange(-128, 127, dtype=np.int8).reshape(-1, 1)]
    result = q8(scale=51 / 128, zero_point=0)
    inputs = [q8(255, 1, scale=0.5, zero_point=1), weights, bias]
    check("FULLY_CONNECTED", inputs, result, "FullyConnectedOptions", steps=0, feed=feed)


def test_fully_connected_int4_weights() -> None:
    steps = np.array([[1, -8, 7, 0], [-1, 2, -3, 4], [5, -6, 6, -7]])
    nibbles = (steps & 15).reshape(-1, 2).astype(np.uint8)
    weights = T("INT4", shape=(3, 4), raw=(nibbles[:, 0] | nibbles[:, 1] << 4).tobytes(), scale=0.02)
    check("FULLY_CONNECTED", [q8(2, 4), weights, None], q8(scale=0.01), "FullyConnectedOptions")


@pytest.mark.parametrize("fused", [ACTIVATIONS.NONE, ACTIVATIONS.RELU])
@pytest.mark.parametrize("scale", [0.02, [0.01, 0.02, 0.03, 0.04]], ids=["one", "channels"])
@pytest.mark.parametrize("size", [6, 32])
def test_hybrid_weights_of_4_bits_stay_such(size: int, scale: object, fused: int) -> None:
    inputs = [f32(3, size), int4c(4, size, scale=scale), f32c(4)]
    imported = check("FULLY_CONNECTED", inputs, (), "FullyConnectedOptions", FusedActivationFunction=fused)
    assert ExtendedOperationCode.BLOCK_QUANTIZED_FULLY_CONNECTED in codes(imported)
    assert Op.FULLY_CONNECTED not in codes(imported)


@pytest.mark.parametrize("adj_x, adj_y", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("batches", [(), (2,), (2, 3)])
def test_batch_matmul(adj_x: bool, adj_y: bool, batches: tuple[int, ...]) -> None:
    first = f32(*batches, *((5, 4) if adj_x else (4, 5)))
    second = f32(*batches, *((3, 5) if adj_y else (5, 3)))
    check("BATCH_MATMUL", [first, second], (), "BatchMatMulOptions", AdjX=adj_x, AdjY=adj_y)


def test_batch_matmul_broadcasts_batches() -> None:
    check("BATCH_MATMUL", [f32(2, 1, 4, 5), f32(3, 5, 2)], (), "BatchMatMulOptions")


def test_batch_matmul_int8() -> None:
    check("BATCH_MATMUL", [q8(2, 4, 5), q8(2, 5, 3, zero_point=-7)], q8(scale=0.3), "BatchMatMulOptions")


@pytest.mark.parametrize("name", ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"])
@pytest.mark.parametrize("padding", [SAME, VALID], ids=["same", "valid"])
def test_pool(name: str, padding: int) -> None:
    options = {"StrideW": 2, "StrideH": 1, "FilterWidth": 3, "FilterHeight": 2, "Padding": padding}
    check(name, [f32(2, 6, 7, 3)], (), "Pool2DOptions", **options)


@pytest.mark.parametrize("name", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("type_", ["INT8", "UINT8"])
def test_pool_quantised(name: str, type_: str) -> None:
    options = {"StrideW": 2, "StrideH": 2, "FilterWidth": 3, "FilterHeight": 2, "Padding": SAME}
    check(name, [q8(1, 6, 7, 3, type=type_)], q8(type=type_), "Pool2DOptions", **options)


HYBRID = [
    ("CONV_2D", (2, 6, 5, 3), (4, 3, 3, 3), "Conv2DOptions", STEPS),
    ("DEPTHWISE_CONV_2D", (2, 6, 5, 2), (1, 3, 3, 2), "DepthwiseConv2DOptions", STEPS),
    ("FULLY_CONNECTED", (3, 6), (4, 6), "FullyConnectedOptions", {}),
    ("FULLY_CONNECTED", (3, 6), (4, 6), "FullyConnectedOptions", {"AsymmetricQuantizeInputs": True}),
    ("BATCH_MATMUL", (2, 3, 6), (2, 6, 4), "BatchMatMulOptions", {}),
    ("BATCH_MATMUL", (2, 3, 6), (2, 6, 4), "BatchMatMulOptions", {"AsymmetricQuantizeInputs": True}),
]


@pytest.mark.parametrize("name, shape, filter_, table, options", HYBRID)
def test_hybrid_rounds_activations_as_tflite(name, shape, filter_, table, options) -> None:
    per_channel = name == "DEPTHWISE_CONV_2D"
    scales = [0.01, 0.02] if per_channel else 0.02
    bias = [] if name == "BATCH_MATMUL" else [f32c(filter_[-1 if per_channel else 0])]
    check(name, [f32(*shape), q8c(*filter_, scale=scales, dim=3 if per_channel else 0), *bias], (), table, **options)


def test_hybrid_conv_2d_per_channel() -> None:
    weights = q8c(4, 3, 3, 2, scale=[0.01, 0.02, 0.03, 0.04])
    conv(f32(2, 5, 4, 2), weights, f32c(4))


@pytest.mark.parametrize("fused", [ACTIVATIONS.NONE, ACTIVATIONS.RELU6])
@pytest.mark.parametrize("scales", [0.02, [0.01, 0.02, 0.03, 0.005]], ids=["one", "channels"])
@pytest.mark.parametrize("padding, size", [(SAME, (10, 12)), (VALID, (11, 14))], ids=["same", "valid"])
def test_hybrid_transpose_conv(padding: int, size: tuple[int, int], scales: object, fused: int) -> None:
    options = {"Padding": padding, "StrideW": 3, "StrideH": 2, "FusedActivationFunction": fused}
    inputs = [i32c(2, *size, 4), q8c(4, 3, 4, 3, scale=scales), f32(2, 5, 4, 3), f32c(4)]
    check("TRANSPOSE_CONV", inputs, (), "TransposeConvOptions", version=3, **options)


def test_hybrid_of_zeros() -> None:
    zeros = np.zeros((2, 6), np.float32)
    for asymmetric in (False, True):
        options = {"AsymmetricQuantizeInputs": asymmetric}
        check("FULLY_CONNECTED", [f32(2, 6), q8c(4, 6), f32c(4)], (), "FullyConnectedOptions", feed=[zeros], **options)


def test_float16_weights_behind_dequantize() -> None:
    source, half, weights, result = f32(1, 4), T("FLOAT16", data=np.ones((3, 4)) / 3), T(), T()
    net = Net([source], [result])
    net.op("DEQUANTIZE", [half], weights)
    net.op("FULLY_CONNECTED", [source, weights, None], result, "FullyConnectedOptions")
    imported = compare(write(net), [np.float32([[1, 2, 3, 4]])], atol=1e-4)
    assert codes(imported) == [Op.FULLY_CONNECTED]


@pytest.mark.parametrize("padding", [1, 2], ids=["same", "valid"])
@pytest.mark.parametrize(
    ("strides", "window"), [((2, 2), (2, 2)), ((1, 2), (2, 2)), ((2, 2), (3, 4)), ((1, 3), (3, 4)), ((3, 1), (3, 4))]
)
def test_mediapipes_transposed_convolution(padding: int, strides: tuple[int, int], window: tuple[int, int]) -> None:
    """TFLite's default delegate is the one that has it, and takes the output's shape from the file."""
    height, width = (
        count * stride if padding == 1 else (count - 1) * stride + size
        for count, stride, size in zip((5, 4), strides[::-1], window, strict=True)
    )
    inputs, result = [f32(1, 5, 4, 3), f32c(2, *window, 3), f32c(2)], f32(1, height, width, 2)
    custom = struct.pack("<iii", padding, *strides)
    check("Convolution2DTransposeBias", inputs, result, custom=custom)


@pytest.mark.parametrize(
    ("source", "weights", "reason"),
    [
        (f32(5, 4, 3), f32c(2, 2, 2, 3), "the input must have rank 4, got shape [5, 4, 3]"),
        (f32(1, 5, 4, 3, 1), f32c(2, 2, 2, 3), "the input must have rank 4, got shape [1, 5, 4, 3, 1]"),
        (f32(1, 5, 4, 3), f32c(2, 2, 3), "the filter must have rank 4, got shape [2, 2, 3]"),
        (f32(1, 5, 4, 3), f32c(2, 2, 2, 3, 1), "the filter must have rank 4, got shape [2, 2, 2, 3, 1]"),
    ],
    ids=["input 3", "input 5", "filter 3", "filter 5"],
)
def test_mediapipes_transposed_convolution_of_other_ranks(source: T, weights: T, reason: str) -> None:
    net = Net([source], [f32(1, 5, 4, 2)])
    custom = struct.pack("<iii", 1, 1, 1)
    net.op("Convolution2DTransposeBias", [source, weights, f32c(2)], net.outputs, custom=custom)
    with pytest.raises(TfliteImportError) as caught:
        load(write(net))
    assert f"operator 0 (Convolution2DTransposeBias): {reason}" in str(caught.value)


def test_mediapipes_transposed_convolution_with_weights_of_8_bits() -> None:
    """They are the real numbers that the levels stand for."""
    weights, bias = q8c(2, 2, 2, 3), f32c(2)
    results = []
    for filter_ in (weights, T(data=weights.data.astype(np.float32) * np.float32(0.02))):
        net = Net([f32(1, 5, 4, 3)], [f32(1, 10, 8, 2)])
        net.op(
            "Convolution2DTransposeBias", [*net.inputs, filter_, bias], net.outputs, custom=struct.pack("<iii", 1, 2, 2)
        )
        results.append(actual(load(write(net)), [np.linspace(-1, 1, 60, dtype=np.float32).reshape(1, 5, 4, 3)])[0][0])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("zero_point", [0, 5])
def test_hybrid_weights_of_uint8(zero_point: int) -> None:
    """Those of the oldest models, without a zero point, are signed levels."""
    levels = np.uint8([[0, 1, 127, 128], [255, 254, 129, 3]])
    weights = T("UINT8", data=levels, scale=0.5, zero_point=zero_point)
    net = Net([f32(1, 4)], [f32(1, 2)])
    net.op("FULLY_CONNECTED", [*net.inputs, weights, None], net.outputs, "FullyConnectedOptions")
    x = np.float32([[1, 2, 3, 4]])
    signed = levels.view(np.int8) if not zero_point else levels.astype(int) - zero_point
    ((got,),) = actual(load(write(net), round_hybrid=False), [x])
    np.testing.assert_allclose(got, x @ (signed.T * np.float32(0.5)), rtol=1e-6)


@pytest.mark.parametrize(
    ("custom", "message"),
    [(b"", "must have 12 bytes, got 0"), (struct.pack("<iii", 7, 1, 1), "unknown padding 7")],
)
def test_mediapipes_options_that_are_none(custom: bytes, message: str) -> None:
    with pytest.raises(TfliteImportError, match=message):
        check("Convolution2DTransposeBias", [f32(1, 5, 4, 3), f32c(2, 2, 2, 3), f32c(2)], custom=custom)


@pytest.mark.parametrize(
    ("scale", "dim", "zero_point", "stays"),
    [
        (0.02, 0, 0, True),
        ([0.1, 0.2, 0.3, 0.4], 0, 0, True),
        ([0.1, 0.2, 0.3, 0.4], 1, 0, False),
        (0.02, 0, 1, False),
        (0.02, 1, 0, True),
        (None, 0, 0, False),
    ],
)
def test_which_weights_stay_4_bits(scale: object, dim: int, zero_point: int, stays: bool) -> None:
    """Those with one scale, or one for each row, and without zero points. Those without a scale have none to keep."""
    weights = int4c(4, 4, scale=scale)
    weights.dim, weights.zero_point = dim, zero_point
    net = Net([source := f32(3, 4)], [result := T()])
    net.op("FULLY_CONNECTED", [source, weights, None], result, "FullyConnectedOptions")
    codes = [operation.code.name for operation in load(write(net)).model.frozen.operations]
    assert ("BLOCK_QUANTIZED_FULLY_CONNECTED" in codes) == stays
