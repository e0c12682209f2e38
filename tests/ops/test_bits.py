"""BITS and BITCAST: known bits, and Python's integers."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError
from nnvk.ops.extension.bits import Kind
from nnvk.types.extension import ExtendedOperationCode

BITS = ExtendedOperationCode.BITS
NUMBERS = [0, 1, -1, 2**31 - 1, -(2**31), 0x55555555, -0x12345678]


def wrapped(number):
    return (number + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize(
    ("kind", "function"),
    [(Kind.AND, lambda a, b: a & b), (Kind.OR, lambda a, b: a | b), (Kind.XOR, lambda a, b: a ^ b)],
)
def test_logic(ops, kind, function):
    x, y = (np.array(one, np.int32) for one in zip(*[(a, b) for a in NUMBERS for b in NUMBERS], strict=True))
    (result,) = ops.run(BITS, x, y, int(kind))
    assert result.tolist() == [function(a, b) for a in NUMBERS for b in NUMBERS]


@pytest.mark.parametrize("by", [0, 1, 7, 31, 32, 100, -1, -(2**31)])
def test_shifts(ops, by):
    x, y = np.array(NUMBERS, np.int32), np.full(len(NUMBERS), by, np.int32)
    out = not 0 <= by < 32
    (left,) = ops.run(BITS, x, y, int(Kind.SHIFT_LEFT))
    assert left.tolist() == [0 if out else wrapped(number << by) for number in NUMBERS]
    (right,) = ops.run(BITS, x, y, int(Kind.SHIFT_RIGHT))
    assert right.tolist() == [number >> (31 if out else by) for number in NUMBERS]


def test_what_does_not_fit(ops):
    with pytest.raises(NnapiError, match="kind must be 0 to 4, got 5"):
        ops.run(BITS, np.zeros(2, np.int32), np.zeros(2, np.int32), 5)
    with pytest.raises(NnapiError, match=r"other must have shape \[2\]"):
        ops.run(BITS, np.zeros(2, np.int32), np.zeros(3, np.int32), 0)
