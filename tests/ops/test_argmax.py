"""ARGMAX, ARGMIN, TOPK_V2."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

I32 = OperandType(OperandCode.TENSOR_INT32)
rng = np.random.default_rng(17)


def repeating(shape, dtype=np.float32):
    """Few different elements, so that many are equal."""
    return rng.integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((5, 11), 1), ((5, 11), -2), ((2, 3, 5, 2, 3), 2)])
@pytest.mark.parametrize(("code", "best"), [(OperationCode.ARGMAX, max), (OperationCode.ARGMIN, min)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_first_of_equal_elements(ops, code, best, shape, axis, dtype):
    source = repeating(shape, dtype)
    (result,) = ops.run(code, source, axis, outputs=[I32])
    lanes = np.moveaxis(source, axis, -1).reshape(-1, shape[axis]).tolist()
    assert result.ravel().tolist() == [lane.index(best(lane)) for lane in lanes]
    assert result.shape == (tuple(np.delete(shape, axis)) or (1,))


@pytest.mark.parametrize(("shape", "k"), [((7,), 7), ((5, 11), 3), ((2, 3, 5), 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_top_k_is_sorted_and_prefers_the_larger_index(ops, shape, k, dtype):
    source = repeating(shape, dtype)
    leading = OperandType(
        {
            np.float32: OperandCode.TENSOR_FLOAT32,
            np.float16: OperandCode.TENSOR_FLOAT16,
            np.int32: OperandCode.TENSOR_INT32,
        }[dtype]
    )
    values, indices = ops.run(OperationCode.TOPK_V2, source, k, outputs=[leading, I32])
    lanes = zip(*(a.reshape(-1, a.shape[-1]).tolist() for a in (source, values, indices)), strict=True)
    for lane, largest, where in lanes:
        expected = sorted(enumerate(lane), key=lambda pair: (pair[1], pair[0]), reverse=True)[:k]
        assert list(zip(where, largest, strict=True)) == expected


@pytest.mark.parametrize(
    ("code", "shape", "parameter", "message"),
    [
        pytest.param(OperationCode.ARGMAX, (3, 5), 2, r"axis must be in \[-2, 2\), got 2", id="axis"),
        pytest.param(
            OperationCode.ARGMIN, (3, 0), 1, r"input must not be empty along axis 1, got \[3, 0\]", id="empty"
        ),
        pytest.param(OperationCode.TOPK_V2, (3, 5), 6, r"k must be in \[1, 5\], got 6", id="k_too_large"),
        pytest.param(OperationCode.TOPK_V2, (3, 5), 0, r"k must be in \[1, 5\], got 0", id="k_zero"),
    ],
)
def test_errors(ops, code, shape, parameter, message):
    source = np.zeros(shape, np.int32)
    with pytest.raises(NnapiError, match=f"{code.name}: {message}") as error:
        ops.infer(code, source, parameter, outputs=[I32] * (2 if code is OperationCode.TOPK_V2 else 1))
    assert error.value.code is ResultCode.BAD_DATA
