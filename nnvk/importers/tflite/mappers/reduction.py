"""Operators that fold axes into one element: MEAN, SUM and the REDUCE family, ARG_MAX and ARG_MIN."""

from __future__ import annotations

import numpy as np

from nnvk.api import OperandCode, OperationCode
from nnvk.importers.tflite.context import F32, I32, NONE, Context, is_quantised
from nnvk.importers.tflite.errors import Unmapped
from nnvk.importers.tflite.graph import MAX_RANK, Value
from nnvk.importers.tflite.mappers.shape import axis_of
from nnvk.importers.tflite.registry import builtin
from nnvk.types.operand import Shape

_REDUCTIONS = {
    "MEAN": OperationCode.MEAN,
    "REDUCE_ALL": OperationCode.REDUCE_ALL,
    "REDUCE_ANY": OperationCode.REDUCE_ANY,
    "REDUCE_MAX": OperationCode.REDUCE_MAX,
    "REDUCE_MIN": OperationCode.REDUCE_MIN,
    "REDUCE_PROD": OperationCode.REDUCE_PROD,
    "SUM": OperationCode.REDUCE_SUM,
}
_KEEPING = frozenset({"MEAN", "REDUCE_MAX", "REDUCE_MIN"})
"""Those that NNAPI has for quantised tensors, without a change of quantisation."""
_INTEGER = {"SUM": np.sum, "REDUCE_PROD": np.prod, "REDUCE_MAX": np.max, "REDUCE_MIN": np.min}
"""Those that models compute shapes with. NNAPI has them for real numbers only."""


@builtin(*_REDUCTIONS)
def reduce(c: Context) -> Value:
    """The axes are an input, and one axis may be a scalar."""
    name, source = c.operator.name, c.input(0)
    keep = bool(c.options("ReducerOptions").KeepDims())
    axes = np.array(c.ints(1, "the axes"), np.int32)
    if source.array is not None and source.code is I32.code and name in _INTEGER:
        folded = _INTEGER[name](source.array, axis=tuple(axes.tolist()), keepdims=keep)  # type: ignore[operator]
        return c.constant(folded, I32)
    if is_quantised(source) and (name not in _KEEPING or _rounds_twice(c, name, source)):
        source = c.real(source)
    flag = int(keep) if name == "MEAN" else keep  # MEAN takes INT32, the others BOOL
    if len(source.shape) <= MAX_RANK:
        return c.keep(_REDUCTIONS[name], source, axes, flag)
    folded = {axis_of(axis, len(source.shape)) for axis in axes.tolist()}
    merged, runs = _merged(source.shape, folded)
    result = c.keep(_REDUCTIONS[name], c.reshape(source, merged), np.array(runs), flag)
    sizes = (1 if axis in folded else size for axis, size in enumerate(source.shape) if keep or axis not in folded)
    return c.reshape(result, tuple(sizes))


def _merged(shape: Shape, folded: set[int]) -> tuple[list[int], list[int]]:
    """A shape with neighbours that are folded, or not, as one, and which of these are folded."""
    merged: list[int] = []
    runs: list[int] = []
    for axis, size in enumerate(shape):
        if axis and (axis in folded) == (axis - 1 in folded):
            merged[-1] *= size
            continue
        merged.append(size)
        if axis in folded:
            runs.append(len(merged) - 1)
    return merged, runs


def _rounds_twice(c: Context, name: str, source: Value) -> bool:
    """Whether a mean would be rounded to the input's quantisation and then to the output's."""
    out = c.out()
    return name == "MEAN" and (out.scale, out.zero_point) != (source.type.scale, source.type.zero_point)


@builtin("ARG_MAX", "ARG_MIN")
def arg_extreme(c: Context) -> Value:
    """The output is INT32; where the model has INT64, its numbers are widened at the model's edge."""
    code = OperationCode.ARGMAX if c.operator.name == "ARG_MAX" else OperationCode.ARGMIN
    source = c.input(0)
    axis = axis_of(c.integer(1, "the axis"), len(source.shape))
    if len(source.shape) <= MAX_RANK:
        return c.emit(code, source, axis, out=I32)
    return c.reshape(
        c.emit(code, c.around(source, axis), 1, out=I32), (*source.shape[:axis], *source.shape[axis + 1 :])
    )


@builtin("CUMSUM")
def cumulative_sum(c: Context) -> Value:
    """Each element and the one before it, then each pair and the pair before it, and so on: log2 of the size sums."""
    options = c.options("CumsumOptions")
    source = c.input(0)
    if source.code not in (F32.code, OperandCode.TENSOR_FLOAT16, I32.code):
        raise Unmapped(f"NNAPI sums no {source.type}")
    axis = axis_of(c.integer(1, "the axis"), len(source.shape))
    total = c.around(source, axis)
    size = total.shape[1]
    if options.Reverse():
        total = c.keep(OperationCode.REVERSE, total, np.array([1]))
    if options.Exclusive():
        total = _delayed(c, total, 1)
    step = 1
    while step < size:
        total = c.emit(OperationCode.ADD, total, _delayed(c, total, step), NONE, out=source.type)
        step *= 2
    if options.Reverse():
        total = c.keep(OperationCode.REVERSE, total, np.array([1]))
    return c.reshape(total, source.shape)


def _delayed(c: Context, value: Value, step: int) -> Value:
    """Along axis 1, the elements ``step`` before, and zeros where there are none."""
    before, size, behind = value.shape
    if step >= size:
        return c.filled(0, value.type, value.shape)
    if value.code is not I32.code:
        kept = c.keep(OperationCode.SLICE, value, np.zeros(3), np.array([before, size - step, behind]))
        return c.keep(OperationCode.PAD, kept, np.array([[0, 0], [step, 0], [0, 0]]))
    # NNAPI pads no integers: they are picked, and multiplied with 0 where they are to be zeros.
    places = np.arange(size) - step
    picked = c.keep(OperationCode.GATHER, value, 1, np.maximum(places, 0))
    is_there = c.constant((places >= 0).astype(np.int32).reshape(1, size, 1), I32)
    return c.emit(OperationCode.MUL, picked, is_there, NONE, out=I32)
