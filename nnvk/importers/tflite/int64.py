"""Operators on INT64, whose results may leave 32 bits: what is exact of them whatever they leave."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from nnvk.api import FuseCode, OperandCode, OperationCode
from nnvk.importers import bounds
from nnvk.importers.decompositions import int64
from nnvk.importers.decompositions.cumulative import cumulative_exactly
from nnvk.importers.decompositions.int64 import Number, Words
from nnvk.importers.decompositions.moving import axis_of
from nnvk.importers.decompositions.reductions import folded_exactly
from nnvk.importers.emitter import BOOL8, F32, I32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.registry import Mappers
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import Mapper, find

Op = OperationCode

_FITTING = frozenset(
    [
        *("ARG_MAX", "ARG_MIN", "BROADCAST_ARGS", "BROADCAST_TO", "CALL", "CALL_ONCE", "CAST", "CONCATENATION"),
        *("DYNAMIC_UPDATE_SLICE", "EXPAND_DIMS", "FILL", "FLOOR_MOD", "GATHER", "GATHER_ND", "IF", "MAXIMUM"),
        *("MINIMUM", "MIRROR_PAD", "ONE_HOT", "PACK", "PAD", "PADV2", "RANGE", "RANK", "READ_VARIABLE", "REDUCE_MAX"),
        *("REDUCE_MIN", "RESHAPE", "REVERSE_SEQUENCE", "REVERSE_V2", "SELECT", "SELECT_V2", "SHAPE", "SIGN", "SLICE"),
        *("SPLIT", "SPLIT_V", "SQUEEZE", "STABLEHLO_COMPOSITE", "STRIDED_SLICE", "TILE", "TOPK_V2", "TRANSPOSE"),
        *("UNPACK", "WHERE", "WHILE", "ZEROS_LIKE"),
    ]
)
"""Operators whose results fit into 32 bits where their inputs do."""

Result = Number | Sequence[Number]


def mapped(c: Context, mapper: Mapper) -> Result:
    """Map an operator: see `int64.exactly_or_checked`."""
    may_leave = c.operator.name not in _FITTING and any(tensor.type == "INT64" for tensor in c.outputs)
    return int64.exactly_or_checked(c, _rules.find(c.operator.name), mapper, may_leave)


_rules = Mappers[Callable[[Context], "Result | None"]]()
_rule = _rules.of


def _is_wide(c: Context) -> bool:
    return c.output().type == "INT64"


def _has_words(c: Context) -> bool:
    return any(one is not None for one in c.words)


# --- arithmetic ----------------------------------------------------------------------------------------------

_ARITHMETIC = {
    "ADD": (Op.ADD, "AddOptions"),
    "SUB": (Op.SUB, "SubOptions"),
    "MUL": (Op.MUL, "MulOptions"),
    "DIV": (Op.DIV, "DivOptions"),
}
_CLIPPED = {FuseCode.RELU: (0, None), FuseCode.RELU1: (-1, 1), FuseCode.RELU6: (0, 6)}


@_rule(*_ARITHMETIC)
def _arithmetic(c: Context) -> Number | None:
    if not _is_wide(c):
        return None
    code, table = _ARITHMETIC[c.operator.name]
    result = int64.combined(c, code, c.exact(0), c.exact(1))
    low, high = _CLIPPED.get(c.fuse(c.options(table)), (None, None))
    for limit, extreme in ((low, Op.MAXIMUM), (high, Op.MINIMUM)):
        if limit is not None:
            result = int64.extreme(c, extreme, result, c.constant(limit, I32))
    return result


@_rule("FLOOR_DIV", "FLOOR_MOD")
def _floored(c: Context) -> Number | None:
    if not _is_wide(c):
        return None
    first, second = c.exact(0), c.exact(1)
    if c.operator.name == "FLOOR_DIV":
        return int64.floor_quotient(c, first, second)
    return int64.remainder(c, first, second, is_floored=True) if _has_words(c) else None


@_rule("ABS", "NEG")
def _signed(c: Context) -> Number | None:
    if not _is_wide(c):
        return None
    return (int64.negated if c.operator.name == "NEG" else int64.magnitude)(c, c.exact(0))


# --- along axes ----------------------------------------------------------------------------------------------

_REDUCTIONS = {
    "MEAN": Op.MEAN,
    "REDUCE_MAX": Op.REDUCE_MAX,
    "REDUCE_MIN": Op.REDUCE_MIN,
    "REDUCE_PROD": Op.REDUCE_PROD,
    "SUM": Op.REDUCE_SUM,
}


@_rule(*_REDUCTIONS)
def _reduced(c: Context) -> Number | None:
    if not _is_wide(c):
        return None
    source = c.exact(0)
    axes = sorted({axis_of(axis, len(source.shape)) for axis in c.ints(1, "the axes")})
    result = folded_exactly(c, _REDUCTIONS[c.operator.name], source, axes)
    if c.options("ReducerOptions").KeepDims():
        return result
    shape = [size for axis, size in enumerate(result.shape) if axis not in axes]
    return int64.moved(c, lambda word: c.reshape(word, shape), result)


@_rule("CUMSUM")
def _cumulative(c: Context) -> Number | None:
    if not _is_wide(c):
        return None
    options, source = c.options("CumsumOptions"), c.exact(0)
    axis = axis_of(c.integer(1, "the axis"), len(source.shape))
    exclusive, reverse = bool(options.Exclusive()), bool(options.Reverse())
    return cumulative_exactly(c, source, axis, exclusive=exclusive, reverse=reverse)


@_rule("SCATTER_ND")
def _scattered(c: Context) -> None:
    """Refuse sums of updates that may leave 32 bits."""
    if not _is_wide(c):
        return
    most = bounds.product(c.exact(1).bounds, (0, math.prod(c.input(0).shape)))
    if not bounds.within(most, bounds.INT32):
        raise Unmapped("its sums may leave 32 bits, which NNAPI does not have")


# --- comparison and choice -----------------------------------------------------------------------------------


@_rule("MAXIMUM", "MINIMUM")
def _extreme(c: Context) -> Number | None:
    return int64.extreme(c, OperationCode[c.operator.name], c.exact(0), c.exact(1)) if _has_words(c) else None


@_rule("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
def _compared(c: Context) -> Number | None:
    return int64.compared(c, OperationCode[c.operator.name], c.exact(0), c.exact(1)) if _has_words(c) else None


@_rule("SIGN")
def _sign(c: Context) -> Number | None:
    return int64.order(c, c.exact(0), c.constant(0, I32)) if _has_words(c) else None


# --- types ---------------------------------------------------------------------------------------------------


@_rule("CAST")
def _cast(c: Context) -> Number | None:
    if c.is_complex(0):
        return None
    source, words = c.input(), c.wide_number(0)
    if words is None:
        is_real = source.code in (F32.code, OperandCode.TENSOR_FLOAT16)
        return int64.from_real(c, c.widened(source)) if _is_wide(c) and is_real else None
    target = c.out()
    if target.code is BOOL8.code:
        return int64.is_true(c, words)
    if target.code is F32.code:
        return int64.real(c, words)
    if target.code is I32.code:
        return words if _is_wide(c) else words.low
    return None


# --- elements in other places --------------------------------------------------------------------------------

_MOVED: Mapping[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("CONCATENATION", "PACK"), None),
    **dict.fromkeys(("BROADCAST_TO", "EXPAND_DIMS", "GATHER", "GATHER_ND", "MIRROR_PAD", "PAD", "RESHAPE"), (0,)),
    **dict.fromkeys(("REVERSE_SEQUENCE", "REVERSE_V2", "SLICE", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE"), (0,)),
    **dict.fromkeys(("TRANSPOSE", "UNPACK"), (0,)),
    "DYNAMIC_UPDATE_SLICE": (0, 1),
    **dict.fromkeys(("FILL", "SPLIT"), (1,)),
    **dict.fromkeys(("SELECT", "SELECT_V2"), (1, 2)),
}
"""Operators that give elements of some of their inputs, or zeros, and which inputs these are; None: all."""


@_rule(*_MOVED)
def _moved(c: Context) -> list[Number] | None:
    """The operator twice, on the low words and on the high ones."""
    positions = _MOVED[c.operator.name] or range(len(c.inputs))
    if all(c.wide_number(position) is None for position in positions):
        return None
    words = {position: int64.wide(c, c.exact(position)) for position in positions}
    low, high = (_as_it_is(c, {at: pick(one) for at, one in words.items()}) for pick in _PICKS)
    known = bounds.union((0, 0), *(one.bounds for one in words.values()))
    return [Words(one, other, known) for one, other in zip(low, high, strict=True)]


_PICKS: tuple[Callable[[Words], Value], ...] = (lambda words: words.low, lambda words: words.high)


def _as_it_is(c: Context, values: Mapping[int, Value]) -> Sequence[Value]:
    """The outputs of an operator with other tensors as some of its inputs."""
    mapper = find(c.operator.name)
    assert mapper is not None
    result = mapper(c.with_inputs([values.get(position, one) for position, one in enumerate(c.inputs)]))
    return [result] if isinstance(result, Value) else result
