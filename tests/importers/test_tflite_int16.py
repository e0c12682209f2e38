"""Activations of INT16 with weights of INT8: equal to the bit to TFLite's reference kernels where these are integer."""

from __future__ import annotations

import numpy as np
import pytest
import tflite
from tflite_net import Net, T, write
from tflite_oracle import check, compare, expected, f32, i32c, out, q8c, random_input

import nnvk
from nnvk.importers.tflite import ImportedModel, TfliteImportError
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode

EVERY = np.arange(-32768, 32768).astype(np.int16)
UNIT = 1 / 32768
SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID
FUSED = [getattr(tflite.ActivationFunctionType, name) for name in ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")]


def q16(*shape: int, scale: float = 0.0003) -> T:
    """An input, or without a shape an output."""
    return T("INT16", shape or None, scale=scale)


def bias(*numbers: int, type: str = "INT64", scale: object = 6e-6) -> T:
    """The bias of a product."""
    return T(type, data=list(numbers), scale=scale)


def is_whole(imported: ImportedModel) -> bool:
    """Whether nothing is computed as real numbers."""
    operands = imported.model.frozen.operands
    return all(operand.type.code is not OperandCode.TENSOR_FLOAT32 for operand in operands)


# --- products ------------------------------------------------------------------------------------------------

BIASES = [(), (-700, 0, 900, 123456789), (-(2**33), 2**36, 5, -(2**31))]


@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("scales", [0.02, [0.01, 0.02, 0.03, 0.005]], ids=["one", "channels"])
def test_conv_2d(scales: object, padding: int, fused: int) -> None:
    for numbers in BIASES[1:]:
        inputs = [q16(2, 7, 5, 3), q8c(4, 3, 2, 3, scale=scales), bias(*numbers)]
        options = {"Padding": padding, "StrideW": 1, "StrideH": 2, "DilationWFactor": 1, "DilationHFactor": 1}
        imported = check(
            "CONV_2D", inputs, q16(), "Conv2DOptions", version=4, steps=0, **options, FusedActivationFunction=fused
        )
        assert is_whole(imported)


def test_conv_2d_of_many_products() -> None:
    """More than fit into sums of 32 bits."""
    weights = T("INT8", data=np.full((2, 3, 3, 512), 127), scale=[0.0003, 0.0004], dim=0)
    options = {"Padding": VALID, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    for value in (-32768, 32767):
        feed = [np.full((1, 3, 3, 512), value, np.int16)]
        inputs = [q16(1, 3, 3, 512), weights, bias(5, -7)]
        check("CONV_2D", inputs, q16(scale=0.5), "Conv2DOptions", version=4, steps=0, feed=feed, **options)


@pytest.mark.parametrize("value", [-32768, -300, 32767])
def test_sums_without_a_bias_have_64_bits(value: int) -> None:
    """LiteRT takes such a DEPTHWISE_CONV_2D, and no such CONV_2D."""
    options = {"Padding": VALID, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    options |= {"DepthMultiplier": 2}
    weights = T("INT8", data=np.full((1, 29, 23, 4), 127), scale=[0.0003, 0.0004, 0.0005, 0.0006], dim=3)
    inputs, feed = [q16(1, 29, 23, 2), weights], [np.full((1, 29, 23, 2), value, np.int16)]
    check(
        "DEPTHWISE_CONV_2D", inputs, q16(scale=0.5), "DepthwiseConv2DOptions", version=4, steps=0, feed=feed, **options
    )


def test_conv_2d_dilated_and_grouped() -> None:
    options = {"Padding": SAME, "StrideW": 1, "StrideH": 1, "DilationWFactor": 2, "DilationHFactor": 3}
    check("CONV_2D", [q16(1, 7, 5, 4), q8c(3, 3, 3, 4), bias(1, 2, 3)], q16(), "Conv2DOptions", steps=0, **options)
    options |= {"DilationWFactor": 1, "DilationHFactor": 1}
    inputs = [q16(1, 7, 5, 4), q8c(6, 3, 3, 2), bias(1, 2, 3, 4, 5, 6)]
    check("CONV_2D", inputs, q16(), "Conv2DOptions", steps=0, **options)


@pytest.mark.parametrize("multiplier", [1, 2, 4])
def test_depthwise_conv_2d(multiplier: int) -> None:
    channels = 3 * multiplier
    weights = q8c(1, 3, 3, channels, scale=[0.01 + 0.001 * number for number in range(channels)], dim=3)
    inputs = [q16(2, 7, 5, 3), weights, bias(*range(-500, 1000 * channels - 500, 1000))]
    options = {"Padding": SAME, "StrideW": 2, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    table = "DepthwiseConv2DOptions"
    imported = check("DEPTHWISE_CONV_2D", inputs, q16(), table, steps=0, DepthMultiplier=multiplier, **options)
    assert is_whole(imported)


@pytest.mark.parametrize("scales", [0.02, [0.01, 0.02, 0.03, 0.005]], ids=["one", "channels"])
@pytest.mark.parametrize("padding", [SAME, VALID])
def test_transpose_conv(padding: int, scales: object) -> None:
    size = (10, 12) if padding == SAME else (11, 14)
    weights = q8c(4, 3, 4, 3, scale=scales)
    options = {"Padding": padding, "StrideW": 3, "StrideH": 2}
    for added in ([], [bias(-700, 0, 900, 123456)]):
        inputs = [i32c(1, *size, 4), weights, q16(1, 5, 4, 3), *added]
        imported = check("TRANSPOSE_CONV", inputs, q16(), "TransposeConvOptions", version=4, steps=0, **options)
        assert is_whole(imported)


@pytest.mark.parametrize("numbers", BIASES)
@pytest.mark.parametrize("scales", [0.02, [0.01, 0.02, 0.03, 0.005]], ids=["one", "channels"])
def test_fully_connected(scales: object, numbers: tuple[int, ...]) -> None:
    added = [bias(*numbers)] if numbers else []
    inputs = [q16(3, 7), q8c(4, 7, scale=scales), *added]
    assert is_whole(check("FULLY_CONNECTED", inputs, q16(), "FullyConnectedOptions", steps=0))


# TFLite reads a bias of 32 bits with this option. Without it, TFLite reads 64 bits, whatever the bias's type is.
OF_32_BITS = {"QuantizedBiasType": tflite.TensorType.INT32}


@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("scales", [0.02, [0.01, 0.02, 0.03, 0.005]], ids=["one", "channels"])
def test_a_bias_of_32_bits(scales: object, fused: int) -> None:
    options = {"Padding": SAME, "StrideW": 1, "StrideH": 2, "DilationWFactor": 1, "DilationHFactor": 1}
    options |= {"FusedActivationFunction": fused, **OF_32_BITS}
    added = bias(-700, 0, 900, 123456789, type="INT32")
    for scale in (0.0003, 0.002):
        inputs = [q16(2, 17, 15, 3), q8c(4, 3, 2, 3, scale=scales), added]
        assert is_whole(check("CONV_2D", inputs, q16(scale=scale), "Conv2DOptions", version=8, steps=0, **options))


@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("scales", [0.02, [0.01, 0.02, 0.03, 0.005]], ids=["one", "channels"])
def test_a_bias_of_32_bits_of_a_matrix(scales: object, fused: int) -> None:
    added, options = bias(-700, 0, 900, 123456789, type="INT32"), {"FusedActivationFunction": fused, **OF_32_BITS}
    for scale in (0.0003, 0.002):
        inputs = [q16(301, 7), q8c(4, 7, scale=scales), added]
        table = "FullyConnectedOptions"
        assert is_whole(check("FULLY_CONNECTED", inputs, q16(scale=scale), table, version=11, steps=0, **options))


def test_a_bias_of_64_bits_belongs_to_inputs_of_16() -> None:
    inputs = [T("INT8", (3, 7), scale=0.02), q8c(4, 7), bias(1, 2, 3, 4)]
    net = Net(inputs[:1], [T("INT8", scale=0.1)])
    net.op("FULLY_CONNECTED", inputs, net.outputs, "FullyConnectedOptions")
    with pytest.raises(TfliteImportError, match="a bias of INT64 belongs to an input of INT16"):
        compare(write(net), [np.zeros((3, 7), np.int8)])


# --- elements ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [2**-12, 2**-11, UNIT, 0.0003, 0.001, 0.05, 2.0])
@pytest.mark.parametrize("name", ["LOGISTIC", "TANH"])
def test_every_step(name: str, scale: float) -> None:
    assert is_whole(check(name, [q16(65536, scale=scale)], q16(scale=UNIT), feed=[EVERY], steps=0))


@pytest.mark.parametrize("scales", [(0.0003, 0.0003), (0.00015, 0.00035), (2**-12, 0.0001)], ids=str)
@pytest.mark.parametrize("name", ["ABS", "RELU", "RELU6"])
def test_rescaling(name: str, scales: tuple[float, float]) -> None:
    source, result = scales
    assert is_whole(check(name, [q16(65536, scale=source)], q16(scale=result), feed=[EVERY], steps=0))


@pytest.mark.parametrize("scales", [(1 / 8000, 1 / 8000), (0.0003, 0.5), (0.00003, 0.0001), (2**-12, 2**-8)], ids=str)
@pytest.mark.parametrize("name", ["EXP", "LOG", "RSQRT"])
def test_functions_by_tables(name: str, scales: tuple[float, float]) -> None:
    source, result = scales
    feed = [np.abs(EVERY[1:]) if name == "RSQRT" else EVERY[1:]]  # of negative numbers, TFLite refuses roots
    imported = check(name, [q16(65535, scale=source)], q16(scale=result), feed=feed, steps=0)
    assert is_whole(imported)
    assert len(imported.model.frozen.operations) == 1


@pytest.mark.parametrize("scales", [(1 / 5000, 1 / 5000), (0.0001, 0.0002), (2**-12, 2**-12)], ids=str)
@pytest.mark.parametrize("approximate", [False, True])
def test_gelu(approximate: bool, scales: tuple[float, float]) -> None:
    """Equal but where the table has a tie in single precision: C libraries' functions differ in the last place."""
    source, result = [q16(65536, scale=scales[0])], q16(scale=scales[1])
    assert is_whole(check("GELU", source, result, "GeluOptions", feed=[EVERY], steps=0, Approximate=approximate))


def test_leaky_relu() -> None:
    inputs, result = [q16(65536)], q16(scale=0.0005)
    assert is_whole(check("LEAKY_RELU", inputs, result, "LeakyReluOptions", feed=[EVERY], steps=0, Alpha=0.3))


@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("scales", [(0.0003, 0.0002, 0.0005), (2**-12, 2**-13, 2**-12), (0.0001, 0.001, 0.0002)])
@pytest.mark.parametrize("name", ["ADD", "SUB", "MUL"])
def test_arithmetic(name: str, scales: tuple[float, float, float], fused: int) -> None:
    first, second, result = scales
    pot = {} if name == "MUL" else {"PotScaleInt16": False}
    table = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[name]
    inputs = [q16(3, 5, 7, scale=first), q16(5, 1, scale=second)]
    assert is_whole(check(name, inputs, q16(scale=result), table, steps=0, FusedActivationFunction=fused, **pot))


@pytest.mark.parametrize("name", ["MAXIMUM", "MINIMUM"])
def test_extremes(name: str) -> None:
    assert is_whole(check(name, [q16(3, 5), q16(5)], q16(), "MaximumMinimumOptions", steps=0))


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("scale", [UNIT, 0.0003, 0.01, 1.0])
def test_softmax(scale: float, beta: float) -> None:
    result = q16(scale=UNIT)
    for shape in ((5, 37), (2, 3, 5), (1, 1000), (3, 1)):
        check("SOFTMAX", [q16(*shape, scale=scale)], result, "SoftmaxOptions", steps=0, Beta=beta)


@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("name", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pools(name: str, fused: int) -> None:
    options = {"Padding": SAME, "StrideW": 2, "StrideH": 1, "FilterWidth": 3, "FilterHeight": 2}
    imported = check(name, [q16(2, 7, 5, 3)], q16(), "Pool2DOptions", steps=0, **options, FusedActivationFunction=fused)
    assert is_whole(imported)


# --- moves and types -----------------------------------------------------------------------------------------


def test_moves() -> None:
    check("RESHAPE", [q16(3, 4, 5), i32c(4, 15)], q16(), steps=0)
    check("TRANSPOSE", [q16(3, 4, 5), i32c(2, 0, 1)], q16(), steps=0)
    check("PAD", [q16(3, 5), i32c([[1, 2], [0, 3]])], q16(), steps=0)
    check("SLICE", [q16(4, 5), i32c(1, 2), i32c(2, 3)], q16(), "SliceOptions", steps=0)
    check("STRIDED_SLICE", [q16(4, 5), i32c(0, 4), i32c(4, 0), i32c(2, -1)], q16(), "StridedSliceOptions", steps=0)
    check("CONCATENATION", [q16(3, 5), q16(3, 2)], q16(), "ConcatenationOptions", steps=0, Axis=1)
    check("SPLIT", [T("INT32", data=1), q16(2, 6)], [q16(), q16()], "SplitOptions", steps=0, NumSplits=2)
    check("GATHER", [q16(5, 3), i32c(4, 0, 2)], q16(), "GatherOptions", steps=0)
    check("PACK", [q16(3, 5), q16(3, 5)], q16(), "PackOptions", steps=0, Axis=1, ValuesCount=2)


def test_quantize_and_dequantize() -> None:
    check("QUANTIZE", [f32(3, 5, 7)], q16(), "QuantizeOptions", steps=0)
    check("DEQUANTIZE", [q16(65536)], out(), "DequantizeOptions", feed=[EVERY])


@pytest.mark.parametrize(
    "given, wanted",
    [
        (q16(65536), T("INT8", scale=0.1, zero_point=3)),
        (q16(65536), q16(scale=0.0004)),
        (q16(65536, scale=0.0015), T("INT8", scale=0.35, zero_point=-20)),
        (q16(65536, scale=0.00015), q16(scale=0.00035)),
        (T("INT8", (256,), scale=0.1, zero_point=3), q16(scale=0.0004)),
        (T("INT8", (256,), scale=0.03, zero_point=3), q16(scale=0.07)),
    ],
    ids=["16 to 8", "16 to 16", "16 to 8 twice", "16 to 16 twice", "8 to 16", "8 to 16 twice"],
)
def test_requantize(given: T, wanted: T) -> None:
    feed = [EVERY if given.type == "INT16" else np.arange(-128, 128).astype(np.int8)]
    assert is_whole(check("QUANTIZE", [given], wanted, "QuantizeOptions", feed=feed, steps=0)) == (
        wanted.type == given.type
    )


@pytest.mark.parametrize(
    "wanted",
    [q16(scale=0.0009), T("INT8", scale=0.3, zero_point=-7)],
    ids=["INT16", "INT8"],
)
def test_requantize_int32(wanted: T) -> None:
    """Sums that were kept at full width."""
    levels = np.random.default_rng(0).integers(-80000, 80000, 4096).astype(np.int32)
    check("QUANTIZE", [T("INT32", (4096,), scale=0.0004)], wanted, "QuantizeOptions", feed=[levels])


def test_operations_are_the_extension_s() -> None:
    imported = check("RELU", [q16(7)], q16(), steps=0)
    assert [operation.code for operation in imported.model.frozen.operations] == [ExtendedOperationCode.RELU]


def test_what_has_no_integer_kernel_here_is_computed_as_real_numbers() -> None:
    source, axes = q16(2, 7, 5, 3), i32c(1, 2)
    imported = check("SUM", [source, axes], q16(), "ReducerOptions", steps=1, optimised=True, KeepDims=True)
    assert not is_whole(imported)
    check("SPACE_TO_BATCH_ND", [q16(1, 4, 6, 3), i32c(2, 2), i32c([[0, 0], [0, 0]])], q16(), steps=0)


def test_real_numbers_in_their_place_are_not_rounded_to_8_bits() -> None:
    """Scales with which the integer kernels are not defined here."""
    inputs = [q16(3, 7, scale=0.5), q8c(4, 7, scale=0.5)]
    feed = [np.int16([[0, 1, 0, -1, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0], [1, 2, -3, 1, -1, 0, 0]])]
    imported = check("FULLY_CONNECTED", inputs, q16(scale=0.0019), "FullyConnectedOptions", steps=1, feed=feed)
    assert not is_whole(imported)


@pytest.mark.parametrize("pool", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_what_goes_into_products_and_pools_changes_nothing(pool: str) -> None:
    """PAD before a convolution, CONCATENATION behind two, PAD before a pool."""
    source, around, result = q16(1, 6, 7, 4), i32c([[0, 0], [1, 2], [2, 1], [0, 0]]), q16(1, 5, 5, 24)
    padded, joined, framed = q16(1, 9, 10, 4), q16(1, 7, 8, 24), q16(1, 10, 11, 24)
    parts = [q16(1, 7, 8, 16), q16(1, 7, 8, 8)]
    net = Net([source], [result])
    options = {"Padding": VALID, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    window = {"Padding": VALID, "StrideW": 2, "StrideH": 2, "FilterWidth": 2, "FilterHeight": 2}
    net.op("PAD", [source, around], padded)
    for part in parts:
        count = part.shape[3]
        inputs = [padded, q8c(count, 3, 3, 4, scale=0.003), bias(*range(count))]
        net.op("CONV_2D", inputs, part, "Conv2DOptions", version=4, **options)
    net.op("CONCATENATION", parts, joined, "ConcatenationOptions", Axis=3)
    net.op("PAD", [joined, around], framed)
    net.op(pool, [framed], result, "Pool2DOptions", **window)
    feed = [random_input(source, np.random.default_rng(5))]
    imported = compare(write(net), feed, steps=0)
    outputs, _ = imported.decode(nnvk.run(on_gpu(imported), imported.encode(feed)))
    np.testing.assert_array_equal(outputs[0], expected(write(net), feed)[0][0])


def on_gpu(imported: ImportedModel) -> nnvk.Compilation:
    """The model compiled, in one step, for a Vulkan device."""
    compilation = nnvk.Compilation(imported.model, [nnvk.get_device("vulkan-0")])
    compilation.finish()
    assert len(compilation.partitions) == 1
    return compilation


def test_a_network_runs_whole_on_a_gpu_and_is_equal_to_the_bit() -> None:
    source, mapped, activated, pooled = q16(1, 9, 7, 3), q16(1, 9, 7, 8), q16(1, 9, 7, 8), q16(1, 4, 3, 8)
    flat, scores, result = q16(1, 96), q16(1, 5, scale=0.001), q16(1, 5, scale=UNIT)
    net = Net([source], [result])
    window = {"Padding": VALID, "StrideW": 2, "StrideH": 2, "FilterWidth": 2, "FilterHeight": 2}
    options = {"Padding": SAME, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    filters = q8c(8, 3, 3, 3, scale=[0.003 + 0.001 * number for number in range(8)])
    net.op("CONV_2D", [source, filters, bias(*range(-4000, 4000, 1000))], mapped, "Conv2DOptions", version=4, **options)
    net.op("RELU", [mapped], activated)
    net.op("AVERAGE_POOL_2D", [activated], pooled, "Pool2DOptions", **window)
    net.op("RESHAPE", [pooled, i32c(1, 96)], flat)
    net.op("FULLY_CONNECTED", [flat, q8c(5, 96, scale=0.01), bias(1, 2, 3, 4, 5)], scores, "FullyConnectedOptions")
    net.op("SOFTMAX", [scores], result, "SoftmaxOptions", Beta=1.0)
    feed = [random_input(source, np.random.default_rng(3))]
    imported = compare(write(net), feed, steps=0)
    outputs, _ = imported.decode(nnvk.run(on_gpu(imported), imported.encode(feed)))
    np.testing.assert_array_equal(outputs[0], expected(write(net), feed)[0][0])
