"""Rules for TFLite operators that pass a dynamic extent on: the axis of their outputs that it is along."""

from __future__ import annotations

from nnvk.importers.dynamic_extents import (
    DynamicExtent,
    Extent,
    Extents,
    Rules,
    along,
    concatenation,
    elementwise,
    gather,
    gather_nd,
    reduction,
    reshaped,
    transposition,
)
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context

_ELEMENTWISE = (
    *("ABS", "ADD", "ADD_N", "CAST", "CEIL", "COS", "DEQUANTIZE", "DIV", "ELU", "EQUAL", "EXP", "FLOOR", "FLOOR_DIV"),
    *("FLOOR_MOD", "GELU", "GREATER", "GREATER_EQUAL", "HARD_SWISH", "LEAKY_RELU", "LESS", "LESS_EQUAL", "LOG"),
    *("LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "LOGISTIC", "MAXIMUM", "MINIMUM", "MUL", "NEG", "NOT_EQUAL", "POW"),
    *("PRELU", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SELECT_V2", "SIGN"),
    *("SIN", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUB", "TANH", "ZEROS_LIKE"),
)
"""Operators that compute each element by itself."""
_REDUCTIONS = ("MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM")


def _gather(c: Context, extents: Extents) -> DynamicExtent:
    options = c.options("GatherOptions")
    if options.BatchDims():
        raise Unmapped("data decide the size of a batch")
    return gather(extents, options.Axis())


def _reshape(c: Context, extents: Extents) -> DynamicExtent:
    given = c.ints(1, "the shape") if len(c.inputs) > 1 else []
    return reshaped(extents, [None if size == -1 else size for size in given])


def _reduction(c: Context, extents: Extents) -> DynamicExtent:
    return reduction(extents, c.ints(1, "the axes"), bool(c.options("ReducerOptions").KeepDims()))


def _cumulative(c: Context, extents: Extents) -> DynamicExtent:
    """Sums from the front see the valid elements, which are the first, alone."""
    return along(extents, [c.integer(1, "the axis")] if c.options("CumsumOptions").Reverse() else [])


_RULES = Rules[Context](
    {
        **dict.fromkeys(_ELEMENTWISE, lambda c, extents: elementwise(extents)),
        **dict.fromkeys(
            ("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "FULLY_CONNECTED"), lambda c, extents: along(extents, [-1])
        ),
        **dict.fromkeys(_REDUCTIONS, _reduction),
        **dict.fromkeys(("EXPAND_DIMS", "SQUEEZE"), lambda c, extents: reshaped(extents)),
        "CONCATENATION": lambda c, extents: concatenation(extents, c.options("ConcatenationOptions").Axis()),
        "CUMSUM": _cumulative,
        "GATHER": _gather,
        "GATHER_ND": lambda c, extents: gather_nd(extents),
        "RESHAPE": _reshape,
        "TRANSPOSE": lambda c, extents: transposition(extents, c.ints(1, "the permutation")),
    }
)


def check(c: Context) -> None:
    """`Unmapped` where an operator can't take a tensor whose size data decide."""
    _RULES.check(c.operator.name, c.extents)


def passed_on(c: Context, position: int, value: Value) -> DynamicExtent | None:
    """The dynamic extent of an output: the mapper's own, or that which follows from the inputs."""
    if position in c.gives:
        return c.gives[position]
    return _RULES.passed_on(c.operator.name, c, Extents([_extent(c, at) for at in range(len(c.inputs))], value.shape))


def _extent(c: Context, position: int) -> Extent | None:
    value = c.inputs[position]
    if value is None:
        return None
    dynamic = c.extents[position]
    return Extent(() if dynamic is None and c.is_scalar(position) else value.shape, dynamic)
