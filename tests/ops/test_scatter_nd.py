"""SCATTER_ND against plain loops."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops.extension.scatter_nd import Reduction
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import OperandType

SCATTER_ND = ExtendedOperationCode.SCATTER_ND
COMBINE = {
    Reduction.NONE: lambda before, update: update,
    Reduction.ADD: lambda before, update: before + update,
    Reduction.MUL: lambda before, update: before * update,
    Reduction.MAX: np.maximum,
    Reduction.MIN: np.minimum,
}


def ints(numbers):
    return np.array(numbers, np.int32)


def drawn(dtype, *shape):
    rng = np.random.default_rng(5)
    if dtype == np.int32:
        return rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("reduction", Reduction)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_updates_in_their_order(ops, depth, reduction, dtype):
    source = drawn(dtype, 3, 2, 5)
    indices = np.random.default_rng(depth).integers(-2, 2, (7, 2, depth)).astype(np.int32)
    updates = drawn(dtype, 7, 2, *source.shape[depth:])
    expected = source.copy()
    with np.errstate(over="ignore"):  # whole numbers wrap
        for position in np.ndindex(7, 2):
            place = tuple(indices[position])
            expected[place] = COMBINE[reduction](expected[place], updates[position])
    (result,) = ops.run(SCATTER_ND, source, indices, updates, int(reduction), outputs=[_type(dtype)])
    assert np.array_equal(result, expected)


def _type(dtype):
    codes = {np.float32: OperandCode.TENSOR_FLOAT32, np.float16: OperandCode.TENSOR_FLOAT16}
    return OperandType(codes.get(dtype, OperandCode.TENSOR_INT32))


def test_into_zeros_updates_are_added_up(ops):
    (result,) = ops.run(
        SCATTER_ND, ints([[1], [3], [1]]), drawn(np.float32, 3, 2), ints([5, 2]), outputs=[_type(np.float32)]
    )
    updates = drawn(np.float32, 3, 2)
    assert np.array_equal(result, [[0, 0], updates[0] + updates[2], [0, 0], updates[1], [0, 0]])


def test_steps_wrap(ops):
    """As TFLite adds them: whole numbers, whatever the scale and the zero point."""
    steps = np.array([100, 100, -3], np.int8), 0.5, 3
    output = OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (), 0.5, 3)
    (result,) = ops.run(SCATTER_ND, ints([[1], [1], [0]]), steps, ints([3]), outputs=[output])
    assert result.tolist() == [-3, -56, 0]


def test_booleans(ops):
    (result,) = ops.run(
        SCATTER_ND,
        ints([[1], [1], [0]]),
        np.array([True, True, False]),
        ints([3]),
        outputs=[OperandType(OperandCode.TENSOR_BOOL8)],
    )
    assert result.tolist() == [False, True, False]


def test_no_updates(ops):
    source = drawn(np.float32, 3, 2)
    (result,) = ops.run(SCATTER_ND, source, ints([]).reshape(0, 1), np.zeros((0, 2), np.float32), 0, outputs=[F32])
    assert np.array_equal(result, source)


F32 = _type(np.float32)
U8 = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 0.5, 3)
ROW = np.zeros((1, 5), np.float32)


@pytest.mark.parametrize(
    ("inputs", "output", "message"),
    [
        ((ints([[3]]), ROW, ints([3, 5])), F32, r"indices must be in \[-3, 3\) along axis 0, got 3 along axis 0"),
        ((ints([[0, 0, 0]]), ROW, ints([3, 5])), F32, r"the last dimension of indices must be 1 to 2"),
        ((ints([[0], [1]]), ROW, ints([3, 5])), F32, r"updates must have shape \[2, 5\], got \[1, 5\]"),
        ((ints([[0]]), ROW, ints([3, -5])), F32, r"shape must be one or more sizes from 0 on, got \[3, -5\]"),
        ((np.zeros((3, 5), np.float32), ints([[0]]), ROW, 5), F32, "reduction must be 0 to 4, got 5"),
        ((np.zeros((3, 5), np.float32), ints([[0]]), ROW, -1), F32, "reduction must be 0 to 4, got -1"),
        ((ints([[0]]), (np.zeros((1, 5), np.uint8), 0.5, 4), ints([3, 5])), U8, "output must have the scale"),
        (
            ((np.zeros((3, 5), np.uint8), 0.5, 3), ints([[0]]), (np.zeros((1, 5), np.uint8), 0.5, 3), 2),
            U8,
            "updates must be TENSOR_FLOAT32 or TENSOR_FLOAT16 or TENSOR_INT32 for reduction MUL",
        ),
    ],
)
def test_errors(ops, inputs, output, message):
    with pytest.raises(NnapiError, match=f"SCATTER_ND: {message}") as error:
        ops.infer(SCATTER_ND, *inputs, outputs=[output])
    assert error.value.code is ResultCode.BAD_DATA
