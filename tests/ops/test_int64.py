"""Whole numbers of 64 bits in two words against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops.extension.int64 import joined, parted
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode as Op
from nnvk.types.operand import OperandType

WORDS = [OperandType(OperandCode.TENSOR_INT32)] * 2
FLOATS = [OperandType(OperandCode.TENSOR_FLOAT32)]
ENDS = [0, 1, -1, 5, -7, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, -(2**32), 3 * 10**9, 2**63 - 1, -(2**63)]


def wrapped(number: int) -> int:
    """Wrap a number around at 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


def truncated(first: int, second: int) -> int:
    quotient = abs(first) // abs(second) if second else 0
    return quotient if (first < 0) == (second < 0) else -quotient


FUNCTIONS = {
    Op.ADD_INT64: lambda first, second: first + second,
    Op.SUB_INT64: lambda first, second: first - second,
    Op.MUL_INT64: lambda first, second: first * second,
    Op.DIV_INT64: truncated,
}


def words(numbers: list[int]) -> list[np.ndarray]:
    return parted(np.array(numbers, np.int64))


@pytest.mark.parametrize("code", FUNCTIONS)
def test_arithmetic(ops, code):
    low, high = words(ENDS)
    results = ops.run(code, low[:, np.newaxis], high[:, np.newaxis], low, high, outputs=WORDS)
    expected = [[wrapped(FUNCTIONS[code](first, second)) for second in ENDS] for first in ENDS]
    assert joined(*results).tolist() == expected


def test_comparison(ops):
    low, high = words(ENDS)
    (result,) = ops.run(Op.COMPARE_INT64, low[:, np.newaxis], high[:, np.newaxis], low, high)
    assert result.tolist() == [[(first > second) - (first < second) for second in ENDS] for first in ENDS]


def test_a_high_word_that_is_left_out_has_the_sign(ops):
    low, high = words([2**31 - 1, -(2**31), -1, 7])
    results = ops.run(Op.MUL_INT64, low, None, low, high, outputs=WORDS)
    assert joined(*results).tolist() == [number**2 for number in low.tolist()]


def test_from_floats(ops):
    numbers = np.array([3e9, -3e9, 0.99, -0.99, -1.5, 2.0**62, -(2.0**63), 2.0**63, 1e30, np.nan, -np.inf], np.float32)
    results = ops.run(Op.FLOAT_TO_INT64, numbers, outputs=WORDS)
    lowest = -(2**63)
    assert joined(*results).tolist() == [3 * 10**9, -3 * 10**9, 0, 0, -1, 2**62, *[lowest] * 5]


def test_to_floats(ops):
    numbers = [3 * 10**9, -1, 2**24 + 1, 2**24 + 3, 2**62 + 1, -(2**63)]
    (result,) = ops.run(Op.INT64_TO_FLOAT, *words(numbers), outputs=FLOATS)
    assert result.tolist() == [3e9, -1.0, 2.0**24, 2.0**24 + 4, 2.0**62, -(2.0**63)]


def test_to_32_bits(ops):
    (result,) = ops.run(Op.INT64_TO_INT32, *words([2**31 - 1, -(2**31), -1]))
    assert result.tolist() == [2**31 - 1, -(2**31), -1]


@pytest.mark.parametrize(("number", "unsigned"), [(2**31, False), (-(2**31) - 1, False), (2**40, False), (-1, True)])
def test_what_does_not_fit_is_refused(ops, number, unsigned):
    with pytest.raises(NnapiError, match="INT64_TO_INT32: a number must be in") as raised:
        ops.run(Op.INT64_TO_INT32, *words([1, number]), unsigned)
    assert raised.value.code in (ResultCode.BAD_DATA, ResultCode.OP_FAILED)


def test_words_have_one_shape(ops):
    low, high = words([1, 2, 3])
    with pytest.raises(NnapiError, match=r"ADD_INT64: high1 must have shape \[3\], got \[2\]"):
        ops.run(Op.ADD_INT64, low, high, low, high[:2], outputs=WORDS)
