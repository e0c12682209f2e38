"""Dynamic quantisation, and products of bytes that give real numbers, as onnxruntime's quantiser makes them."""

from __future__ import annotations

import numpy as np

from nnvk.importers.emitter import F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.matmul import centred, exact_product
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(c: Context) -> list[Tensor]:
    """Map DynamicQuantizeLinear. Products take the levels less the zero point, which `centred` finds."""
    levels, scale, point = _quantised(c)
    zero = c.emit(Op.CAST, point, out=I32)
    y = c.emit(Op.CAST, c.emit(Op.ADD, levels, point, NONE, out=F32), out=I32)
    y.once(("less", zero), lambda: levels)
    return [c.give(y, c.tensor().shape, np.uint8), c.give(scale, (), np.float32), c.give(zero, (), np.uint8)]


def _quantised(c: Context) -> list[Value]:
    """Input 0 as levels less the zero point, as real numbers; the scale; the zero point."""
    return c.emit_many(ExtendedOperationCode.DYNAMIC_QUANTIZE, c.real_number(0), outs=[F32] * 3)


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
    levels, scale, _ = _quantised(c)
    return _scaled(c, levels, second, (scale, _scale(c, 2, -1)), 4)
