"""Which operators pass on that data decide a tensor's size, and along which axis of what they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nnvk.importers.errors import Unmapped
from nnvk.importers.graph import Value
from nnvk.importers.idioms.counted import Counted, alike, apart, reshaped
from nnvk.importers.idioms.moving import axis_of
from nnvk.importers.tflite.context import Context

Rule = Callable[[Context, Value], Counted]
"""What an output has of a counted input. `Unmapped` where elements that don't count would have a part in others."""

_POINTWISE = (
    *("ABS", "ADD", "ADD_N", "CAST", "CEIL", "COS", "DEQUANTIZE", "DIV", "ELU", "EQUAL", "EXP", "FLOOR", "FLOOR_DIV"),
    *("FLOOR_MOD", "GELU", "GREATER", "GREATER_EQUAL", "HARD_SWISH", "LEAKY_RELU", "LESS", "LESS_EQUAL", "LOG"),
    *("LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "LOGISTIC", "MAXIMUM", "MINIMUM", "MUL", "NEG", "NOT_EQUAL", "POW"),
    *("PRELU", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SELECT_V2", "SIGN"),
    *("SIN", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUB", "TANH", "ZEROS_LIKE"),
)
"""Operators that compute each element by itself."""


def _alike(c: Context, result: Value) -> Counted:
    shapes = [(value.shape, counted) for value, counted in zip(c.inputs, c.counted, strict=True) if value is not None]
    return alike(shapes, len(result.shape))


def _first(c: Context) -> Counted:
    """Of the first input, which alone may be counted."""
    first, *others = c.counted
    if first is None or any(one is not None for one in others):
        raise Unmapped("data decide the size of one of its parameters")
    return first


def _gather(c: Context, result: Value) -> Counted:
    options = c.options("GatherOptions")
    source, places = c.input(0), c.input(1)
    axis = axis_of(options.Axis(), len(source.shape))
    if options.BatchDims():
        raise Unmapped("data decide the size of a batch")
    if (of_places := c.counted[1]) is not None:
        if c.counted[0] is not None:
            raise Unmapped("data decide the sizes of both its inputs")
        return of_places.on(axis + of_places.axis)
    counted = apart(_first(c), [axis])
    more = -1 if c.is_scalar(1) else len(places.shape) - 1
    return counted.on(counted.axis + (more if counted.axis > axis else 0))


def _gather_nd(c: Context, result: Value) -> Counted:
    counted = c.counted[1]
    if counted is None or c.counted[0] is not None:
        raise Unmapped("data decide the size of what it picks from")
    return apart(counted, [len(c.input(1).shape) - 1])


def _reshape(c: Context, result: Value) -> Counted:
    counted = reshaped(_first(c), c.input().shape, result.shape)
    given = c.ints(1, "the shape") if len(c.inputs) > 1 else []
    if given and given[counted.axis] != -1:
        raise Unmapped(f"axis {counted.axis}, whose size data decide, is to be of size {given[counted.axis]}")
    return counted


def _reshaped(c: Context, result: Value) -> Counted:
    return reshaped(_first(c), c.input().shape, result.shape)


def _transpose(c: Context, result: Value) -> Counted:
    counted, rank = _first(c), len(result.shape)
    order = [axis_of(axis, rank) for axis in c.ints(1, "the permutation")]
    return counted.on(order.index(counted.axis))


def _concatenation(c: Context, result: Value) -> Counted:
    first = c.counted[0]
    if first is None or any(one is None or (one.axis, one.count) != (first.axis, first.count) for one in c.counted):
        raise Unmapped("data decide the sizes of its inputs, and not one size only")
    return apart(first, [axis_of(c.options("ConcatenationOptions").Axis(), len(result.shape))])


def _last(c: Context, result: Value) -> Counted:
    """Of an operator that works along the last axis."""
    return apart(_first(c), [len(c.input().shape) - 1])


def _reduce(c: Context, result: Value) -> Counted:
    counted, rank = _first(c), len(c.input().shape)
    places = [axis_of(axis, rank) for axis in c.ints(1, "the axes")]
    counted = apart(counted, places)
    gone = 0 if c.options("ReducerOptions").KeepDims() else sum(1 for place in places if place < counted.axis)
    return counted.on(counted.axis - gone)


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_POINTWISE, _alike),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "FULLY_CONNECTED"), _last),
    **dict.fromkeys(("MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), _reduce),
    **dict.fromkeys(("EXPAND_DIMS", "SQUEEZE"), _reshaped),
    "CONCATENATION": _concatenation,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "RESHAPE": _reshape,
    "TRANSPOSE": _transpose,
}


def check(c: Context) -> None:
    """`Unmapped` where an operator can't take what data decide the size of."""
    if any(c.counted) and c.operator.name not in _RULES:
        raise Unmapped("data decide the size of its input, and NNAPI has to know it beforehand")


def passed_on(c: Context, position: int, value: Value) -> Counted | None:
    """What an output has of what the inputs have."""
    if position in c.gives:
        return c.gives[position]
    return _RULES[c.operator.name](c, value) if any(c.counted) else None
