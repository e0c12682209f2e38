"""Comparisons, LOGICAL_AND, LOGICAL_OR and SELECT."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

BOOL8 = [OperandType(OperandCode.TENSOR_BOOL8)]
COMPARISONS = {
    OperationCode.EQUAL: operator.eq,
    OperationCode.GREATER: operator.gt,
    OperationCode.GREATER_EQUAL: operator.ge,
    OperationCode.LESS: operator.lt,
    OperationCode.LESS_EQUAL: operator.le,
    OperationCode.NOT_EQUAL: operator.ne,
}
ROWS = pytest.mark.parametrize(
    ("code", "function"), [pytest.param(*row, id=row[0].name) for row in COMPARISONS.items()]
)


def few(*shape, seed=0):
    """Few different numbers, so that some are equal."""
    return np.random.default_rng(seed).integers(-2, 3, shape)


@ROWS
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.bool_])
def test_comparisons_broadcast(ops, code, function, dtype):
    first, second = few(3, 1, 7).astype(dtype), few(5, 1, seed=1).astype(dtype)
    (result,) = ops.run(code, first, second, outputs=BOOL8)
    np.testing.assert_array_equal(result, function(first, second))


@ROWS
def test_quantised_are_compared_as_real_numbers(ops, code, function):
    first, second = (few(11, 13, seed=seed) + 10 for seed in (0, 1))
    real = (first - 8) * 0.5, (second - 9) * 0.25
    for offset, dtype in ((0, np.uint8), (128, np.int8)):
        (result,) = ops.run(
            code,
            ((first - offset).astype(dtype), 0.5, 8 - offset),
            ((second - offset).astype(dtype), 0.25, 9 - offset),
            outputs=BOOL8,
        )
        np.testing.assert_array_equal(result, function(*real))


@ROWS
def test_nan_is_not_equal_to_anything(ops, code, function):
    nan = np.full(1, np.nan, np.float32)
    assert ops.run(code, nan, nan, outputs=BOOL8)[0].tolist() == [code is OperationCode.NOT_EQUAL]


@pytest.mark.parametrize(
    ("code", "function"), [(OperationCode.LOGICAL_AND, operator.and_), (OperationCode.LOGICAL_OR, operator.or_)]
)
def test_logical(ops, code, function):
    first, second = np.array([[False], [True]]), np.array([False, True, True])
    np.testing.assert_array_equal(ops.run(code, first, second)[0], function(first, second))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_select(ops, dtype):
    condition, first, second = few(3, 5, 7) > 0, few(3, 5, 7).astype(dtype), few(3, 5, 7, seed=1).astype(dtype)
    (result,) = ops.run(OperationCode.SELECT, condition, first, second, outputs=[OperandType(TYPES[dtype])])
    np.testing.assert_array_equal(result, np.where(condition, first, second))


TYPES = {
    np.float32: OperandCode.TENSOR_FLOAT32,
    np.float16: OperandCode.TENSOR_FLOAT16,
    np.int32: OperandCode.TENSOR_INT32,
}


@pytest.mark.parametrize(
    ("dtype", "code", "offset"),
    [
        (np.uint8, OperandCode.TENSOR_QUANT8_ASYMM, 0),
        (np.int8, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 128),
    ],
)
def test_select_rescales_to_the_output(ops, dtype, code, offset):
    condition = np.array([True, True, False, False])
    first, second = ((np.array(steps) - offset).astype(dtype) for steps in ([10, 255, 0, 0], [0, 0, 11, 13]))
    (result,) = ops.run(
        OperationCode.SELECT,
        condition,
        (first, 1.0, 8 - offset),
        (second, 0.25, 3 - offset),
        outputs=[OperandType(code, (), 0.5, 2 - offset)],
    )
    assert (result.astype(int) + offset).tolist() == [6, 255, 6, 7]


def test_errors(ops):
    with pytest.raises(
        NnapiError, match=r"LESS: input1 must have a shape that broadcasts with \[3\] of input0"
    ) as error:
        ops.infer(OperationCode.LESS, np.zeros(3, np.int32), np.zeros(2, np.int32), outputs=BOOL8)
    assert error.value.code is ResultCode.BAD_DATA
    with pytest.raises(NnapiError, match=r"SELECT: input2 must have shape \[3\], got \[1\]"):
        ops.infer(
            OperationCode.SELECT, np.zeros(3, bool), np.zeros(3, np.int32), np.zeros(1, np.int32),
            outputs=[OperandType(OperandCode.TENSOR_INT32)],
        )  # fmt: skip
