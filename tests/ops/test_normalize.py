"""L2_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION and INSTANCE_NORMALIZATION, against loops in float64."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

L2 = OperationCode.L2_NORMALIZATION
LOCAL = OperationCode.LOCAL_RESPONSE_NORMALIZATION
INSTANCE = OperationCode.INSTANCE_NORMALIZATION
Q8, Q8S = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
AXES = pytest.mark.parametrize(
    ("shape", "axis"), [((7,), 0), ((5, 11), -1), ((3, 5, 7), 1), ((2, 3, 5, 7), -3), ((2, 0, 3), 2)], ids=str
)


def random(*shape, dtype=np.float32):
    return np.random.default_rng(0).uniform(-4, 4, shape).astype(dtype)


@AXES
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_l2(ops, shape, axis, dtype):
    x = random(*shape, dtype=dtype)
    expected = x / np.sqrt((x.astype(float) ** 2).sum(axis=axis, keepdims=True))
    np.testing.assert_allclose(ops.run(L2, x, axis)[0], expected, rtol=2**-10 if dtype == np.float16 else 1e-6)


def test_l2_of_zeros_is_zero(ops):
    assert not ops.run(L2, np.zeros((2, 3), np.float32))[0].any()
    result = ops.run(L2, (np.full((2, 3), 9, np.uint8), 0.5, 9), outputs=[OperandType(Q8, (), 1 / 128, 128)])[0]
    assert (result == 128).all()


def test_l2_quantised_signed_is_unsigned(ops):
    steps = np.random.default_rng(0).integers(0, 256, (7, 5)).astype(np.uint8)
    centred = steps.astype(float) - 77
    (result,) = ops.run(L2, (steps, 0.3, 77), outputs=[OperandType(Q8, (), 1 / 128, 128)])
    expected = centred / np.sqrt((centred**2).sum(axis=1, keepdims=True)) * 128 + 128
    assert np.abs(result - np.minimum(expected, 255)).max() < 0.51
    signed = (steps.astype(int) - 128).astype(np.int8)
    (lower,) = ops.run(L2, (signed, 0.3, 77 - 128), outputs=[OperandType(Q8S, (), 1 / 128, 0)])
    np.testing.assert_array_equal(lower, result.astype(int) - 128)


@pytest.mark.parametrize("scale", [1e-30, 0.01, 1e30])
def test_l2_quantised_does_not_depend_on_the_scale(ops, scale):
    steps = np.array([[12, 9, 9], [13, 9, 6], [10, 9, 9]], np.uint8)
    (result,) = ops.run(L2, (steps, scale, 9), outputs=[OperandType(Q8, (), 1 / 128, 128)])
    np.testing.assert_array_equal(result, [[255, 128, 128], [230, 128, 51], [255, 128, 128]])


def test_l2_quantised_rounds_halves_away_from_zero(ops):
    steps = np.array([[1, 255, 22, 5, 1]], np.uint8)  # their squares are 256 by 256
    output = OperandType(Q8, (), 1 / 128, 128)
    (result,) = ops.run(L2, (steps, 0.3, 0), outputs=[output])
    np.testing.assert_array_equal(result, [[129, 255, 139, 131, 129]])
    (result,) = ops.run(L2, (255 - steps, 0.3, 255), outputs=[output])
    np.testing.assert_array_equal(result, [[127, 0, 117, 125, 127]])


@AXES
@pytest.mark.parametrize("radius", [0, 2, 50])
def test_local_response(ops, shape, axis, radius):
    x = random(*shape)
    bias, alpha, beta = 2.0, 0.3, 0.75
    moved = np.moveaxis(x.astype(float), axis, -1)
    expected = np.empty_like(moved)
    for index in range(moved.shape[-1]):
        near = moved[..., max(0, index - radius) : index + radius + 1]
        expected[..., index] = moved[..., index] / (bias + alpha * (near**2).sum(axis=-1)) ** beta
    (result,) = ops.run(LOCAL, x, radius, bias, alpha, beta, axis)
    np.testing.assert_allclose(result, np.moveaxis(expected, -1, axis), rtol=2e-6)


def test_local_response_float16(ops):
    x = random(3, 7, dtype=np.float16)
    half = [np.float16(value) for value in (1.0, 0.5, 0.5)]
    (wide,) = ops.run(LOCAL, x.astype(np.float32), 1, 1.0, 0.5, 0.5)
    np.testing.assert_array_equal(ops.run(LOCAL, x, 1, *half)[0], wide.astype(np.float16))


@pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_instance(ops, nchw, dtype):
    x = random(2, 5, 7, 3, dtype=dtype)
    wide = x.astype(float)
    mean, variance = wide.mean(axis=(1, 2), keepdims=True), wide.var(axis=(1, 2), keepdims=True)
    expected = (wide - mean) * 1.5 / np.sqrt(variance + 0.0009765625) + 0.25
    fed = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if nchw else x
    (result,) = ops.run(INSTANCE, fed, dtype(1.5), dtype(0.25), dtype(0.0009765625), nchw)
    result = result.transpose(0, 2, 3, 1) if nchw else result
    np.testing.assert_allclose(result, expected, rtol=2**-10 if dtype == np.float16 else 1e-5, atol=1e-3 if dtype == np.float16 else 1e-6)  # noqa: E501  # fmt: skip


def test_instance_of_a_large_image_keeps_its_precision(ops):
    x = random(1, 251, 257, 1) + np.float32(1000)
    (result,) = ops.run(INSTANCE, x, 1.0, 0.0, 1e-4, False)
    wide = x.astype(float)
    np.testing.assert_allclose(result, (wide - wide.mean()) / np.sqrt(wide.var() + 1e-4), atol=1e-5)


@pytest.mark.parametrize(
    ("code", "inputs", "output", "words"),
    [
        pytest.param(L2, (random(2, 3), 2), None, "axis must be in [-2, 2), got 2", id="axis"),
        pytest.param(L2, (random(1, 1, 1, 1, 1),), None, "input must have rank 1 to 4", id="rank"),
        pytest.param(L2, ((np.zeros(3, np.uint8), 1.0, 0),), OperandType(Q8, (), 1 / 256, 128), "output must have scale 0.0078125 and zero point 128", id="scale"),  # noqa: E501
        pytest.param(LOCAL, (random(2, 3), -1, 1.0, 1.0, 1.0), None, "radius must not be negative, got -1", id="radius"),  # noqa: E501
        pytest.param(INSTANCE, (random(2, 3), 1.0, 0.0, 0.1, False), None, "input must have rank 4, got shape [2, 3]", id="image"),  # noqa: E501
    ],
)  # fmt: skip
def test_errors(ops, code, inputs, output, words):
    with pytest.raises(NnapiError) as error:
        ops.infer(code, *inputs, outputs=[output] if output else None)
    assert error.value.code is ResultCode.BAD_DATA
    assert words in error.value.reason
