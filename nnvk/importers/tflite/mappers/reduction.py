"""Operators that fold axes into one element: MEAN, SUM and the REDUCE family, ARG_MAX and ARG_MIN."""

from __future__ import annotations

import numpy as np

from nnvk.api import ExtendedOperationCode, OperandCode, OperationCode
from nnvk.importers.decompositions.cumulative import cumulative
from nnvk.importers.decompositions.moving import axis_of
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import I32, is_quantised
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin

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
        raise Unmapped("TFLite rescales a product of levels after each factor, which NNAPI does not")
    if is_quantised(source) and name not in _KEEPING:
        source = c.real(source)
    flag = int(keep) if name == "MEAN" else keep  # MEAN takes INT32, the others BOOL
    return c.keep(_REDUCTIONS[name], source, axes, flag)


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
