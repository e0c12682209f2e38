"""Products of bytes that give real numbers, as onnxruntime's dynamic quantisation makes them."""

from __future__ import annotations

import numpy as np

from nnvk.importers.decompositions.arithmetic import chosen, round_half_even, scalar, with_number
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import BOOL8, F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.matmul import centred, exact_product
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode

Op = OperationCode
_LAST = 255
"""The last level of UINT8."""


def _scaled(c: Context, first: Value, second: Value, scales: tuple[Value, Value], bias: int) -> Tensor:
    """The product of two inputs less their zero points, in real numbers, and a bias."""
    left, right = c.tensor(0), c.tensor(1)
    if not left.rank or right.rank < 2:
        raise Unmapped(f"its inputs must be matrices, got shapes {list(left.shape)} and {list(right.shape)}")
    y = c.cast(exact_product(c, first, second), np.dtype(np.float32))
    scale = c.emit(Op.MUL, *scales, NONE, out=F32)
    y = c.emit(Op.MUL, y, scale, NONE, out=F32)
    if c.has(bias):
        y = c.emit(Op.ADD, y, c.real_number(bias), NONE, out=F32)
    return c.give(y, y.shape if left.rank > 1 else (*y.shape[:-2], y.shape[-1]), np.float32)


def _scale(c: Context, position: int, axis: int) -> Value:
    """A scale, or those of the rows (axis -2) or columns (axis -1) of a matrix."""
    value = c.real_number(position)
    return c.reshape(value, (value.size, 1)) if axis == -2 and value.size > 1 else value


@operator("com.microsoft.MatMulIntegerToFloat")
def matmul_integer_to_float(c: Context) -> Tensor:
    """Multiply bytes. A matrix has one scale and zero point, or one for each row (first) or column (second)."""
    first, second = centred(c, 0, 4, c.tensor(0).rank - 2), centred(c, 1, 5, c.tensor(1).rank - 1)
    return _scaled(c, first, second, (_scale(c, 2, -2), _scale(c, 3, -1)), 6)


@operator("com.microsoft.DynamicQuantizeMatMul")
def dynamic_quantize_matmul(c: Context) -> Tensor:
    """Map DynamicQuantizeMatMul. The first matrix is converted to UINT8 levels, as by DynamicQuantizeLinear."""
    second = centred(c, 1, 3, c.tensor(1).rank - 1)
    levels, scale = dynamically_quantised(c, c.real_number(0))
    return _scaled(c, levels, second, (scale, _scale(c, 2, -1)), 4)


def dynamically_quantised(c: Context, x: Value) -> tuple[Value, Value]:
    """Levels from the zero point, as real numbers, and their scale: from the smallest to the largest number, or 0."""
    flat = c.reshape(x, (x.size,))
    low = with_number(c, Op.MINIMUM, folded(c, Op.REDUCE_MIN, flat, [0]), 0.0)
    high = with_number(c, Op.MAXIMUM, folded(c, Op.REDUCE_MAX, flat, [0]), 0.0)
    scale = with_number(c, Op.DIV, c.emit(Op.SUB, high, low, NONE, out=F32), float(_LAST), NONE)
    zero = scalar(c, 0.0, scale)
    scale = chosen(c, c.emit(Op.EQUAL, scale, zero, out=BOOL8), scalar(c, 1.0, scale), scale)
    below = c.emit(Op.DIV, c.emit(Op.SUB, zero, low, NONE, out=F32), scale, NONE, out=F32)
    point = _within(c, round_half_even(c, below))
    levels = round_half_even(c, c.emit(Op.DIV, x, scale, NONE, out=F32))
    levels = _within(c, c.emit(Op.ADD, levels, point, NONE, out=F32))
    return c.emit(Op.SUB, levels, point, NONE, out=F32), scale


def _within(c: Context, levels: Value) -> Value:
    return with_number(c, Op.MINIMUM, with_number(c, Op.MAXIMUM, levels, 0.0), float(_LAST))
