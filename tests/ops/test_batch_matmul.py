"""BATCH_MATMUL, against products in whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

CODE = OperationCode.BATCH_MATMUL


def whole(*shape, seed=0, low=-4, high=5):
    return np.random.default_rng(seed).integers(low, high, shape)


def swapped(values, adjoint):
    return np.ascontiguousarray(values.swapaxes(-1, -2)) if adjoint else values


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("adjoint", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)], ids=str)
def test_products(ops, dtype, adjoint, batch):
    first, second = whole(*batch, 5, 7), whole(*batch, 7, 11, seed=1)
    (result,) = ops.run(
        CODE, swapped(first, adjoint[0]).astype(dtype), swapped(second, adjoint[1]).astype(dtype), *adjoint
    )
    np.testing.assert_array_equal(result, first @ second)


def test_adjoints_are_optional(ops):
    first, second = whole(5, 7).astype(np.float32), whole(7, 3).astype(np.float32)
    np.testing.assert_array_equal(ops.run(CODE, first, second)[0], first @ second)


def test_int32_wraps_round(ops):
    first, second = np.full((1, 3), 2**30, np.int32), np.full((3, 1), 3, np.int32)
    assert ops.run(CODE, first, second)[0].tolist() == [[(9 * 2**30 + 2**31) % 2**32 - 2**31]]


@pytest.mark.parametrize("inner", [7, 1031])
def test_quantised(ops, inner):
    first, second = whole(3, 5, inner, low=-128, high=128), whole(3, inner, 11, seed=1, low=-128, high=128)
    scale = 0.25 * inner**0.5
    (result,) = ops.run(
        CODE,
        (first.astype(np.int8), 0.125, 3),
        (second.astype(np.int8), 0.0625, -5),
        outputs=[OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (), scale, 7)],
    )
    real = ((first - 3) @ (second + 5)) * 0.0078125 / np.float32(scale) + 7
    assert np.abs(result - np.clip(real, -128, 127)).max() < 0.6


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        pytest.param([(3,), (3,)], "input0 must have rank 2 to 4, got shape [3]", id="rank"),
        pytest.param([(2, 3, 5), (3, 5, 7)], "input1 must have the batch dimensions [2] of input0", id="batch"),
        pytest.param([(2, 3, 5), (5, 7)], "input1 must have the batch dimensions [2] of input0", id="ranks"),
        pytest.param([(3, 5), (7, 5)], "must agree along the summed dimension, got 5 and 7", id="inner"),
    ],
)
def test_errors(ops, shapes, words):
    with pytest.raises(NnapiError) as error:
        ops.infer(CODE, *(np.zeros(shape, np.float32) for shape in shapes))
    assert error.value.code is ResultCode.BAD_DATA
    assert words in error.value.reason
