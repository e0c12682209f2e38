"""PAD, PAD_V2, MIRROR_PAD."""

import itertools

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

rng = np.random.default_rng(11)


def real(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def pads(*pairs):
    return np.array(pairs, np.int32).reshape(-1, 2)


def padded(source, pairs, value):
    """Pad an array by assigning the middle of a larger one."""
    shape = [before + size + after for size, (before, after) in zip(source.shape, pairs, strict=True)]
    result = np.full(shape, value, source.dtype)
    middle = tuple(slice(before, before + size) for size, (before, _) in zip(source.shape, pairs, strict=True))
    result[middle] = source
    return result


CASES = [
    pytest.param((5,), [(2, 3)], id="rank_1"),
    pytest.param((3, 7), [(0, 0), (0, 0)], id="nothing"),
    pytest.param((3, 7), [(1, 0), (0, 2)], id="one_side_each"),
    pytest.param((1, 3, 5, 2), [(1, 2), (0, 1), (3, 0), (1, 1)], id="all_axes"),
    pytest.param((0, 3), [(2, 0), (1, 1)], id="empty"),
]


@pytest.mark.parametrize(("shape", "pairs"), CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_pad_is_zero(ops, shape, pairs, dtype):
    source = real(*shape, dtype=dtype)
    assert np.array_equal(ops.run(OperationCode.PAD, source, pads(*pairs))[0], padded(source, pairs, 0))


@pytest.mark.parametrize(("shape", "pairs"), CASES)
@pytest.mark.parametrize(("dtype", "zero_point"), [(np.uint8, 131), (np.int8, 3)])
def test_pad_of_quantised_is_the_zero_point(ops, shape, pairs, dtype, zero_point):
    source = np.ones(shape, dtype)
    (result,) = ops.run(OperationCode.PAD, (source, 0.5, zero_point), pads(*pairs))
    assert np.array_equal(result, padded(source, pairs, zero_point))


@pytest.mark.parametrize(("shape", "pairs"), CASES)
@pytest.mark.parametrize(
    ("source_type", "value"), [(np.float32, -1.5), (np.float16, np.float16(2.5)), (np.uint8, 200), (np.int8, -7)]
)
def test_pad_v2_takes_a_value(ops, shape, pairs, source_type, value):
    source = np.ones(shape, source_type)
    quantised = np.issubdtype(source_type, np.integer)
    (result,) = ops.run(OperationCode.PAD_V2, (source, 0.5, 0) if quantised else source, pads(*pairs), value)
    assert np.array_equal(result, padded(source, pairs, value))


def mirrored(source, pairs, mode):
    """One element after the other: indices bounce off the ends."""
    shape = [before + size + after for size, (before, after) in zip(source.shape, pairs, strict=True)]
    result = np.empty(shape, source.dtype)
    for position in itertools.product(*map(range, shape)):
        origin = []
        for index, size, (before, _) in zip(position, source.shape, pairs, strict=True):
            at = index - before
            if at < 0:
                at = -at - mode
            elif at >= size:
                at = 2 * size - at - 2 + mode
            origin.append(at)
        result[position] = source[tuple(origin)]
    return result


@pytest.mark.parametrize(
    ("shape", "pairs", "mode"),
    [
        pytest.param((3,), [(0, 2)], 0, id="reflect_after"),
        pytest.param((3,), [(3, 3)], 1, id="symmetric_whole"),
        pytest.param((3, 5), [(2, 1), (0, 4)], 0, id="reflect_rank_2"),
        pytest.param((3, 1, 2), [(1, 3), (1, 0), (2, 2)], 1, id="symmetric_rank_3"),
        pytest.param((1, 2, 1, 3, 1), [(0, 0), (1, 1), (0, 0), (0, 2), (0, 0)], 0, id="reflect_rank_5"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_mirror_pad(ops, shape, pairs, mode, dtype):
    source = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    (result,) = ops.run(OperationCode.MIRROR_PAD, source, pads(*pairs), mode)
    assert np.array_equal(result, mirrored(source, pairs, mode))


@pytest.mark.parametrize(
    ("code", "inputs", "message"),
    [
        pytest.param(
            OperationCode.PAD,
            (real(3, 5), pads((1, 1))),
            r"paddings must have shape \[2, 2\], got \[1, 2\]",
            id="count",
        ),
        pytest.param(
            OperationCode.PAD,
            (real(3), pads((-1, 1))),
            r"paddings must not be negative, got \[\(-1, 1\)\]",
            id="negative",
        ),
        pytest.param(
            OperationCode.PAD,
            (real(1, 1, 1, 1, 1), pads(*[(0, 0)] * 5)),
            r"input must have rank 1 to 4, got shape \[1, 1, 1, 1, 1\]",
            id="rank_5",
        ),
        pytest.param(
            OperationCode.PAD_V2,
            ((np.zeros(3, np.uint8), 1.0, 0), pads((1, 1)), 256),
            r"pad_value must be in \[0, 255\], got 256",
            id="value",
        ),
        pytest.param(
            OperationCode.MIRROR_PAD,
            (real(3), pads((3, 0)), 0),
            r"paddings of axis 0, which has size 3, must be at most 2, got \[3, 0\]",
            id="reflect_too_far",
        ),
        pytest.param(
            OperationCode.MIRROR_PAD,
            (real(3), pads((0, 4)), 1),
            r"paddings of axis 0, which has size 3, must be at most 3, got \[0, 4\]",
            id="symmetric_too_far",
        ),
        pytest.param(
            OperationCode.MIRROR_PAD,
            (real(3), pads((0, 0)), 2),
            r"mode must be 0 \(REFLECT\) or 1 \(SYMMETRIC\), got 2",
            id="mode",
        ),
    ],
)
def test_errors(ops, code, inputs, message):
    with pytest.raises(NnapiError, match=f"{code.name}: {message}") as error:
        ops.infer(code, *inputs)
    assert error.value.code is ResultCode.BAD_DATA


@pytest.mark.parametrize(
    ("pairs", "output", "message"),
    [
        pytest.param((3, 2), (0, 0), r"paddings must have shape \[2, 2\], got \[3, 2\]", id="paddings"),
        pytest.param((2, 2), (7,), r"output must have rank 2, that of input, \[0, 5\], got shape \[7\]", id="output"),
    ],
)
def test_the_ranks_of_mirror_pad_are_checked_before_its_paddings_are_known(ops, pairs, output, message):
    """As Android does at finish."""
    f32, i32 = OperandType(OperandCode.TENSOR_FLOAT32), OperandType(OperandCode.TENSOR_INT32)
    operands = f32.with_dimensions((0, 5)), i32.with_dimensions(pairs), OperandType(OperandCode.INT32)
    with pytest.raises(NnapiError, match=f"MIRROR_PAD: {message}") as error:
        ops.infer(OperationCode.MIRROR_PAD, *operands, outputs=[f32.with_dimensions(output)])
    assert error.value.code is ResultCode.BAD_DATA
    operands = f32.with_dimensions((0, 5)), i32.with_dimensions((0, 2)), OperandType(OperandCode.INT32)
    assert ops.infer(OperationCode.MIRROR_PAD, *operands, outputs=[f32.with_dimensions((7, 0))]) is None
