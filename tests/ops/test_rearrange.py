"""TRANSPOSE, TILE, REVERSE, CHANNEL_SHUFFLE."""

import itertools

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

F32 = OperandType(OperandCode.TENSOR_FLOAT32)


def ints(*numbers):
    return np.array(numbers, np.int32)


def counted(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def built(shape, source, origin):
    """An array of ``shape`` whose element at each position is the source's at ``origin(position)``."""
    result = np.empty(shape, source.dtype)
    for position in itertools.product(*map(range, shape)):
        result[position] = source[origin(position)]
    return result


@pytest.mark.parametrize(
    "perm", [p for rank in (1, 2, 3) for p in itertools.permutations(range(rank))] + [(2, 0, 3, 1)]
)
def test_transpose(ops, perm):
    source = counted(*(3, 5, 2, 7)[: len(perm)])
    shape = tuple(source.shape[axis] for axis in perm)
    expected = built(shape, source, lambda at: tuple(at[perm.index(axis)] for axis in range(len(perm))))
    assert np.array_equal(ops.run(OperationCode.TRANSPOSE, source, ints(*perm))[0], expected)


@pytest.mark.parametrize("perm", [(None,), (ints(),), ()], ids=["omitted", "empty", "absent"])
def test_transpose_reverses_the_axes_by_default(ops, perm):
    source = counted(2, 3, 5)
    assert np.array_equal(ops.run(OperationCode.TRANSPOSE, source, *perm)[0], source.T)


@pytest.mark.parametrize(
    ("shape", "multiples"),
    [
        ((3,), (2,)),
        ((2, 3), (1, 3)),
        ((1, 2, 1, 3, 1), (2, 1, 3, 2, 1)),
        ((3, 2), (0, 2)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_tile(ops, shape, multiples, dtype):
    source = counted(*shape, dtype=dtype)
    tiled = tuple(size * multiple for size, multiple in zip(shape, multiples, strict=True))
    expected = built(tiled, source, lambda at: tuple(i % size for i, size in zip(at, shape, strict=True)))
    assert np.array_equal(ops.run(OperationCode.TILE, source, ints(*multiples))[0], expected)


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 2, 1)])
def test_tile_takes_multiples_in_a_tensor_of_any_rank(ops, shape):
    """Android's CPU reads them in their order."""
    source = counted(2, 3)
    (result,) = ops.run(OperationCode.TILE, source, ints(2, 1).reshape(shape))
    assert np.array_equal(result, np.concatenate((source, source)))


def test_tile_of_nothing(ops):
    (result,) = ops.run(OperationCode.TILE, counted(0, 2), ints(1, 2**31 - 1))
    assert result.shape == (0, 2**32 - 2)


@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 5), 1), ((2, 3, 1, 5), 1), ((1, 2) * 4, 7)])
def test_reverse(ops, shape, axis):
    source = counted(*shape)

    def origin(at):
        return (*at[:axis], shape[axis] - 1 - at[axis], *at[axis + 1 :])

    assert np.array_equal(ops.run(OperationCode.REVERSE, source, ints(axis))[0], built(shape, source, origin))


@pytest.mark.parametrize("source", [(4, 5), (0, 5), (0, 0)])
@pytest.mark.parametrize("output", [(4,), (4, 5, 6), (0, 0, 0)])
def test_the_rank_of_reverse_is_checked_before_its_axis_is_known(ops, source, output):
    """As Android does at finish."""
    axis = OperandType(OperandCode.TENSOR_INT32, (1,))
    with pytest.raises(NnapiError, match="REVERSE: output must have rank 2, that of input") as error:
        ops.infer(OperationCode.REVERSE, F32.with_dimensions(source), axis, outputs=[F32.with_dimensions(output)])
    assert error.value.code is ResultCode.BAD_DATA
    for fitting in ((), (0, 0), (4, 5)):
        operands = F32.with_dimensions(source), axis
        assert ops.infer(OperationCode.REVERSE, *operands, outputs=[F32.with_dimensions(fitting)]) is None


@pytest.mark.parametrize(
    ("shape", "groups", "axis"),
    [((6,), 3, 0), ((2, 6), 2, -1), ((2, 10, 3), 5, 1), ((9, 1, 2, 2), 3, 0), ((3, 7), 7, 1), ((3, 7), 1, 1)],
)
def test_channel_shuffle(ops, shape, groups, axis):
    source = counted(*shape)
    size = shape[axis] // groups
    expected = np.empty_like(source)
    for group, member in itertools.product(range(groups), range(size)):
        expected.swapaxes(0, axis)[member * groups + group] = source.swapaxes(0, axis)[group * size + member]
    assert np.array_equal(ops.run(OperationCode.CHANNEL_SHUFFLE, source, groups, axis)[0], expected)


@pytest.mark.parametrize(
    ("code", "inputs", "message"),
    [
        pytest.param(
            OperationCode.TRANSPOSE,
            (counted(3, 5), ints(0, 0)),
            r"perm must be a permutation of \[0, 1\], got \[0, 0\]",
            id="perm",
        ),
        pytest.param(
            OperationCode.TRANSPOSE,
            (counted(3, 5), ints(0)),
            r"perm must have shape \[2\], got shape \[1\]",
            id="perm_length",
        ),
        pytest.param(
            OperationCode.TRANSPOSE, (counted(*[1] * 5), None), "input must have rank 1 to 4", id="transpose_rank_5"
        ),
        pytest.param(
            OperationCode.TILE,
            (counted(3, 5), ints(1)),
            r"multiples must have shape \[2\], got shape \[1\]",
            id="multiples_length",
        ),
        pytest.param(
            OperationCode.TILE, (counted(3), ints(-1)), r"multiples must not be negative, got \[-1\]", id="multiples"
        ),
        pytest.param(
            OperationCode.TILE,
            (counted(0, 3), ints(1, 2**31 - 1)),
            r"output output of shape \[0, 6442450941\]: a dimension is a number of 32 bits",
            id="tiled_dimension",
        ),
        pytest.param(
            OperationCode.TILE,
            (counted(0, 1, 1, 1), ints(1, *[2**31 - 1] * 3)),
            ".*, though empty, has larger dimensions than an array may have",
            id="tiled_dimensions",
        ),
        pytest.param(
            OperationCode.REVERSE, (counted(3), ints(-1)), r"axis must be in \[0, 1\), got -1", id="reverse_axis"
        ),
        pytest.param(
            OperationCode.REVERSE, (counted(3), ints(0, 0)), r"axis must have shape \[1\]", id="reverse_two_axes"
        ),
        pytest.param(
            OperationCode.REVERSE, (counted(*[1] * 9), ints(0)), "input must have rank 1 to 8", id="reverse_rank_9"
        ),
        pytest.param(
            OperationCode.CHANNEL_SHUFFLE,
            (counted(3, 7), 2, 1),
            "num_groups must be at least 1 and divide the 7 channels, got 2",
            id="groups",
        ),
        pytest.param(
            OperationCode.CHANNEL_SHUFFLE, (counted(3, 7), 7, 2), r"axis must be in \[-2, 2\), got 2", id="shuffle_axis"
        ),
    ],
)
def test_errors(ops, code, inputs, message):
    with pytest.raises(NnapiError, match=f"{code.name}: {message}") as error:
        ops.infer(code, *inputs)
    assert error.value.code is ResultCode.BAD_DATA
