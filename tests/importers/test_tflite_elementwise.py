"""Elementwise operators against TFLite's reference kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tflite
from tflite_net import Net, T, write
from tflite_oracle import actual, boolean, check, compare, f32, f32c, i32, i32c, out, q8, q8c, random_input

from nnvk.api import OperationCode as Op
from nnvk.importers.tflite import TfliteImportError, load
from nnvk.types.extension import ExtendedOperationCode

POSITIVE = ("LOG", "SQRT", "RSQRT")
REAL = ("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOG", "LOGISTIC", "NEG", "RELU", "RELU6")
REAL += ("RELU_N1_TO_1", "RELU_0_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH")


def real_feed(name: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    values = np.linspace(-8, 8, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return [np.abs(values) + np.float32(0.1) if name in POSITIVE else values]


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("shape", [(33,), (1, 2, 2, 3, 4)], ids=["rank1", "rank5"])
def test_unary_float(name: str, shape: tuple[int, ...]) -> None:
    # The exponential grows to 3,000: its tolerance is relative.
    check(name, [f32(*shape)], feed=real_feed(name, shape), atol=2e-5)


def test_unary_of_a_scalar() -> None:
    check("NEG", [f32()], out("FLOAT32", ()))


def test_round_takes_halves_to_even() -> None:
    check("ROUND", [f32(9)], feed=[np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, 1e9, -0.2])])


QUANTISED = [
    # name, scale and zero point of input and output; the first of a name is what NNAPI has itself
    ("LOGISTIC", (0.05, 3), (1 / 256, -128)),
    ("TANH", (0.05, 3), (1 / 128, 0)),
    ("RELU", (0.05, 3), (0.05, 3)),
    ("RELU", (0.05, 3), (0.03, -128)),
    ("RELU6", (0.1, 3), (0.1, 3)),
    ("RELU6", (0.1, 3), (6 / 255, -128)),
    ("RELU_N1_TO_1", (0.05, 3), (0.01, 0)),
    ("HARD_SWISH", (0.05, 3), (0.04, -100)),
    ("ABS", (0.05, 3), (0.05, -128)),
    ("ABS", (0.03, 0), (0.07, 0)),
    ("RELU", (0.03, 0), (0.07, 0)),
    ("RELU6", (0.03, 0), (0.07, 0)),
    ("RELU_N1_TO_1", (0.05, 0), (0.04, 0)),
    ("RELU_0_TO_1", (0.03, 0), (0.07, 0)),
    ("RELU_0_TO_1", (0.05, 3), (0.05, 3)),
    ("QUANTIZE", (0.03, 0), (0.07, 0)),
    ("QUANTIZE", (0.05, 0), (0.04, 0)),
    ("QUANTIZE", (0.05, 3), (0.05, -20)),
    ("ELU", (0.05, 3), (0.05, 3)),
    ("EXP", (0.01, 3), (0.02, -128)),
    ("LOG", (0.01, -128), (0.05, 0)),
    ("LOG", (0.05, 20), (0.05, 20)),
    ("EXP", (1.0, 0), (100.0, 9)),
    ("RSQRT", (0.1, -128), (0.02, -128)),
]


@pytest.mark.parametrize("name, source, result", QUANTISED, ids=lambda value: str(value))
def test_unary_int8(name: str, source: tuple[float, int], result: tuple[float, int]) -> None:
    steps = np.arange(-128, 128, dtype=np.int8)
    scale, zero_point = result
    given = q8(256, scale=source[0], zero_point=source[1])
    check(name, [given], q8(scale=scale, zero_point=zero_point), feed=[steps], steps=0)


@pytest.mark.parametrize(
    "name, zero_point",
    [
        ("LOGISTIC", 0),
        ("TANH", 128),
        ("RELU", 7),
        ("RELU6", 100),
        ("RELU_N1_TO_1", 60),
        ("RELU_0_TO_1", 0),
        ("QUANTIZE", 9),
    ],
)
def test_unary_uint8(name: str, zero_point: int) -> None:
    scale = {"LOGISTIC": 1 / 256, "TANH": 1 / 128}.get(name, 0.07)
    source = q8(256, type="UINT8", scale=0.03, zero_point=100)
    result = q8(type="UINT8", scale=scale, zero_point=zero_point)
    check(name, [source], result, feed=[np.arange(256, dtype=np.uint8)], steps=0)


FIXED = {
    "LOGISTIC": {"INT8": (1 / 256, -128), "UINT8": (1 / 256, 0), "INT16": (1 / 32768, 0)},
    "SOFTMAX": {"INT8": (1 / 256, -128), "UINT8": (1 / 256, 0), "INT16": (1 / 32768, 0)},
    "TANH": {"INT8": (1 / 128, 0), "UINT8": (1 / 128, 128), "INT16": (1 / 32768, 0)},
    "L2_NORMALIZATION": {"INT8": (1 / 128, 0), "UINT8": (1 / 128, 128)},
}
"""The one quantisation that an output may have in NNAPI."""


@pytest.mark.parametrize(
    ("name", "kind", "change"),
    [
        (name, kind, change)
        for name, kinds in FIXED.items()
        for kind in kinds
        for change in ("none", "scale", "type", *(["zero point"] if kind != "INT16" else []))
    ],
)
def test_outputs_of_another_quantisation_are_computed_as_real_numbers(name: str, kind: str, change: str) -> None:
    output = kind if change != "type" else "UINT8" if kind == "INT8" else "INT8"
    scale, zero_point = FIXED[name][output]
    if change == "scale":
        scale *= 2
    elif change == "zero point":
        zero_point += 1
    own = (1e-4, 0) if kind == "INT16" else (0.05, 3)
    source = q8(3, 5, scale=own[0], zero_point=own[1], type=kind)
    result = q8(3, 5, scale=scale, zero_point=zero_point, type=output)
    table = {"SOFTMAX": "SoftmaxOptions", "L2_NORMALIZATION": "L2NormOptions"}.get(name)
    net = Net([source], [result])
    net.op(name, [source], result, table, **({"Beta": 1.0} if name == "SOFTMAX" else {}))
    imported = load(write(net))
    codes = [each.code.name for each in imported.model.frozen.operations]
    assert ("DEQUANTIZE" not in codes) == (change == "none")
    levels = random_input(source, np.random.default_rng(5))
    x = (levels.astype(np.float64) - own[1]) * own[0]
    exact = {
        "LOGISTIC": lambda: 1 / (1 + np.exp(-x)),
        "SOFTMAX": lambda: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True),
        "TANH": lambda: np.tanh(x),
        "L2_NORMALIZATION": lambda: x / np.sqrt((x * x).sum(axis=1, keepdims=True)),
    }[name]()
    ((got,),) = actual(imported, [levels])
    limits = np.iinfo(got.dtype)
    real = np.clip(exact, *((np.array([limits.min, limits.max]) - zero_point) * scale))
    assert np.abs((got.astype(np.float64) - zero_point) * scale - real).max() <= 1.5 * scale + 2e-4


@pytest.mark.parametrize("name", ["ABS", "ELU", "EXP", "LOG", "RELU_0_TO_1"])
def test_functions_of_bytes_are_one_lookup(name: str) -> None:
    imported = check(name, [q8(1, 2, 2, 3, 4)], q8(scale=0.07, zero_point=-50), steps=0)
    codes = [operation.code for operation in imported.model.frozen.operations if operation.code is not Op.RESHAPE]
    assert codes == [ExtendedOperationCode.TABLE_LOOKUP]


@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 3, 5), (2, 3, 2, 5), (1, 2, 3, 2, 5)], ids=str)
@pytest.mark.parametrize("name", ["SOFTMAX", "LOG_SOFTMAX"])
def test_softmax(name: str, shape: tuple[int, ...]) -> None:
    options = {"table": "SoftmaxOptions", "Beta": 1.5} if name == "SOFTMAX" else {"table": "LogSoftmaxOptions"}
    check(name, [f32(*shape)], (), **options)


def test_softmax_int8() -> None:
    check("SOFTMAX", [q8(3, 9)], q8(scale=1 / 256, zero_point=-128), "SoftmaxOptions", Beta=1.0)


def test_softmax_of_int8_to_int16_with_a_zero_point() -> None:
    """LiteRT's reference kernel is a step off for some levels; the other one rounds the exact result."""
    result, options = T("INT16", scale=1 / 65536, zero_point=-32768), {"table": "SoftmaxOptions", "Beta": 1.0}
    imported = check("SOFTMAX", [q8(40, 12)], result, **options, optimised=True)
    assert imported.outputs[0].dtype == np.int16


def test_int16_with_a_zero_point_that_is_read() -> None:
    source, result = q8(7, 5), T()
    levels, rows = (T("INT16", scale=1 / 65536, zero_point=-32768) for _ in range(2))
    net = Net([source], [result, rows])
    net.op("SOFTMAX", [source], levels, "SoftmaxOptions", Beta=1.0)
    net.op("DEQUANTIZE", [levels], result, version=3)
    net.op("RESHAPE", [levels, i32c(5, 7)], rows, "ReshapeOptions")
    imported = load(write(net))
    x = np.random.default_rng(2).integers(-128, 128, (7, 5)).astype(np.int8)
    powers = np.exp(0.05 * x.astype(np.float64))
    exact = powers / powers.sum(1, keepdims=True)
    found, moved = actual(imported, [x])[0]
    np.testing.assert_allclose(found, exact, atol=0.6 / 65536)
    np.testing.assert_array_equal(moved, (np.rint(exact * 65536) - 32768).reshape(5, 7))


def test_int16_with_a_zero_point_that_is_refused() -> None:
    source, result = T("INT16", (2,), scale=0.1, zero_point=3, data=[1, 2]), T()
    net = Net([f32(2)], [result])
    net.op("ADD", [net.inputs[0], source], result, "AddOptions")
    with pytest.raises(TfliteImportError, match="is of INT16 with a zero point, but no result"):
        load(write(net))


@pytest.mark.parametrize("name, exact", [("LOGISTIC", lambda x: 1 / (1 + np.exp(-x))), ("TANH", np.tanh)])
def test_output_scales_that_nnapi_does_not_have(name: str, exact) -> None:
    """TFLite's kernels refuse them too, but other converters write them: computed as real numbers."""
    source, result = q8(256), q8(scale=1 / 100, zero_point=9)
    graph = Net([source], [result])
    graph.op(name, [source], result)
    imported = load(write(graph))
    codes = [operation.code for operation in imported.model.frozen.operations]
    assert codes == [Op.DEQUANTIZE, Op[name], Op.QUANTIZE]
    steps = np.arange(-128, 128, dtype=np.int8)
    ((got,),) = actual(imported, [steps])
    want = imported.outputs[0].quantize(exact(imported.inputs[0].dequantize(steps)))
    assert np.abs(got.astype(int) - want).max() <= 1


def test_log_softmax_int8() -> None:
    check("LOG_SOFTMAX", [q8(3, 9)], q8(scale=16 / 256, zero_point=127), "LogSoftmaxOptions")


def test_l2_normalization() -> None:
    check("L2_NORMALIZATION", [f32(2, 3, 4, 5)], (), "L2NormOptions")


def test_l2_normalization_int8() -> None:
    check("L2_NORMALIZATION", [q8(2, 6)], q8(scale=1 / 128, zero_point=0), "L2NormOptions")


def test_local_response_normalization() -> None:
    """TFLite's reference kernel leaves out the last element of the window, its optimised one does not."""
    options = {"Radius": 2, "Bias": 1.5, "Alpha": 0.3, "Beta": 0.7}
    check(
        "LOCAL_RESPONSE_NORMALIZATION",
        [f32(1, 3, 2, 7)],
        (),
        "LocalResponseNormalizationOptions",
        optimised=True,
        **options,
    )


def test_gelu_by_tanh() -> None:
    check("GELU", [f32(33)], (), "GeluOptions", Approximate=True, feed=real_feed("GELU", (33,)))


def test_gelu_by_an_error_function() -> None:
    feed = np.concatenate([np.linspace(-7, 7, 1009), [0.0, -0.0, 1e-30, -1e-30, 50, -50, 1e30, -1e30, np.inf]])
    feed = feed.astype(np.float32)
    imported = check("GELU", [f32(feed.size)], (), "GeluOptions", Approximate=False, feed=[feed], atol=1e-6)
    want = [0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in feed[:-1].tolist()]
    (got,) = actual(imported, [feed])[0]
    np.testing.assert_allclose(got[:-1], want, rtol=1e-6, atol=1e-6)
    tail = (feed < -3) & (feed > -5)
    np.testing.assert_allclose(
        got[tail], 0.5 * feed[tail] * [math.erfc(-x / math.sqrt(2)) for x in feed[tail]], atol=3e-7
    )


@pytest.mark.parametrize("type_, zero_point", [("INT8", -100), ("UINT8", 28)])
@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_of_quantised_elements(approximate: bool, type_: str, zero_point: int) -> None:
    source, result = q8(256, type=type_), q8(type=type_, scale=0.03, zero_point=zero_point)
    steps = np.arange(256, dtype=np.uint8).view(source.type.lower())
    check("GELU", [source], result, "GeluOptions", Approximate=approximate, feed=[steps], steps=0)


def test_prelu() -> None:
    check("PRELU", [f32(2, 3, 3, 4), f32c(1, 1, 4)])


def test_prelu_int8() -> None:
    check("PRELU", [q8(2, 3, 3, 4), q8c(1, 1, 4, scale=0.01, zero_point=5)], q8(scale=0.04, zero_point=1))


@pytest.mark.parametrize("alpha", [0.2, 1.5, 0.0, -0.3])
def test_leaky_relu(alpha: float) -> None:
    check("LEAKY_RELU", [f32(4, 5)], (), "LeakyReluOptions", Alpha=alpha)


@pytest.mark.parametrize("alpha", [0.2, 0.0, -0.3])
@pytest.mark.parametrize("type_, zero_point", [("INT8", -5), ("UINT8", 130)])
def test_leaky_relu_quantised(alpha: float, type_: str, zero_point: int) -> None:
    source, result = q8(4, 5, type=type_), q8(type=type_, scale=0.04, zero_point=zero_point)
    check("LEAKY_RELU", [source], result, "LeakyReluOptions", Alpha=alpha)


BINARY = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}
SHAPES = [
    ((3, 4), (3, 4)),
    ((2, 3, 4, 5), (5,)),
    ((2, 1, 4, 1), (3, 1, 5)),
    ((), (3,)),
    ((1, 2, 2, 3, 4), (1, 2, 2, 3, 4)),
]


@pytest.mark.parametrize("name", [*BINARY, "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD"])
@pytest.mark.parametrize("first, second", SHAPES, ids=str)
def test_binary_float(name: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    if name.startswith("FLOOR") and len(first) > 4:
        return  # TFLite's kernel has no rank 5
    check(name, [f32(*first), f32(*second)], (), BINARY.get(name), atol=3e-5)


@pytest.mark.parametrize("activation", [1, 2, 3])
@pytest.mark.parametrize("name", BINARY)
def test_activations_of_integers(name: str, activation: int) -> None:
    feed = [np.array([-7, -2, 0, 1, 5, 9], np.int32)]
    inputs = [i32(6), i32c(2, -1, 3, 1, 2, 1)]
    check(name, inputs, out("INT32"), BINARY[name], feed=feed, FusedActivationFunction=activation)


def test_binary_of_rank_5_merges_dimensions() -> None:
    imported = check("MUL", [f32(2, 3, 2, 2, 4), f32(2, 1, 1, 1, 4)], (), "MulOptions")
    codes = [operation.code for operation in imported.model.frozen.operations]
    assert codes.count(Op.MUL) == 1


@pytest.mark.parametrize("kind", ["RELU", "RELU_N1_TO_1", "RELU6"])
@pytest.mark.parametrize("name", BINARY)
def test_binary_fused_activation(name: str, kind: str) -> None:
    fused = getattr(tflite.ActivationFunctionType, kind)
    check(name, [f32(7, 9), f32c(7, 9, scale=5)], (), BINARY[name], FusedActivationFunction=fused)


@pytest.mark.parametrize("name", [*BINARY, "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD"])
def test_binary_int32(name: str) -> None:
    feed = [np.int32([[7, -7, 7, -7, 6, 0, -6]]), np.int32([[2, 2, -2, -2, 3, 5, 3]])]
    check(name, [i32(1, 7), i32(1, 7)], out("INT32"), BINARY.get(name), feed=feed)


@pytest.mark.parametrize("name", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("type_", ["INT8", "UINT8"])
def test_binary_quantised(name: str, type_: str) -> None:
    sources = [q8(4, 8, type=type_, scale=0.05), q8(4, 8, type=type_, scale=0.03, zero_point=9)]
    fused = tflite.ActivationFunctionType.RELU
    check(name, sources, q8(type=type_, scale=0.1, zero_point=7), BINARY[name])
    check(name, sources, q8(type=type_, scale=0.1, zero_point=7), BINARY[name], FusedActivationFunction=fused)


def test_div_uint8_is_divided_as_real() -> None:
    divisor = T("UINT8", data=np.full((4, 8), 200), scale=0.03, zero_point=100)
    check("DIV", [q8(4, 8, type="UINT8"), divisor], q8(type="UINT8", scale=0.05, zero_point=100), "DivOptions")


@pytest.mark.parametrize("name", ["MAXIMUM", "MINIMUM"])
def test_extremes_int8(name: str) -> None:
    check(name, [q8(4, 8), q8(1, 8)], q8())


@pytest.mark.parametrize(
    "scales", [(0.05, 0.03, 0.3), (0.05, 0.05, 0.05), (0.0371, 0.2, 0.9), (1 / 64, 1 / 128, 1 / 32)], ids=str
)
def test_squared_difference_int8(scales: tuple[float, float, float]) -> None:
    first, second, result = scales
    every = np.arange(-128, 128, dtype=np.int8)
    inputs = q8(256, 1, scale=first), q8(256, scale=second, zero_point=-9)
    feed = [every.reshape(256, 1), every]
    check("SQUARED_DIFFERENCE", inputs, q8(scale=result, zero_point=-128), feed=feed, steps=0)


def test_pow() -> None:
    feed = [np.float32([0.5, 1, 2, 3]), np.float32([-2, 0, 1.5, 3])]
    check("POW", [f32(4), f32(4)], feed=feed)


def test_pow_by_whole_numbers_is_exact() -> None:
    feed = [np.float32([12, -12, 3, 7, -3.5, 2, -2, 1e5]), np.float32([4, 3, 5, 4, 4, -9, -9, 2])]
    check("POW", [f32(8), f32(8)], feed=feed, atol=0)


def test_pow_of_integers_is_refused() -> None:
    net = Net([i32(3), i32(3)], [out("INT32", (3,))])
    net.op("POW", net.inputs, net.outputs[0], "PowOptions")
    with pytest.raises(TfliteImportError, match="NNAPI raises no whole numbers to powers"):
        load(write(net))


def test_add_n() -> None:
    check("ADD_N", [f32(2, 3), f32(2, 3), f32(2, 3)])


@pytest.mark.parametrize("name", ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"])
def test_comparison(name: str) -> None:
    check(name, [i32(3, 5), i32(5)], out("BOOL"))
    check(name, [f32(3, 5), f32c(5)], out("BOOL"))
    check(name, [q8(3, 50), q8(3, 50)], out("BOOL"))


@pytest.mark.parametrize("scales", [(0.27408841, 0.18317083), (0.05, 0.03), (0.002, 0.003), (0.001, 0.001)], ids=str)
@pytest.mark.parametrize("type_", ["INT8", "UINT8"])
@pytest.mark.parametrize("name", ["EQUAL", "LESS", "GREATER_EQUAL"])
def test_comparison_of_every_pair(name: str, type_: str, scales: tuple[float, float]) -> None:
    """TFLite compares 256ths, which numbers that differ may share."""
    every = np.arange(256, dtype=np.uint8).view(type_.lower())
    inputs = [
        q8(256, 1, type=type_, scale=scales[0], zero_point=80),
        q8(256, type=type_, scale=scales[1], zero_point=33),
    ]
    check(name, inputs, out("BOOL"), feed=[every.reshape(256, 1), every])


def test_comparison_of_like_scales_is_one_operation() -> None:
    imported = check("LESS", [q8(3, 50), q8(3, 50, zero_point=-7)], out("BOOL"))
    assert [operation.code for operation in imported.model.frozen.operations] == [Op.LESS]


@pytest.mark.parametrize("name", ["LOGICAL_AND", "LOGICAL_OR"])
def test_logic(name: str) -> None:
    check(name, [boolean(3, 5), boolean(5)], out("BOOL"))


def test_logical_not() -> None:
    check("LOGICAL_NOT", [boolean(3, 5)], out("BOOL"))


CASTS = [
    (source, result)
    for source in ("FLOAT32", "INT32", "BOOL", "UINT8", "INT64")
    for result in ("FLOAT32", "INT32", "BOOL", "INT64", "UINT8")
]


@pytest.mark.parametrize("source, result", [*CASTS, ("INT8", "FLOAT32"), ("INT8", "INT32"), ("INT8", "BOOL")])
def test_cast(source: str, result: str) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 4, (3, 5)) + (rng.random((3, 5)) if source == "FLOAT32" else 0)
    given = T(source, (3, 5))
    check("CAST", [given], out(result), "CastOptions", feed=[values.astype(T(source, data=values).data.dtype)])


@pytest.mark.parametrize("kind", ["SELECT", "SELECT_V2"])
@pytest.mark.parametrize("type_", ["FLOAT32", "INT32", "BOOL", "INT8"])
def test_select(kind: str, type_: str) -> None:
    values = [T(type_, (3, 5), scale=0.1 if type_ == "INT8" else None) for _ in range(2)]
    check(kind, [boolean(3, 5), *values], T(type_, scale=values[0].scale))


def test_select_by_rows() -> None:
    check("SELECT", [boolean(3), f32(3, 5), f32(3, 5)])


@pytest.mark.parametrize("shapes", [((3, 1), (5,), (1,)), ((1,), (3, 5), (5,)), ((2, 3, 1), (1,), (2, 1, 5))], ids=str)
def test_select_v2_broadcasts(shapes: tuple[tuple[int, ...], ...]) -> None:
    condition, first, second = shapes
    check("SELECT_V2", [boolean(*condition), f32(*first), f32(*second)])


def test_quantize_and_dequantize() -> None:
    check("QUANTIZE", [f32(3, 5)], q8())
    check("DEQUANTIZE", [q8(3, 5)])
    check("DEQUANTIZE", [q8(1, 2, 3, 2, 5, type="UINT8")])


@pytest.mark.parametrize("source, result", [("INT8", "UINT8"), ("UINT8", "INT8"), ("INT8", "INT8")])
def test_requantize(source: str, result: str) -> None:
    every = np.arange(256, dtype=np.uint8).view(source.lower())
    given = q8(256, type=source, scale=0.03)
    check("QUANTIZE", [given], q8(type=result, scale=0.07, zero_point=11), feed=[every], steps=0)


def test_constants_are_folded() -> None:
    imported = check("ADD", [i32c(1, 2), i32c(3, 4)], out("INT32"), "AddOptions")
    assert [operation.code for operation in imported.model.frozen.operations] == [Op.RESHAPE]


def test_the_sign_of_nan_is_nan() -> None:
    source, result = f32(5), T()
    net = Net([source], [result])
    net.op("SIGN", [source], result)
    compare(write(net), [np.float32([np.nan, -0.0, 0, np.inf, -2])])


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 1.0), (0.0, 6.0), (-6.0, 0.0), (-0.3, 2.9), (-1.27, 0.004), (1.0, 3.0), (-3.0, -1.0)]
)
@pytest.mark.parametrize("bits", [2, 8, 16])
def test_fake_quant(low: float, high: float, bits: int) -> None:
    feed = np.linspace(low - 1, high + 1, 2003, dtype=np.float32).reshape(1, 2003)
    check("FAKE_QUANT", [f32(1, 2003)], (), "FakeQuantOptions", feed=[feed], Min=low, Max=high, NumBits=bits)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"NumBits": 17}, "expected 2 to 16 bits and a minimum below the maximum, got 17 from -1.0 to 1.0"),
        ({"Min": 1.0}, "got 8 from 1.0 to 1.0"),
        ({"NarrowRange": True}, "a narrow range is for weights"),
    ],
)
def test_fake_quant_that_is_refused(options: dict[str, object], reason: str) -> None:
    source, result = f32(3), T(shape=(3,))
    net = Net([source], [result])
    net.op("FAKE_QUANT", [source], result, "FakeQuantOptions", **{"Min": -1.0, "Max": 1.0, "NumBits": 8, **options})
    with pytest.raises(TfliteImportError, match=reason):
        load(write(net))


def test_atan2() -> None:
    """All quadrants, axes, diagonals, zeros of both signs, infinities, NaN."""
    edges = np.float32([0.0, -0.0, 1.0, -1.0, 1e-20, -3e30, np.inf, -np.inf, np.nan, 0.3, -7.5])
    y, x = (part.reshape(-1) for part in np.meshgrid(edges, edges))
    check("ATAN2", [f32(y.size), f32(y.size)], feed=[y, x], atol=1e-6)
    circle = np.linspace(-np.pi, np.pi, 2001, dtype=np.float32)
    check("ATAN2", [f32(2001), f32(2001)], feed=[np.sin(circle), np.cos(circle)], atol=1e-6)
