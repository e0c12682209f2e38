"""GATHER_ND against plain loops."""

import itertools

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import OperandType

GATHER_ND = ExtendedOperationCode.GATHER_ND


def counted(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("rows", [(), (1,), (3, 2)])
def test_each_slice(ops, rows, depth, batch, dtype):
    source = counted(2, 3, 5, 2, dtype=dtype)
    shape = source.shape
    indices = np.random.default_rng(3).integers(-2, 2, (*shape[:batch], *rows, depth)).astype(np.int32)
    (result,) = ops.run(GATHER_ND, source, indices, batch)
    assert result.shape == (*shape[:batch], *rows, *shape[batch + depth :])
    for position in itertools.product(*map(range, (*shape[:batch], *rows))):
        expected = source[(*position[:batch], *indices[position].tolist())]
        assert np.array_equal(result[position], expected)


def test_a_single_element_has_the_shape_1(ops):
    (result,) = ops.run(GATHER_ND, counted(3, 5), np.array([1, 2], np.int32))
    assert result.tolist() == [7]


def test_what_is_known_of_the_shape_before_the_indices(ops):
    unknown = OperandType(OperandCode.TENSOR_INT32, (4, 2))
    assert ops.infer(GATHER_ND, counted(3, 5, 7), unknown) == [(4, 7)]


@pytest.mark.parametrize(
    ("indices", "batch", "message"),
    [
        ([[0, 5]], 0, r"indices must be in \[-3, 3\) along axis 0, \[-5, 5\) along axis 1, got 5 along axis 1"),
        ([[-4, 0]], 0, "got -4 along axis 0"),
        ([[0], [5], [0]], 1, r"indices must be in \[-5, 5\) along axis 1, got 5 along axis 1"),
        ([[0, 0, 0]], 0, r"the last dimension of indices must be 1 to 2, got shape \[1, 3\]"),
        ([[0]], 1, r"must have the first 1 dimensions \(batch_dims\) in common, got \[3, 5\] and \[1, 1\]"),
        ([[0]], -1, "batch_dims"),
        ([[0], [0], [0]], 2, "batch_dims"),
    ],
)
def test_errors(ops, indices, batch, message):
    with pytest.raises(NnapiError, match=f"GATHER_ND: .*{message}") as error:
        ops.infer(GATHER_ND, counted(3, 5), np.array(indices, np.int32), batch)
    assert error.value.code is ResultCode.BAD_DATA
