"""ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM, POW and PRELU."""

from __future__ import annotations

import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import FuseCode, OperandCode, OperationCode
from nnvk.types.operand import OperandType

Q8 = OperandCode.TENSOR_QUANT8_ASYMM
Q8S = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
ARITHMETIC = {
    OperationCode.ADD: operator.add,
    OperationCode.SUB: operator.sub,
    OperationCode.MUL: operator.mul,
}
QUANTISED = {
    **ARITHMETIC,
    OperationCode.MAXIMUM: np.maximum,
    OperationCode.MINIMUM: np.minimum,
    OperationCode.PRELU: lambda x, alpha: np.where(x >= 0, x, x * alpha),
}
RANGES = {
    FuseCode.NONE: (-np.inf, np.inf),
    FuseCode.RELU: (0, np.inf),
    FuseCode.RELU1: (-1, 1),
    FuseCode.RELU6: (0, 6),
}


def name(value):
    return value.name if hasattr(value, "name") else None


def random(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).uniform(-4, 4, shape).astype(dtype)


def quantised(shape, scale, zero_point, seed):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8), scale, zero_point


def signed(operand):
    """The same numbers, 128 steps lower."""
    data, scale, zero_point = operand
    return (data.astype(int) - 128).astype(np.int8), scale, zero_point - 128


def real(operand):
    data, scale, zero_point = operand
    return (data.astype(float) - zero_point) * scale


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("code", [*ARITHMETIC, OperationCode.DIV], ids=name)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param((2, 3, 5, 7), (2, 3, 5, 7), id="same"),
        pytest.param((3, 1, 7), (2, 3, 5, 1), id="both_ways"),
        pytest.param((11,), (1,), id="one_element"),
        pytest.param((2, 0, 3), (1, 3), id="empty"),
    ],
)
def test_floats_broadcast(ops, code, first, second, dtype):
    a, b = random(*first, dtype=dtype), random(*second, seed=1, dtype=dtype)
    function = {**ARITHMETIC, OperationCode.DIV: operator.truediv}[code]
    (result,) = ops.run(code, a, b, 0)
    np.testing.assert_array_equal(result, function(a.astype(np.float32), b.astype(np.float32)).astype(dtype))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=4, min_side=0, max_side=4))
def test_any_shapes_that_broadcast(ops, shapes):
    first, second = (np.ones(shape, np.float32) for shape in shapes.input_shapes)
    assert ops.infer(OperationCode.ADD, first, second, 0) == [shapes.result_shape]
    assert ops.infer(OperationCode.MAXIMUM, first, second) == [shapes.result_shape]


@pytest.mark.parametrize("fuse", RANGES, ids=name)
@pytest.mark.parametrize("code", ARITHMETIC, ids=name)
def test_fused_activation(ops, code, fuse):
    low, high = RANGES[fuse]
    a, b = random(11, 13), random(13, seed=1)
    (result,) = ops.run(code, a, b, int(fuse))
    np.testing.assert_array_equal(result, np.clip(ARITHMETIC[code](a, b), low, high))
    a, b = quantised((11, 13), 0.05, 110, 0), quantised((13,), 0.04, 128, 1)
    (result,) = ops.run(code, a, b, int(fuse), outputs=[OperandType(Q8, (), 0.08, 100)])
    expected = np.clip(ARITHMETIC[code](real(a), real(b)), low, high) / 0.08 + 100
    assert np.abs(result - np.clip(expected, 0, 255)).max() < 0.52


@pytest.mark.parametrize("code", QUANTISED, ids=name)
@pytest.mark.parametrize("scale", [0.011, 0.07, 0.9])
def test_quantised_is_the_real_result_and_signed_is_unsigned(ops, code, scale):
    a, b = quantised((3, 17, 5), 0.05, 111, 0), quantised((17, 1), 0.02, 7, 1)
    fuse = (0,) if code in ARITHMETIC else ()
    (result,) = ops.run(code, a, b, *fuse, outputs=[OperandType(Q8, (), scale, 99)])
    expected = np.clip(QUANTISED[code](real(a), real(b)) / scale + 99, 0, 255)
    # Rounding twice adds at most 2^-shift, which is largest for the smallest multiplier's small shift.
    assert np.abs(result - expected).max() <= 1
    assert np.abs(result - expected).mean() < 0.3
    (lower,) = ops.run(code, signed(a), signed(b), *fuse, outputs=[OperandType(Q8S, (), scale, 99 - 128)])
    np.testing.assert_array_equal(lower, result.astype(int) - 128)


@pytest.mark.parametrize("code", ARITHMETIC, ids=name)
def test_int32_wraps_round(ops, code):
    a = np.array([7, -3, 2**31 - 1, -(2**31)], np.int32)
    b = np.array([2, 5, 2**31 - 1, 3], np.int32)
    (result,) = ops.run(code, a, b, 0)
    exact = [ARITHMETIC[code](int(x), int(y)) for x, y in zip(a, b, strict=True)]
    assert result.tolist() == [(value + 2**31) % 2**32 - 2**31 for value in exact]


def test_int32_division_rounds_down(ops):
    a, b = np.array([5, -5, 5, -5, 0], np.int32), np.array([2, 2, -2, -2, 3], np.int32)
    (result,) = ops.run(OperationCode.DIV, a, b, 0)
    assert result.tolist() == [2, -3, -3, 2, 0]


@pytest.mark.parametrize("divisor", [np.array([2, 0, 0, 0], np.int32), np.zeros(1, np.int32)], ids=["some", "all"])
def test_an_int32_divided_by_zero_is_zero(ops, divisor):
    """NNAPI leaves it open, but the execution must succeed."""
    (result,) = ops.run(OperationCode.DIV, np.array([5, -5, 0, -(2**31)], np.int32), divisor, 0)
    assert result.tolist() == [2 if divisor.size > 1 else 0, 0, 0, 0]


def test_float_division_by_zero_is_infinite(ops):
    (result,) = ops.run(OperationCode.DIV, np.array([1, -1], np.float32), np.zeros(1, np.float32), 0)
    assert result.tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_extremes(ops, dtype):
    a, b = (random(3, 1, 7) * 100).astype(dtype), (random(5, 1, seed=1) * 100).astype(dtype)
    np.testing.assert_array_equal(ops.run(OperationCode.MAXIMUM, a, b)[0], np.maximum(a, b))
    np.testing.assert_array_equal(ops.run(OperationCode.MINIMUM, a, b)[0], np.minimum(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_power(ops, dtype):
    base, exponent = np.abs(random(7, 1, dtype=dtype)), random(5, seed=1, dtype=dtype)
    (result,) = ops.run(OperationCode.POW, base, exponent)
    expected = [[float(x) ** float(y) for y in exponent] for x in base[:, 0]]
    np.testing.assert_allclose(result, expected, rtol=2e-3 if dtype == np.float16 else 1e-6)


def test_power_of_negative_bases(ops):
    (result,) = ops.run(OperationCode.POW, np.array([-2, -2, 0], np.float32), np.array([3, 0.5, 0], np.float32))
    np.testing.assert_array_equal(result, np.array([-8, np.nan, 1], np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_powers_are_rounded_once(ops, dtype):
    """Those that the type holds are exact."""
    pairs = [(base, exponent) for base in range(-40, 41) for exponent in range(-3, 6) if base]
    base, exponent = np.array(pairs, dtype).T.copy()
    (result,) = ops.run(OperationCode.POW, base, exponent)
    exact = np.array([float(Fraction(base) ** exponent) for base, exponent in pairs])
    with np.errstate(over="ignore"):
        assert np.array_equal(result, exact.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_prelu(ops, dtype):
    x, alpha = random(2, 3, 5, dtype=dtype), random(5, seed=1, dtype=dtype)
    (result,) = ops.run(OperationCode.PRELU, x, alpha)
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(result, np.where(wide >= 0, wide, wide * alpha.astype(np.float32)).astype(dtype))


ONE = np.ones(1, np.float32)
INTS = np.ones(3, np.int32)
BYTES = np.ones(3, np.uint8)


@pytest.mark.parametrize(
    ("code", "inputs", "result", "words"),
    [
        pytest.param("ADD", (np.ones((2, 3), np.float32), np.ones(2, np.float32), 0), "BAD_DATA", "input1 must have a shape that broadcasts with [2, 3] of input0, got [2]", id="shapes"),  # noqa: E501
        pytest.param("ADD", (np.ones((1, 0), np.float32), np.ones(2, np.float32), 0), "BAD_DATA", "broadcasts with [1, 0]", id="zero_beside_two"),  # noqa: E501
        pytest.param("MUL", (np.ones((1,) * 5, np.float32), ONE, 0), "BAD_DATA", "input0 must have rank 4 at most, got shape [1, 1, 1, 1, 1]", id="rank"),  # noqa: E501
        pytest.param("MUL", ((BYTES, 1.0, 3), (BYTES, 1.0, 3), 0), "BAD_DATA", "output must have a larger scale than 1, the product of input0's 1 and input1's 1, got 1", id="product_scale"),  # noqa: E501
        pytest.param("SUB", (ONE, ONE, 4), "BAD_DATA", "activation must be a FuseCode (0 to 3), got 4", id="fuse_code"),
        pytest.param("ADD", (INTS, INTS, 1), "BAD_DATA", "activation must be NONE (0) for TENSOR_INT32, got 1", id="int32_activation"),  # noqa: E501
        pytest.param("ADD", (ONE, INTS, 0), "BAD_DATA", "input1 (input 1) must be TENSOR_FLOAT32, got TENSOR_INT32[3]", id="types"),  # noqa: E501
        pytest.param("PRELU", (np.ones((2, 3), np.float32), np.ones(2, np.float32)), "BAD_DATA", "alpha must have a shape that broadcasts with [2, 3] of input", id="alpha"),  # noqa: E501
    ],
)  # fmt: skip
def test_errors(ops, code, inputs, result, words):
    with pytest.raises(NnapiError) as error:
        ops.run(OperationCode[code], *inputs)
    assert error.value.code is ResultCode[result]
    assert error.value.reason.startswith(f"{code}: ")
    assert words in error.value.reason
