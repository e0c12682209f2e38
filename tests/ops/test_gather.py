"""GATHER, EMBEDDING_LOOKUP, HASHTABLE_LOOKUP."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

HITS = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 1.0, 0)
F32 = OperandType(OperandCode.TENSOR_FLOAT32)


def ints(*numbers):
    return np.array(numbers, np.int32)


def counted(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "axis", "indices"),
    [
        pytest.param((7,), 0, ints(6, 0, 6), id="vector"),
        pytest.param((3, 5), -1, ints(4, 1), id="last_axis"),
        pytest.param((3, 5, 2), 1, ints(0, 4, 1, 1).reshape(2, 2), id="matrix_of_indices"),
        pytest.param((3, 5), 0, ints(), id="no_indices"),
        pytest.param((2, 3, 1, 5, 2), 3, ints(3), id="rank_5"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_gather(ops, shape, axis, indices, dtype):
    source = counted(*shape, dtype=dtype)
    (result,) = ops.run(OperationCode.GATHER, source, axis, indices)
    axis %= len(shape)
    assert result.shape == shape[:axis] + indices.shape + shape[axis + 1 :]
    flat = result.reshape(*shape[:axis], indices.size, *shape[axis + 1 :])
    for position, index in enumerate(indices.ravel()):
        assert np.array_equal(flat.take(position, axis), source.take(index, axis))


def test_gather_looks_at_indices_only_where_they_are_known(ops):
    unknown = OperandType(OperandCode.TENSOR_INT32, (4,))
    assert ops.infer(OperationCode.GATHER, counted(3, 5), 1, unknown) == [(3, 4)]


def test_embedding_lookup(ops):
    table = counted(5, 2, 3)
    (result,) = ops.run(OperationCode.EMBEDDING_LOOKUP, ints(4, 0, 4), table, outputs=[F32])
    assert np.array_equal(result, np.stack([table[4], table[0], table[4]]))


@pytest.mark.parametrize(("dtype", "zero_point"), [(np.float32, None), (np.uint8, 7)])
def test_hashtable_lookup_gives_zero_bytes_for_misses(ops, dtype, zero_point):
    table = counted(4, 3, dtype=dtype) + dtype(1)
    keys = ints(-(2**31), 0, 5, 2**31 - 1)
    wanted = ints(5, 1, 2**31 - 1, -(2**31), 2**31 - 2, -1)
    value = table if zero_point is None else (table, 0.5, zero_point)
    output = F32 if zero_point is None else OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 0.5, zero_point)
    result, hits = ops.run(OperationCode.HASHTABLE_LOOKUP, wanted, keys, value, outputs=[output, HITS])
    rows = dict(zip(keys.tolist(), table, strict=True))
    assert hits.tolist() == [key in rows for key in wanted.tolist()]
    assert np.array_equal(result, np.stack([rows.get(key, np.zeros(3, dtype)) for key in wanted.tolist()]))


def test_hashtable_of_numbers(ops):
    """Values of rank 1, as Android's CPU takes them: each key has one number."""
    wanted, keys, values = ints(7, 2, 9, 3), ints(2, 7, 9), np.array([20, 70, 90], np.float32)
    result, hits = ops.run(OperationCode.HASHTABLE_LOOKUP, wanted, keys, values, outputs=[F32, HITS])
    assert result.tolist() == [70, 20, 90, 0]
    assert hits.tolist() == [1, 1, 1, 0]


def test_hashtable_without_entries_misses(ops):
    result, hits = ops.run(OperationCode.HASHTABLE_LOOKUP, ints(1, 2), ints(), counted(0, 3), outputs=[F32, HITS])
    assert not result.any()
    assert not hits.any()


@pytest.mark.parametrize(
    ("code", "inputs", "outputs", "message"),
    [
        pytest.param(
            OperationCode.GATHER,
            (counted(3, 5), 1, ints(0, 5)),
            [F32],
            r"indices must be in \[0, 5\), got 5",
            id="gather_too_large",
        ),
        pytest.param(
            OperationCode.GATHER,
            (counted(3, 5), 1, ints(-1)),
            [F32],
            r"indices must be in \[0, 5\), got -1",
            id="gather_negative",
        ),
        pytest.param(
            OperationCode.GATHER, (counted(3, 5), 2, ints(0)), [F32], r"axis must be in \[-2, 2\), got 2", id="axis"
        ),
        pytest.param(
            OperationCode.EMBEDDING_LOOKUP,
            (ints(3), counted(3, 5)),
            [F32],
            r"lookup must be in \[0, 3\), got 3",
            id="embedding",
        ),
        pytest.param(
            OperationCode.EMBEDDING_LOOKUP,
            (ints(0), counted(3)),
            [F32],
            r"value must have rank 2 or more, got shape \[3\]",
            id="embedding_rank",
        ),
        pytest.param(
            OperationCode.HASHTABLE_LOOKUP,
            (ints(0), ints(1, 2), counted(3)),
            [F32, HITS],
            r"key must have shape \[3\], got \[2\]",
            id="keys_count_of_numbers",
        ),
        pytest.param(
            OperationCode.HASHTABLE_LOOKUP,
            (ints(0), ints(1, 2), counted(3, 5)),
            [F32, HITS],
            r"key must have shape \[3\], got \[2\]",
            id="keys_count",
        ),
        pytest.param(
            OperationCode.HASHTABLE_LOOKUP,
            (ints(0), ints(1, 3, 2), counted(3, 5)),
            [F32, HITS],
            "key must ascend",
            id="keys_order",
        ),
        pytest.param(
            OperationCode.HASHTABLE_LOOKUP,
            (ints(0), ints(1, 2, 3), counted(3, 5)),
            [F32, OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 0.5, 0)],
            r"hits must have scale 1 and zero point 0, got .* scale 0.5",
            id="hits",
        ),
    ],
)
def test_errors(ops, code, inputs, outputs, message):
    with pytest.raises(NnapiError, match=f"{code.name}: {message}") as error:
        ops.infer(code, *inputs, outputs=outputs)
    assert error.value.code is ResultCode.BAD_DATA
