"""Operators on INT64, UINT32 and UINT64, whose results may leave 32 bits: what is exact of them whatever they leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnvk.base.sizes import broadcast_sizes
from nnvk.importers import bounds
from nnvk.importers.decompositions import int64
from nnvk.importers.decompositions.cumulative import cumulative_exactly
from nnvk.importers.decompositions.int64 import Number, Words
from nnvk.importers.decompositions.moving import axis_of
from nnvk.importers.decompositions.reductions import folded_exactly
from nnvk.importers.emitter import F32, I32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.elementwise import COMPARISONS
from nnvk.importers.onnx.mappers.reduction import axes_of
from nnvk.importers.onnx.registry import Mapper, Result, find
from nnvk.importers.onnx.tensors import Tensor
from nnvk.importers.registry import Mappers
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

Op = OperationCode

_WIDE = frozenset(map(np.dtype, (np.int64, np.uint32, np.uint64)))
"""Types that have numbers beyond those of INT32."""
_FITTING = frozenset(
    [
        *("And", "ArgMax", "ArgMin", "Cast", "CastLike", "Clip", "Compress", "Concat", "DepthToSpace", "Equal"),
        *("Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Greater", "GreaterOrEqual"),
        *("Identity", "If", "Less", "LessOrEqual", "Loop", "Max", "Min", "Mod", "NonZero", "OneHot", "Pad"),
        *("ReduceMax", "ReduceMin", "Relu", "Reshape", "ReverseSequence", "Scan", "Scatter", "ScatterElements"),
        *("ScatterND", "Shape", "Sign", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK"),
        *("Transpose", "Trilu", "Unsqueeze", "Where"),
    ]
)
"""Operators whose results fit into 32 bits where their inputs do."""


def mapped(c: Context, mapper: Mapper) -> Result | Sequence[Result]:
    """Map a node: see `int64.exactly_or_checked`."""
    first = c.optional(0)
    may_leave = first is not None and first.dtype in _WIDE and c.node.op_type not in _FITTING
    return int64.exactly_or_checked(c, _rules.find(c.node.kind), mapper, may_leave)


_rules = Mappers[Callable[[Context], "Result | Sequence[Result] | None"]]()
_rule = _rules.of


def _is_wide(c: Context) -> bool:
    return c.tensor().dtype in _WIDE


def _has_words(c: Context) -> bool:
    return any(one is not None and c.needs_words(one) for one in c.inputs)


def _shape(c: Context, *positions: int) -> Shape:
    """The shape that inputs broadcast to."""
    return broadcast_sizes(*(c.tensor(position).shape for position in positions))


def _pair(c: Context) -> tuple[Number, Number]:
    return c.exact(c.tensor(0)), c.exact(c.tensor(1))


# --- arithmetic ----------------------------------------------------------------------------------------------

_ARITHMETIC = {"Add": Op.ADD, "Sub": Op.SUB, "Mul": Op.MUL, "Div": Op.DIV}


@_rule(*_ARITHMETIC)
def _arithmetic(c: Context) -> Tensor | None:
    if not _is_wide(c):
        return None
    result = int64.combined(c, _ARITHMETIC[c.node.op_type], *_pair(c))
    return c.give_exactly(result, _shape(c, 0, 1), c.tensor().dtype)


@_rule("Mod")
def _remainder(c: Context) -> Tensor | None:
    is_floored = not c.node.integer("fmod", 0)
    if not _is_wide(c) or (is_floored and not _has_words(c)):
        return None
    return c.give_exactly(int64.remainder(c, *_pair(c), is_floored=is_floored), _shape(c, 0, 1), c.tensor().dtype)


@_rule("Neg", "Abs")
def _signed(c: Context) -> Tensor | None:
    if not _is_wide(c):
        return None
    change = int64.negated if c.node.op_type == "Neg" else int64.magnitude
    return c.give_exactly(change(c, c.exact(c.tensor())), c.tensor().shape, c.tensor().dtype)


@_rule("Sum", "Max", "Min")
def _variadic(c: Context) -> Tensor | None:
    if not _is_wide(c) or (c.node.op_type != "Sum" and not _has_words(c)):
        return None
    total, *rest = (c.exact(tensor) for tensor in c.tensors())
    for one in rest:
        if c.node.op_type == "Sum":
            total = int64.combined(c, Op.ADD, total, one)
        else:
            total = int64.extreme(c, Op.MAXIMUM if c.node.op_type == "Max" else Op.MINIMUM, total, one)
    return c.give_exactly(total, _shape(c, *range(len(c.inputs))), c.tensor().dtype)


# --- along axes ----------------------------------------------------------------------------------------------

_REDUCTIONS = {
    "ReduceMax": Op.REDUCE_MAX,
    "ReduceMean": Op.MEAN,
    "ReduceMin": Op.REDUCE_MIN,
    "ReduceProd": Op.REDUCE_PROD,
    "ReduceSum": Op.REDUCE_SUM,
}


@_rule(*_REDUCTIONS)
def _reduced(c: Context) -> Tensor | None:
    source, axes = c.tensor(), axes_of(c)
    if not _is_wide(c) or axes is None:
        return None
    keep = c.node.integer("keepdims", 1)
    shape = [1 if axis in axes else size for axis, size in enumerate(source.shape) if keep or axis not in axes]
    return c.give_exactly(folded_exactly(c, _REDUCTIONS[c.node.op_type], c.exact(source), axes), shape, source.dtype)


@_rule("CumSum")
def _cumulative(c: Context) -> Tensor | None:
    source = c.tensor()
    if not _is_wide(c):
        return None
    axis = axis_of(int(c.scalar(1, "the axis")), source.rank)
    exclusive, reverse = bool(c.node.integer("exclusive", 0)), bool(c.node.integer("reverse", 0))
    result = cumulative_exactly(c, c.exact(source), axis, exclusive=exclusive, reverse=reverse)
    return c.give_exactly(result, source.shape, source.dtype)


# --- comparison and choice -----------------------------------------------------------------------------------


@_rule(*COMPARISONS)
def _compared(c: Context) -> Tensor | None:
    if not _has_words(c):
        return None
    return c.give(int64.compared(c, COMPARISONS[c.node.op_type], *_pair(c)), _shape(c, 0, 1), np.bool_)


@_rule("Where")
def _chosen(c: Context) -> Tensor | None:
    if not _has_words(c):
        return None
    result = int64.selected(c, c.number(0), c.exact(c.tensor(1)), c.exact(c.tensor(2)))
    return c.give_exactly(result, _shape(c, 0, 1, 2), c.tensor(1).dtype)


@_rule("Clip")
def _clipped(c: Context) -> Tensor | None:
    if not _has_words(c):
        return None
    result = c.exact(c.tensor())
    for position, code in ((1, Op.MAXIMUM), (2, Op.MINIMUM)):
        if not c.has(position):
            continue
        limit = c.exact(c.tensor(position))
        low, high = (limit, result) if code is Op.MAXIMUM else (result, limit)
        if low.bounds[1] > high.bounds[0]:  # else the limit is beyond all numbers
            result = int64.extreme(c, code, result, limit)
    return c.give_exactly(result, c.tensor().shape, c.tensor().dtype)


@_rule("Relu")
def _positive(c: Context) -> Tensor | None:
    if not _has_words(c):
        return None
    result = int64.extreme(c, Op.MAXIMUM, c.exact(c.tensor()), c.constant(0, I32))
    return c.give_exactly(result, c.tensor().shape, c.tensor().dtype)


@_rule("Sign")
def _sign(c: Context) -> Tensor | None:
    if not _has_words(c):
        return None
    return c.give(int64.order(c, c.exact(c.tensor()), c.constant(0, I32)), c.tensor().shape, c.tensor().dtype)


# --- types ---------------------------------------------------------------------------------------------------


@_rule("Cast", "CastLike")
def _cast(c: Context) -> Tensor | None:
    source = c.tensor(0)
    target, narrow = c.target()
    if narrow is not None or source.dtype == target or source.dtype == np.bool_:
        return None
    if source.dtype.kind == "f":
        if target not in _WIDE:
            return None
        return c.give_exactly(int64.from_real(c, c.widened(c.number(0))), source.shape, target)
    if target.kind in "iu":
        if source.words is None and target not in _WIDE:
            return None
        return c.give_exactly(c.exact(source), source.shape, target)
    if source.words is None:
        return None
    if target == np.bool_:
        return c.give(int64.is_true(c, source.words), source.shape, target)
    real = int64.real(c, source.words)
    return c.give(real if target.itemsize >= F32.dtype.itemsize else c.cast(real, target), source.shape, target)


# --- elements in other places --------------------------------------------------------------------------------

_MOVED: Mapping[str, tuple[int, ...] | None] = {
    "Concat": None,
    **dict.fromkeys(("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"), (0,)),
    **dict.fromkeys(("Reshape", "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"), (0,)),
    **dict.fromkeys(("Transpose", "Unsqueeze"), (0,)),
}
"""Operators that give elements of some of their inputs, and which these are; None: all."""


@_rule(*_MOVED)
def _moved(c: Context) -> list[Tensor | None] | None:
    """The node twice, on the low words and on the high ones."""
    positions = _MOVED[c.node.kind] or range(len(c.inputs))
    if not any(c.needs_words(c.tensor(position)) for position in positions):
        return None
    words = {position: int64.wide(c, c.exact(c.tensor(position))) for position in positions}
    low, high = (_outputs(c, {at: pick(one) for at, one in words.items()}) for pick in _PICKS)
    known = bounds.union(*(one.bounds for one in words.values()))
    return [_joined(one, other, known) for one, other in zip(low, high, strict=True)]


_PICKS: tuple[Callable[[Words], Value], ...] = (lambda words: words.low, lambda words: words.high)


def _outputs(c: Context, values: Mapping[int, Value]) -> list[Tensor | None]:
    """The outputs of a node with other tensors as some of its inputs."""
    inputs = list(c.inputs)
    for position, value in values.items():
        inputs[position] = replace(c.tensor(position), value=value, constant=None, words=None, laid={})
    mapper = find(c.node.kind)
    assert mapper is not None
    other = Context(c.graph, c.node, inputs, c.outside)
    result = mapper(other)
    several = [result] if isinstance(result, Value | Tensor) or result is None else result
    return [other.give(one) if isinstance(one, Value) else one for one in several]


def _joined(low: Tensor | None, high: Tensor | None, known: bounds.Bounds) -> Tensor | None:
    if low is None or low.value is None:
        return low  # one that is not made, or that has no elements
    assert high is not None and high.value is not None
    return replace(low, value=None, words=Words(low.value, high.value, known))


@_rule("ScatterElements", "ScatterND", "Scatter")
def _scattered(c: Context) -> None:
    """Refuse sums and products of updates that may leave 32 bits."""
    reduction = c.node.text("reduction", "none")
    if not _is_wide(c) or reduction not in ("add", "mul"):
        return
    sums = bounds.product(c.exact(c.tensor(2)).bounds, (0, c.tensor(2).size))
    if reduction == "mul" or not bounds.within(bounds.total(c.exact(c.tensor(0)).bounds, sums), bounds.INT32):
        raise Unmapped(f"its results of {c.tensor().dtype} may leave 32 bits, which NNAPI does not have")
