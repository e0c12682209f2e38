"""SLICE and STRIDED_SLICE."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType


def ints(*numbers):
    return np.array(numbers, np.int32)


def counted(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "begin", "size", "expected"),
    [
        pytest.param((7,), (2,), (3,), (slice(2, 5),), id="rank_1"),
        pytest.param((3, 5), (1, 0), (-1, -1), (slice(1, 3), slice(0, 5)), id="rest"),
        pytest.param((3, 5), (3, 1), (-1, 0), (slice(3, 3), slice(1, 1)), id="empty_result"),
        pytest.param((0, 5), (0, 1), (0, 3), (slice(0, 0), slice(1, 4)), id="empty_input"),
        pytest.param((2, 1, 3, 1, 5), (1, 0, 1, 0, 4), (1, 1, 2, 1, 1), np.s_[1:2, 0:1, 1:3, 0:1, 4:5], id="rank_5"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_slice(ops, shape, begin, size, expected, dtype):
    source = counted(*shape, dtype=dtype)
    assert np.array_equal(ops.run(OperationCode.SLICE, source, ints(*begin), ints(*size))[0], source[expected])


def clamped(index, size, forward):
    """NNAPI's rule for begin and end: negative ones count from the end, then they stay near the tensor."""
    if forward:
        index = min(max(index, -size), size)
        return index if index == size else index % size
    return -1 if index < -size else min(index, size - 1) % size


def taken(size, begin, end, stride, begin_masked, end_masked):
    """The indices of one axis, one after the other."""
    forward = stride > 0
    first = (0 if forward else size - 1) if begin_masked else clamped(begin, size, forward)
    last = (size if forward else -1) if end_masked else clamped(end, size, forward)
    return [index for index in range(first, last, stride)]


AXIS = st.tuples(
    st.integers(1, 5), st.integers(-8, 8), st.integers(-8, 8), st.sampled_from([-4, -2, -1, 1, 2, 3]), st.booleans(),
    st.booleans(),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(axes=st.lists(AXIS, min_size=1, max_size=4))
def test_strided_slice_is_the_rule_of_each_axis(ops, axes):
    source = counted(*(axis[0] for axis in axes))
    begin, end, strides = (ints(*(axis[k] for axis in axes)) for k in (1, 2, 3))
    masks = [sum(axis[k] << bit for bit, axis in enumerate(axes)) for k in (4, 5)]
    (result,) = ops.run(OperationCode.STRIDED_SLICE, source, begin, end, strides, *masks, 0)
    assert np.array_equal(result, source[np.ix_(*(np.array(taken(*axis), int) for axis in axes))])


@pytest.mark.parametrize(
    ("shape", "begin", "end", "strides", "shrink", "expected"),
    [
        pytest.param((3, 5), (1, 0), (2, 5), (1, 1), 1, np.s_[1], id="first"),
        pytest.param((3, 5), (0, -1), (3, 5), (1, 1), 2, np.s_[:, -1], id="last_negative"),
        pytest.param((2, 3, 5), (1, 2, 0), (2, 3, 5), (1, 1, 2), 3, np.s_[1, 2, ::2], id="two"),
        pytest.param((3,), (2,), (3,), (1,), 1, np.s_[2:3], id="nothing_left"),
        pytest.param((7,), (5,), (0,), (-2,), 0, np.s_[5:0:-2], id="backwards"),
    ],
)
def test_strided_slice_shrinks(ops, shape, begin, end, strides, shrink, expected):
    source = counted(*shape)
    (result,) = ops.run(OperationCode.STRIDED_SLICE, source, ints(*begin), ints(*end), ints(*strides), 0, 0, shrink)
    assert np.array_equal(result, source[expected])


@pytest.mark.parametrize(
    ("begin", "size", "message"),
    [
        pytest.param((0,), (1, 1), r"begin must have shape \[2\], got shape \[1\]", id="length"),
        pytest.param(
            (0, 3),
            (1, 3),
            "begin and size of axis 1 must stay in its 5 elements, got begin 3 and size 3",
            id="too_far",
        ),
        pytest.param((-1, 0), (1, 1), "of axis 0 must stay in its 3 elements, got begin -1", id="negative_begin"),
        pytest.param((0, 0), (1, -2), "of axis 1 must stay in its 5 elements, got begin 0 and size -2", id="size"),
        pytest.param((4, 0), (-1, 1), "of axis 0 must stay in its 3 elements, got begin 4 and size -1", id="rest"),
    ],
)
def test_slice_errors(ops, begin, size, message):
    with pytest.raises(NnapiError, match=f"SLICE: .*{message}") as error:
        ops.infer(OperationCode.SLICE, counted(3, 5), ints(*begin), ints(*size))
    assert error.value.code is ResultCode.BAD_DATA


@pytest.mark.parametrize(
    ("shape", "strides", "shrink", "message"),
    [
        pytest.param((3, 5), (1, 0), 0, r"strides must not be 0, got \[1, 0\]", id="stride"),
        pytest.param((3, 5), (1,), 0, r"strides must have shape \[2\], got shape \[1\]", id="length"),
        pytest.param((3, 5), (1, 1), 1, r"one element of axis 0 .* got \[0:2:1\] of 3", id="shrink_two"),
        pytest.param((1, 5), (-1, 1), 1, r"a positive stride, got \[0:2:-1\] of 1", id="shrink_backwards"),
        pytest.param((1,) * 5, (1,) * 5, 0, "input must have rank 1 to 4", id="rank_5"),
    ],
)
def test_strided_slice_errors(ops, shape, strides, shrink, message):
    begin, end = ints(*[0] * len(shape)), ints(*[2] * len(shape))
    with pytest.raises(NnapiError, match=f"STRIDED_SLICE: .*{message}") as error:
        ops.infer(OperationCode.STRIDED_SLICE, counted(*shape), begin, end, ints(*strides), 0, 0, shrink)
    assert error.value.code is ResultCode.BAD_DATA


def test_begin_known_only_at_execution_is_unknown(ops):
    unknown = OperandType(OperandCode.TENSOR_INT32, (2,))
    assert ops.infer(OperationCode.SLICE, counted(3, 5), unknown, ints(1, 1)) is None
