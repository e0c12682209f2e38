"""ROUND_ROWS against the operations that it stands for, and DYNAMIC_QUANTIZE against plain sums."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError
from nnvk.check.model_rows import Row, parse, reference
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode as Op
from nnvk.types.operand import OperandType

F = np.float32
SYMMETRIC = (
    "NEG f32[{shape}] | ABS $0 | REDUCE_MAX $1 {axes} true | MAXIMUM $2 #f32[1]={smallest} | DIV #f32[1]=127 $3 NONE | "
    "MUL $0 $4 NONE | QUANTIZE $5 -> i8*1+0 | DEQUANTIZE $6 -> f32 | DIV $3 #f32[1]=127 NONE | MUL $7 $8 NONE"
)
ASYMMETRIC = (
    "NEG f32[{shape}] | REDUCE_MAX $0 {axes} true | MAXIMUM $1 #f32[1]=0 | REDUCE_MIN $0 {axes} true | "
    "MINIMUM $3 #f32[1]=0 | SUB $2 $4 NONE | MAXIMUM $5 #f32[1]={smallest} | DIV #f32[1]=255 $6 NONE | "
    "MUL $4 $7 NONE | SUB #f32[1]=-128 $8 NONE | QUANTIZE $9 -> u8*1+128 | DEQUANTIZE $10 -> f32 | "
    "MUL $0 $7 NONE | ADD $12 $11 NONE | QUANTIZE $13 -> u8*1+128 | DEQUANTIZE $14 -> f32 | SUB $15 $11 NONE | "
    "DIV $6 #f32[1]=255 NONE | MUL $16 $17 NONE"
)


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("shape", [(1, 640), (3, 37), (2, 3, 5), (7, 1)], ids=str)
def test_rounded_rows_are_those_of_its_operations(ops, asymmetric: bool, shape: tuple[int, ...]) -> None:
    text = ASYMMETRIC if asymmetric else SYMMETRIC
    axes = f"({','.join(map(str, range(1, len(shape))))})"
    row = parse(text.format(shape=",".join(map(str, shape)), axes=axes, smallest=f"{1e-30:.30f}"))
    data = np.random.default_rng(7).normal(0.3, 2, shape).astype(F)
    for numbers in (data, np.zeros(shape, F), np.where(data > 3, F(np.nan), data), -abs(data)):
        (result,) = ops.run(Op.ROUND_ROWS, -numbers, shape[0], asymmetric)
        np.testing.assert_array_equal(result, *reference(Row(row.model, [numbers])))


@pytest.mark.parametrize("rows", [0, -1, 4])
def test_rows_divide_the_elements(ops, rows: int) -> None:
    with pytest.raises(NnapiError, match=rf"rows must divide the 6 elements of input, got {rows}"):
        ops.run(Op.ROUND_ROWS, np.zeros((2, 3), F), rows, False)


def test_a_tensor_by_its_own_range(ops) -> None:
    source, real = np.array([[-0.5, 0.26, 1.1], [254.5, 0.5, 1.5]], F), OperandType(OperandCode.TENSOR_FLOAT32)
    levels, scale, zero_point = ops.run(Op.DYNAMIC_QUANTIZE, source, outputs=[real] * 3)
    np.testing.assert_array_equal([*scale, *zero_point], [1, 0])
    np.testing.assert_array_equal(levels, [[0, 0, 1], [254, 0, 2]])


def test_a_tensor_without_elements_has_no_range(ops) -> None:
    with pytest.raises(NnapiError, match=r"input must not be empty, got \[3, 0\]"):
        ops.run(Op.DYNAMIC_QUANTIZE, np.zeros((3, 0), F), outputs=[OperandType(OperandCode.TENSOR_FLOAT32)] * 3)
