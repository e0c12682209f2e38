"""FULLY_CONNECTED, against products in whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Operand
from nnvk.types.operand import OperandType

CODE = OperationCode.FULLY_CONNECTED
Q8, Q8S = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED


def whole(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def bias_of(values, scale):
    return Operand(
        OperandType(OperandCode.TENSOR_INT32, values.shape, scale), Lifetime.CONSTANT, values.astype(np.int32)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        pytest.param((3, 7), 7, id="rank_2"),
        pytest.param((2, 3, 7), 7, id="rank_3"),
        pytest.param((2, 3, 5, 7), 35, id="rank_4_joined"),
        pytest.param((6, 7), 14, id="fewer_batches"),
        pytest.param((0, 7), 7, id="no_batches"),
    ],
)
def test_floats(ops, shape, size, dtype):
    source, weights, bias = (
        whole(*part, seed=seed, dtype=dtype) for seed, part in enumerate((shape, (11, size), (11,)))
    )
    (result,) = ops.run(CODE, source, weights, bias, 0)
    expected = source.reshape(-1, size).astype(int) @ weights.T.astype(int) + bias.astype(int)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("fuse", "low", "high"), [(0, 0, 255), (1, 100, 255), (3, 100, 112)], ids=["none", "relu", "relu6"]
)
def test_quantised_is_the_real_result_and_signed_is_unsigned(ops, fuse, low, high):
    rng = np.random.default_rng(0)
    source, weights = rng.integers(0, 256, (5, 31)), rng.integers(0, 256, (13, 31))
    bias = rng.integers(-9999, 9999, 13)

    def run(code, offset):
        dtype = OperandType(code).dtype
        (result,) = ops.run(
            CODE,
            ((source - offset).astype(dtype), 0.5, 130 - offset),
            ((weights - offset).astype(dtype), 0.0078125, 120 - offset),
            bias_of(bias, 0.00390625),
            fuse,
            outputs=[OperandType(code, (), 0.5, 100 - offset)],
        )
        return result

    result = run(Q8, 0)
    real = ((source - 130) @ (weights - 120).T + bias) / 128 + 100
    assert np.abs(result - np.clip(real, low, high)).max() < 0.6
    np.testing.assert_array_equal(run(Q8S, 128), result.astype(int) - 128)


SOURCE, WEIGHTS, BIAS = whole(3, 7), whole(11, 7), whole(11)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        pytest.param((SOURCE[0], WEIGHTS, BIAS, 0), "input must have rank 2 to 4, got shape [7]", id="rank"),
        pytest.param((SOURCE, WEIGHTS[0], BIAS, 0), "weights must have rank 2, got shape [7]", id="weights_rank"),
        pytest.param((SOURCE, WEIGHTS, BIAS[:5], 0), "bias must have shape [11], got [5]", id="bias"),
        pytest.param(
            (SOURCE, WEIGHTS[:, :5], BIAS, 0),
            "input must have a multiple of 5 elements, the input size of weights [11, 5], got shape [3, 7]",
            id="size",
        ),
        pytest.param((SOURCE, WEIGHTS, BIAS, -1), "activation must be a FuseCode (0 to 3), got -1", id="activation"),
    ],
)
def test_errors(ops, inputs, words):
    with pytest.raises(NnapiError) as error:
        ops.infer(CODE, *inputs)
    assert error.value.code is ResultCode.BAD_DATA
    assert words in error.value.reason


def test_error_of_the_bias_scale(ops):
    steps = np.zeros((2, 3), np.uint8)
    with pytest.raises(
        NnapiError, match=r"bias must have scale 0\.125, the product of input's 0\.5 and weights's 0\.25"
    ):
        ops.infer(CODE, (steps, 0.5, 0), (steps, 0.25, 0), bias_of(np.zeros(2), 0.5), 0)
