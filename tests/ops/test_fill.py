"""FILL and RANK."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

INT32 = OperandType(OperandCode.INT32)


@pytest.mark.parametrize(
    ("value", "code", "dtype"),
    [
        (1.5, OperandCode.TENSOR_FLOAT32, np.float32),
        (np.float16(0.1), OperandCode.TENSOR_FLOAT16, np.float16),
        (-(2**31), OperandCode.TENSOR_INT32, np.int32),
    ],
)
@pytest.mark.parametrize("shape", [(3,), (2, 1, 3, 1, 5), (0, 3)])
def test_fill(ops, value, code, dtype, shape):
    (result,) = ops.run(OperationCode.FILL, np.array(shape, np.int32), value, outputs=[OperandType(code)])
    assert np.array_equal(result, np.full(shape, value, dtype))


def test_fill_gives_the_type_of_its_value(ops):
    with pytest.raises(NnapiError, match="FILL: output output must be TENSOR_INT32, got TENSOR_FLOAT32"):
        ops.infer(OperationCode.FILL, np.array([3], np.int32), 7, outputs=[OperandType(OperandCode.TENSOR_FLOAT32)])


def test_fill_needs_sizes(ops):
    with pytest.raises(NnapiError, match=r"FILL: dims must not be negative, got \[3, -1\]"):
        ops.infer(OperationCode.FILL, np.array([3, -1], np.int32), 7)


@pytest.mark.parametrize("shape", [(7,), (3, 0), (1,) * 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.bool_])
def test_rank(ops, shape, dtype):
    (result,) = ops.run(OperationCode.RANK, np.zeros(shape, dtype), outputs=[INT32])
    assert result == len(shape)


def test_rank_is_a_scalar_before_the_shape_is_known(ops):
    assert ops.infer(OperationCode.RANK, OperandType(OperandCode.TENSOR_FLOAT32), outputs=[INT32]) == [()]
