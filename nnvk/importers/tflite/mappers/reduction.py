"""Operators that fold axes into one element: MEAN, SUM and the REDUCE family, ARG_MAX and ARG_MIN."""

from __future__ import annotations

import math

import numpy as np

from nnvk.api import ExtendedOperationCode, OperandCode, OperandType, OperationCode
from nnvk.importers.decompositions import int64
from nnvk.importers.decompositions.cumulative import cumulative
from nnvk.importers.decompositions.moving import axis_of, sliced, transposed
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import F32, I32, is_quantised
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite import tables
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.quant import float32, quantize_multiplier, short_factors

_REDUCTIONS = {
    "MEAN": OperationCode.MEAN,
    "REDUCE_ALL": OperationCode.REDUCE_ALL,
    "REDUCE_ANY": OperationCode.REDUCE_ANY,
    "REDUCE_MAX": OperationCode.REDUCE_MAX,
    "REDUCE_MIN": OperationCode.REDUCE_MIN,
    "REDUCE_PROD": OperationCode.REDUCE_PROD,
    "SUM": OperationCode.REDUCE_SUM,
}
_KEEPING = frozenset({"REDUCE_MAX", "REDUCE_MIN"})
"""Those that NNAPI has for quantised tensors, without a change of quantisation."""
_SIGNED = frozenset({OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, OperandCode.TENSOR_QUANT16_SYMM})
_ALL_16 = 1 << 16
_MOST_FACTORS = 64
"""The most factors of a product of levels, each of which is some operations."""
_MOST_RIGHT = 62
"""The bits that products of 64 bits are shifted by are less."""


@builtin(*_REDUCTIONS)
def reduce(c: Context) -> Value:
    """The axes are an input, and one axis may be a scalar."""
    name, source = c.operator.name, c.input(0)
    keep = bool(c.options("ReducerOptions").KeepDims())
    axes = np.array(c.ints(1, "the axes"), np.int32)
    if source.code is I32.code:
        return _of_integers(c, source, keep)
    if name == "MEAN" and is_quantised(source) and source.code is c.out().code:
        # TFLite rounds a mean of levels; NNAPI drops the fraction.
        return c.emit(ExtendedOperationCode.ROUNDED_MEAN, source, axes, int(keep), out=c.out())
    if name == "REDUCE_PROD" and source.code is c.out().code and source.code in _SIGNED:
        product = _product_of_levels(c, source)
        if product is not None:
            return product
    if is_quantised(source) and name not in _KEEPING:
        source = c.real(source)
    flag = int(keep) if name == "MEAN" else keep  # MEAN takes INT32, the others BOOL
    return c.keep(_REDUCTIONS[name], source, axes, flag)


def _product_of_levels(c: Context, source: Value) -> Value | None:
    """A product of levels, which TFLite rescales after each factor; None where there are too many of them.

    Products of 32 bits with a level and the rescaling factor have 64 bits. Results wrap around at 32 bits.
    """
    rank, out = len(source.shape), c.out()
    axes = sorted({axis_of(axis, rank) for axis in c.ints(1, "the axes")})
    kept = [axis for axis in range(rank) if axis not in axes]
    count = math.prod(source.shape[axis] for axis in axes)
    if not 0 < count <= _MOST_FACTORS:
        return None
    factors = quantize_multiplier(float32(source.type.scale) * (1 / float32(out.scale)) ** (1 / count))
    by, right = (int(factor) for factor in short_factors(*map(np.array, factors)))
    if not 0 < right < _MOST_RIGHT:
        return None
    levels = c.emit(OperationCode.CAST, tables.as_levels(c, source), out=I32)
    rows = c.reshape(transposed(c, levels, [*kept, *axes]), (levels.size // count, count))
    half, all_ = (int64.constant(c, np.array(1 << bits, np.int64)) for bits in (right - 1, right))

    def factor(place: int) -> Value:
        return int64.bounded(sliced(c, rows, (range(rows.shape[0]), range(place, place + 1))), (-_ALL_16, _ALL_16))

    def rescaled(number: int64.Number) -> Value:
        scaled = int64.combined(c, OperationCode.MUL, number, c.constant(by, I32))
        return int64.low(int64.floor_quotient(c, int64.combined(c, OperationCode.ADD, scaled, half), all_))

    product = factor(0)
    for place in range(1, count):
        product = rescaled(int64.combined(c, OperationCode.MUL, product, factor(place)))
    whole = c.emit(OperationCode.CAST, rescaled(product), out=F32)
    result = c.quantized(whole, OperandType(out.code, scale=1.0, zero_point=out.zero_point))
    keep = bool(c.options("ReducerOptions").KeepDims())
    shape = [1 if axis in axes else size for axis, size in enumerate(source.shape) if keep or axis in kept]
    return c.reshape(tables.relabelled(c, result, out), shape or (1,))


def _of_integers(c: Context, source: Value, keep: bool) -> Value:
    """NNAPI has all of them for real numbers only."""
    rank = len(source.shape)
    axes = sorted({axis_of(axis, rank) for axis in c.ints(1, "the axes")})
    result = folded(c, _REDUCTIONS[c.operator.name], source, axes)
    return result if keep else c.reshape(result, [size for axis, size in enumerate(result.shape) if axis not in axes])


@builtin("ARG_MAX", "ARG_MIN")
def arg_extreme(c: Context) -> Value:
    """Map ARG_MAX and ARG_MIN to INT32. If the model has INT64, its edge widens the numbers."""
    code = OperationCode.ARGMAX if c.operator.name == "ARG_MAX" else OperationCode.ARGMIN
    source = c.input(0)
    axis = axis_of(c.integer(1, "the axis"), len(source.shape))
    return c.emit(code, source, axis, out=I32)


@builtin("CUMSUM")
def cumsum(c: Context) -> Value:
    """Map CUMSUM: add elements, then pairs, and so on."""
    options = c.options("CumsumOptions")
    source = c.input(0)
    axis = axis_of(c.integer(1, "the axis"), len(source.shape))
    exclusive, reverse = bool(options.Exclusive()), bool(options.Reverse())
    return cumulative(c, source, axis, exclusive=exclusive, reverse=reverse)
