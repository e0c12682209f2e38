"""SPACE_TO_DEPTH, DEPTH_TO_SPACE, SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND."""

import itertools

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperationCode


def ints(*numbers):
    return np.array(numbers, np.int32)


def counted(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def run(ops, code, source, *parameters, nchw):
    """The operation on an NHWC source, in the layout asked for."""
    given = np.ascontiguousarray(source.transpose(0, 3, 1, 2)) if nchw else source
    (result,) = ops.run(code, given, *parameters, nchw)
    return result.transpose(0, 2, 3, 1) if nchw else result


def to_depth(source, block):
    n, h, w, c = source.shape
    result = np.empty((n, h // block, w // block, c * block * block), source.dtype)
    for b, y, x, k in itertools.product(range(n), range(h), range(w), range(c)):
        inner = (y % block) * block + x % block
        result[b, y // block, x // block, inner * c + k] = source[b, y, x, k]
    return result


def to_batch(source, block_h, block_w, paddings, fill):
    source = np.pad(source, ((0, 0), *paddings, (0, 0)), constant_values=fill)
    n, h, w, c = source.shape
    result = np.empty((n * block_h * block_w, h // block_h, w // block_w, c), source.dtype)
    for b, y, x in itertools.product(range(n), range(h), range(w)):
        batch = ((y % block_h) * block_w + x % block_w) * n + b
        result[batch, y // block_h, x // block_w] = source[b, y, x]
    return result


LAYOUTS = pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])


@pytest.mark.parametrize(
    ("shape", "block"), [((1, 2, 2, 1), 2), ((2, 6, 9, 5), 3), ((3, 5, 7, 2), 1), ((0, 4, 4, 3), 2), ((1, 7, 7, 2), 7)]
)
@LAYOUTS
def test_depth_and_back(ops, shape, block, nchw):
    source = counted(*shape)
    deep = run(ops, OperationCode.SPACE_TO_DEPTH, source, block, nchw=nchw)
    assert np.array_equal(deep, to_depth(source, block))
    assert np.array_equal(run(ops, OperationCode.DEPTH_TO_SPACE, deep, block, nchw=nchw), source)


@pytest.mark.parametrize(
    ("shape", "block", "paddings"),
    [
        pytest.param((1, 2, 2, 1), (2, 2), ((0, 0), (0, 0)), id="even"),
        pytest.param((2, 5, 7, 3), (3, 2), ((1, 0), (2, 1)), id="odd_padded"),
        pytest.param((3, 6, 5, 2), (2, 5), ((0, 0), (0, 0)), id="unequal"),
        pytest.param((1, 3, 3, 5), (1, 1), ((2, 0), (0, 0)), id="block_of_one"),
    ],
)
@LAYOUTS
def test_batch_and_back(ops, shape, block, paddings, nchw):
    source = counted(*shape)
    batched = run(ops, OperationCode.SPACE_TO_BATCH_ND, source, ints(*block), np.array(paddings, np.int32), nchw=nchw)
    assert np.array_equal(batched, to_batch(source, *block, paddings, 0))
    (top, _), (left, _) = paddings
    back = run(ops, OperationCode.BATCH_TO_SPACE_ND, batched, ints(*block), nchw=nchw)
    assert np.array_equal(back[:, top:, left:][:, : shape[1], : shape[2]], source)


@pytest.mark.parametrize(("dtype", "zero_point"), [(np.uint8, 131), (np.int8, 3)])
def test_batch_pads_quantised_with_the_zero_point(ops, dtype, zero_point):
    source = counted(1, 3, 3, 1, dtype=dtype)
    paddings = ((1, 0), (0, 1))
    (result,) = ops.run(
        OperationCode.SPACE_TO_BATCH_ND, (source, 0.5, zero_point), ints(2, 2), np.array(paddings, np.int32)
    )
    assert np.array_equal(result, to_batch(source, 2, 2, paddings, zero_point))


@pytest.mark.parametrize(
    ("code", "inputs", "message"),
    [
        pytest.param(
            OperationCode.SPACE_TO_DEPTH,
            (counted(1, 3, 4, 1), 2),
            "block_size must divide height 3 and width 4 of input, got 2",
            id="to_depth",
        ),
        pytest.param(
            OperationCode.SPACE_TO_DEPTH, (counted(1, 3, 4, 1), 0), "block_size must be at least 1, got 0", id="zero"
        ),
        pytest.param(
            OperationCode.DEPTH_TO_SPACE,
            (counted(1, 3, 4, 6), 2),
            "block_size must, squared, divide the 6 channels of input, got 2",
            id="from_depth",
        ),
        pytest.param(
            OperationCode.DEPTH_TO_SPACE,
            (counted(3, 4, 6), 1),
            r"input must have rank 4, got shape \[3, 4, 6\]",
            id="rank",
        ),
        pytest.param(
            OperationCode.SPACE_TO_BATCH_ND,
            (counted(1, 3, 4, 1), ints(2, 2), np.zeros((2, 2), np.int32)),
            r"block_shape must divide the padded height 3 and width 4, got \[2, 2\]",
            id="to_batch",
        ),
        pytest.param(
            OperationCode.SPACE_TO_BATCH_ND,
            (counted(1, 3, 4, 1), ints(1, 1), np.full((2, 2), -1, np.int32)),
            "paddings must not be negative",
            id="paddings",
        ),
        pytest.param(
            OperationCode.BATCH_TO_SPACE_ND,
            (counted(6, 3, 4, 1), ints(2, 2)),
            r"block_shape must divide the 6 batches of input, got \[2, 2\]",
            id="from_batch",
        ),
        pytest.param(
            OperationCode.BATCH_TO_SPACE_ND,
            (counted(6, 3, 4, 1), ints(2, 0)),
            r"block_shape must be at least 1, got \[2, 0\]",
            id="block_shape",
        ),
        pytest.param(
            OperationCode.BATCH_TO_SPACE_ND,
            (counted(6, 3, 4, 1), ints(2)),
            r"block_shape must have shape \[2\], got shape \[1\]",
            id="block_count",
        ),
    ],
)
def test_errors(ops, code, inputs, message):
    with pytest.raises(NnapiError, match=f"{code.name}: {message}") as error:
        ops.infer(code, *inputs)
    assert error.value.code is ResultCode.BAD_DATA
