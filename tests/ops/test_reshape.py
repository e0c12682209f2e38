"""RESHAPE, SQUEEZE, EXPAND_DIMS."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType


def ints(*numbers):
    return np.array(numbers, np.int32)


def counted(shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        pytest.param((3, 5, 7), (5, 21), (5, 21), id="explicit"),
        pytest.param((3, 5, 7), (-1,), (105,), id="flatten"),
        pytest.param((3, 5, 7, 1), (7, -1, 5), (7, 3, 5), id="one_open"),
        pytest.param((0, 5), (-1, 5), (0, 5), id="empty_open"),
        pytest.param((0, 5), (0, 2), (0, 2), id="empty_explicit"),
        pytest.param((1,), (1, 1, 1, 1, 1), (1, 1, 1, 1, 1), id="output_rank_5"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_reshape_keeps_elements_in_order(ops, shape, target, expected, dtype):
    source = counted(shape, dtype)
    (result,) = ops.run(OperationCode.RESHAPE, source, ints(*target))
    assert result.shape == expected
    assert result.ravel().tolist() == source.ravel().tolist()


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        pytest.param((1, 3, 1, 5), ints(0), (3, 1, 5), id="first"),
        pytest.param((1, 3, 1, 5), ints(-2), (1, 3, 5), id="negative"),
        pytest.param((1, 3, 1, 5), ints(2, 0, -2), (3, 5), id="repeated"),
        pytest.param((1, 3, 1, 5), None, (3, 5), id="omitted"),
        pytest.param((1, 3, 1, 5), ints(), (3, 5), id="none_listed"),
        pytest.param((1, 1), None, (1,), id="nothing_left"),
        pytest.param((7,), None, (7,), id="nothing_to_do"),
    ],
)
def test_squeeze(ops, shape, axes, expected):
    source = counted(shape)
    (result,) = ops.run(OperationCode.SQUEEZE, source, axes)
    assert result.shape == expected
    assert result.ravel().tolist() == source.ravel().tolist()


def test_squeeze_without_the_axes_operand(ops):
    assert ops.infer(OperationCode.SQUEEZE, counted((1, 2))) == [(2,)]


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 1, 2)])
def test_reshape_takes_sizes_in_a_tensor_of_any_rank(ops, shape):
    """Android's CPU only counts them."""
    assert ops.run(OperationCode.RESHAPE, counted((3, 5)), ints(5, -1).reshape(shape))[0].shape == (5, 3)


@pytest.mark.parametrize(
    ("axis", "expected"), [(0, (1, 3, 5)), (1, (3, 1, 5)), (2, (3, 5, 1)), (-1, (3, 5, 1)), (-3, (1, 3, 5))]
)
def test_expand_dims(ops, axis, expected):
    assert ops.run(OperationCode.EXPAND_DIMS, counted((3, 5)), axis)[0].shape == expected


@pytest.mark.parametrize(
    ("code", "inputs", "message"),
    [
        pytest.param(
            OperationCode.RESHAPE,
            (counted((3, 5)), ints(4, 4)),
            r"RESHAPE: shape must keep the 15 elements of input \[3, 5\], got \[4, 4\]",
            id="reshape_count",
        ),
        pytest.param(
            OperationCode.RESHAPE,
            (counted((3, 5)), ints(-1, 4)),
            r"RESHAPE: shape must keep the 15 elements of input \[3, 5\], got \[-1, 4\]",
            id="reshape_open_does_not_divide",
        ),
        pytest.param(
            OperationCode.RESHAPE,
            (counted((3, 5)), ints(-1, -1)),
            r"RESHAPE: shape must .* at most one -1, got \[-1, -1\]",
            id="reshape_two_open",
        ),
        pytest.param(
            OperationCode.RESHAPE,
            (counted((3, 5)), ints(-3, -5)),
            r"RESHAPE: shape must have sizes from 0 up .* got \[-3, -5\]",
            id="reshape_negative",
        ),
        pytest.param(
            OperationCode.RESHAPE,
            (counted((1,) * 5), ints(1)),
            r"RESHAPE: input must have rank 1 to 4, got shape \[1, 1, 1, 1, 1\]",
            id="reshape_rank_5",
        ),
        pytest.param(
            OperationCode.SQUEEZE,
            (counted((3, 1)), ints(0)),
            r"SQUEEZE: axes must name dimensions of size 1 of input \[3, 1\], got axis 0",
            id="squeeze_size",
        ),
        pytest.param(
            OperationCode.SQUEEZE,
            (counted((3, 1)), ints(2)),
            r"SQUEEZE: axes must be in \[-2, 2\), got 2",
            id="squeeze_axis",
        ),
        pytest.param(
            OperationCode.EXPAND_DIMS,
            (counted((3, 1)), 3),
            r"EXPAND_DIMS: axis must be in \[-3, 3\), got 3",
            id="expand_axis",
        ),
    ],
)
def test_errors(ops, code, inputs, message):
    with pytest.raises(NnapiError, match=message) as error:
        ops.infer(code, *inputs)
    assert error.value.code is ResultCode.BAD_DATA


def test_output_must_keep_the_quantisation(ops):
    wrong = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 0.5, 4)
    with pytest.raises(NnapiError, match=r"RESHAPE: output must have the scale and zero point of input.*zero point 4"):
        ops.infer(OperationCode.RESHAPE, (counted((3,), np.uint8), 0.5, 3), ints(3), outputs=[wrong])


def test_shape_known_only_at_execution_is_unknown(ops):
    assert ops.infer(OperationCode.RESHAPE, counted((3,)), OperandType(OperandCode.TENSOR_INT32, (2,))) is None
