"""SOFTMAX and LOG_SOFTMAX, against their definition in float64."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

Q8, Q8S = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED


def softmax(logits, beta, axis):
    powers = np.exp((logits.astype(float) - logits.max(axis=axis, keepdims=True)) * beta)
    return powers / powers.sum(axis=axis, keepdims=True)


def logits(*shape, dtype=np.float32):
    return np.random.default_rng(0).uniform(-9, 9, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize(
    ("shape", "axis"), [((7,), 0), ((5, 11), 1), ((3, 5, 7), -2), ((2, 3, 5, 7), 1), ((2, 3, 5, 7), -4)], ids=str
)
def test_any_axis(ops, shape, axis, beta, dtype):
    source = logits(*shape, dtype=dtype)
    tolerance = 2e-3 if dtype == np.float16 else 1e-6
    (result,) = ops.run(OperationCode.SOFTMAX, source, dtype(beta), axis)
    np.testing.assert_allclose(result, softmax(source, beta, axis), atol=tolerance)
    (result,) = ops.run(OperationCode.LOG_SOFTMAX, source, dtype(beta), axis)
    np.testing.assert_allclose(result, np.log(softmax(source, beta, axis)), atol=5 * tolerance, rtol=tolerance)


def test_the_axis_is_the_last_by_default(ops):
    source = logits(3, 5, 7)
    np.testing.assert_array_equal(
        ops.run(OperationCode.SOFTMAX, source, 1.0)[0], ops.run(OperationCode.SOFTMAX, source, 1.0, 2)[0]
    )


def test_large_logits_do_not_overflow(ops):
    source = np.array([[1000, 999, -1000], [-3e38, -3e38, 3e38]], np.float32)
    np.testing.assert_allclose(
        ops.run(OperationCode.SOFTMAX, source, 1.0)[0], [[0.7310586, 0.26894143, 0], [0, 0, 1]], rtol=1e-6
    )
    assert np.isfinite(ops.run(OperationCode.LOG_SOFTMAX, source[:1], 1.0, 1)[0]).all()


def test_log_softmax_of_a_negative_beta(ops):
    source = np.array([[1000, 999, 998]], np.float32)
    expected = np.log(softmax(-source, 1.0, 1))
    np.testing.assert_allclose(ops.run(OperationCode.LOG_SOFTMAX, source, -1.0, 1)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.01, 0.2])
def test_quantised_signed_is_unsigned(ops, scale):
    steps = np.random.default_rng(0).integers(0, 256, (5, 17)).astype(np.uint8)
    (result,) = ops.run(OperationCode.SOFTMAX, (steps, scale, 100), 0.7, outputs=[OperandType(Q8, (), 1 / 256, 0)])
    assert np.abs(result - np.minimum(255, softmax(steps * scale, 0.7, 1) * 256)).max() < 0.51
    signed = (steps.astype(int) - 128).astype(np.int8)
    (lower,) = ops.run(OperationCode.SOFTMAX, (signed, scale, -28), 0.7, outputs=[OperandType(Q8S, (), 1 / 256, -128)])
    np.testing.assert_array_equal(lower, result.astype(int) - 128)


def test_halves_of_8_bits_are_those_of_litert(ops):
    """The smaller share is 127.5000025 levels, and less than 127.5 in single precision."""
    output = OperandType(Q8, (), 1 / 256, 0)
    (result,) = ops.run(OperationCode.SOFTMAX, (np.uint8([[172, 170]]), 1 / 128, 0), 0.5, outputs=[output])
    assert result.tolist() == [[128, 127]]


@pytest.mark.parametrize("shape", [(0, 7), (7, 0)], ids=str)
@pytest.mark.parametrize("code", ["SOFTMAX", "LOG_SOFTMAX"])
def test_empty(ops, code, shape):
    assert ops.run(OperationCode[code], np.zeros(shape, np.float32), 1.0, 1)[0].shape == shape


STEPS = np.zeros((2, 3), np.uint8)


@pytest.mark.parametrize(
    ("inputs", "output", "words"),
    [
        pytest.param((logits(2, 3), 0.0), None, "beta must be positive, got 0", id="beta"),
        pytest.param((logits(2, 3), 1.0, 2), None, "axis must be in [-2, 2), got 2", id="axis"),
        pytest.param((logits(1, 1, 1, 1, 1), 1.0), None, "input must have rank 1 to 4", id="rank"),
        pytest.param(((STEPS, 1.0, 0), 1.0), OperandType(Q8, (), 1 / 128, 0), "output must have scale 0.00390625 and zero point 0", id="scale"),  # noqa: E501
        pytest.param(((STEPS, 1.0, 0), 1.0), OperandType(Q8, (), 1 / 256, 1), "output must have scale 0.00390625 and zero point 0", id="zero_point"),  # noqa: E501
        pytest.param((logits(2, 3), np.float16(1)), None, "beta (input 1) must be FLOAT32, got FLOAT16", id="beta_type"),  # noqa: E501
    ],
)  # fmt: skip
def test_errors(ops, inputs, output, words):
    with pytest.raises(NnapiError) as error:
        ops.infer(OperationCode.SOFTMAX, *inputs, outputs=[output] if output else None)
    assert error.value.code is ResultCode.BAD_DATA
    assert words in error.value.reason
