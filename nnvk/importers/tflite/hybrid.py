"""Hybrid kernels: 8-bit weights with float activations, which TFLite multiplies as integers.

NNAPI has no such kernels. Weights become real numbers at import. The kernels also round activations to 8 bits
on the way, with a scale for each batch or row that depends on the data; operations that do the same are put
in front, so that results are TFLite's and not only near them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnvk.api import OperandCode, OperandType, OperationCode
from nnvk.importers import charged
from nnvk.importers.decompositions.block_quantized import Blocks, packed_later
from nnvk.importers.emitter import F32, NONE, is_quantised
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.operands import constant
from nnvk.ops.extension.block_quantized import DEFAULT_ZERO_POINT, WORD_LEVELS

Op = OperationCode

_LEVELS = OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, scale=1.0)
"""A type of scale 1: QUANTIZE to it rounds to integers from -128 to 127, halves away from zero."""
_SMALLEST = 1e-30
"""The least range of activations, so that zeros stay zeros."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """The rounding of a kernel's activations."""

    axes: tuple[int, ...]
    """The axes that share a scale. The others have a scale for each index."""
    asymmetric: bool
    """Whether the levels cover the range from the smallest to the largest element, instead of a range symmetric about
    0.
    """


def is_hybrid(source: Value, weights: Value) -> bool:
    """Whether quantised weights meet real activations."""
    return is_quantised(weights) and not is_quantised(source)


def real_weights(c: Context, weights: Value) -> Value:
    """Quantised weights of a hybrid kernel as real numbers."""
    if weights.code is OperandCode.TENSOR_QUANT8_ASYMM and weights.is_constant and not weights.type.zero_point:
        # The oldest hybrid models keep signed levels in a tensor of UINT8.
        signed = Value(OperandType(_LEVELS.code, weights.shape, weights.type.scale), weights.array.view(np.int8))
        return weights.once("signed", lambda: c.real(signed))
    return c.real(weights)


def four_bit_rows(c: Context, position: int) -> Blocks | None:
    """Constant weights [rows, columns] of INT4 with a scale for each row, or for all, which stay 4 bits; else None."""
    tensor = c.tensor(position)
    if tensor.type != "INT4" or tensor.data is None or len(tensor.shape) != 2 or np.any(tensor.zero_points):
        return None
    rows, columns = tensor.shape
    if not tensor.scales.size or (tensor.scales.size > 1 and tensor.channel_dim):
        return None
    count = columns + -columns % WORD_LEVELS
    words = packed_later(rows, count, lambda: (constant(tensor) + DEFAULT_ZERO_POINT).astype(np.uint8))
    return Blocks(words, charged.broadcast_to(tensor.scales.reshape(-1, 1), (rows, 1)).astype(np.float32), count)


def is_rounded(c: Context, source: Value, weights: Value) -> bool:
    """Whether activations that meet these weights are rounded: of hybrid kernels, where the import asks for it."""
    return c.round_hybrid and is_hybrid(source, weights) and source.code is OperandCode.TENSOR_FLOAT32


def rounded(c: Context, source: Value, rounding: Rounding) -> Value:
    """Real activations, rounded as a hybrid kernel rounds them."""
    make = _asymmetric if rounding.asymmetric else _symmetric
    return source.once(rounding, lambda: make(c, source, np.array(rounding.axes)))


def hybrid(c: Context, source: Value, weights: Value, rounding: Rounding) -> tuple[Value, Value]:
    """Activations and weights for NNAPI: of hybrid kernels as real numbers, of others as they are."""
    if not is_hybrid(source, weights):
        return source, weights
    taken = rounded(c, source, rounding) if is_rounded(c, source, weights) else source
    return taken, real_weights(c, weights)


def _scalar(c: Context, number: float) -> Value:
    return c.constant(number, F32)


def _two(c: Context, code: OperationCode, first: Value, second: Value) -> Value:
    fused = () if code in (Op.MAXIMUM, Op.MINIMUM) else (NONE,)
    return c.emit(code, first, second, *fused, out=F32)


def _whole(c: Context, value: Value) -> Value:
    """Round to integers from -128 to 127."""
    return c.emit(Op.DEQUANTIZE, c.emit(Op.QUANTIZE, value, out=_LEVELS), out=F32)


def _symmetric(c: Context, source: Value, axes: np.ndarray) -> Value:
    """Round symmetrically: the element of largest magnitude becomes level 127 or -127."""
    furthest = c.emit(Op.REDUCE_MAX, c.emit(Op.ABS, source, out=F32), axes, True, out=F32)
    extent = _two(c, Op.MAXIMUM, furthest, _scalar(c, _SMALLEST))
    levels = _whole(c, _two(c, Op.MUL, source, _two(c, Op.DIV, _scalar(c, 127.0), extent)))
    return _two(c, Op.MUL, levels, _two(c, Op.DIV, extent, _scalar(c, 127.0)))


def _asymmetric(c: Context, source: Value, axes: np.ndarray) -> Value:
    """Round asymmetrically: 256 levels cover the range of the elements, and one of them is 0."""
    zero = _scalar(c, 0.0)
    high = _two(c, Op.MAXIMUM, c.emit(Op.REDUCE_MAX, source, axes, True, out=F32), zero)
    low = _two(c, Op.MINIMUM, c.emit(Op.REDUCE_MIN, source, axes, True, out=F32), zero)
    extent = _two(c, Op.MAXIMUM, _two(c, Op.SUB, high, low), _scalar(c, _SMALLEST))
    inverse = _two(c, Op.DIV, _scalar(c, 255.0), extent)
    zero_point = _whole(c, _two(c, Op.SUB, _scalar(c, -128.0), _two(c, Op.MUL, low, inverse)))
    levels = _whole(c, _two(c, Op.ADD, _two(c, Op.MUL, source, inverse), zero_point))
    return _two(c, Op.MUL, _two(c, Op.SUB, levels, zero_point), _two(c, Op.DIV, extent, _scalar(c, 255.0)))
