"""Operators that reduce axes or windows by a function of two elements, and STABLEHLO_SORT.

The function of StableHLO's operators is a subgraph of one operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import tflite

from nnvk.api import OperationCode
from nnvk.importers.decompositions.moving import axis_of, largest, sliced, strided, transposed
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.stablehlo import COMPARISONS, UNUSUAL
from nnvk.importers.tflite.mappers.stablehlo_moving import filled_up, numbers
from nnvk.importers.tflite.registry import builtin
from nnvk.importers.tflite.schema import Operator
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode

# --- functions of two elements -------------------------------------------------------------------------------


class Function(Enum):
    """A function of two elements."""

    SECOND = auto()
    SUM = auto()
    PRODUCT = auto()
    LEAST = auto()
    MOST = auto()
    ALL = auto()
    ANY = auto()

    @property
    def is_logical(self) -> bool:
        """Whether the elements are truth values."""
        return self in (Function.ALL, Function.ANY)


_PAIRS = {
    Function.SUM: Op.ADD,
    Function.PRODUCT: Op.MUL,
    Function.LEAST: Op.MINIMUM,
    Function.MOST: Op.MAXIMUM,
    Function.ALL: Op.LOGICAL_AND,
    Function.ANY: Op.LOGICAL_OR,
}
_REDUCTIONS = {
    Function.SUM: Op.REDUCE_SUM,
    Function.PRODUCT: Op.REDUCE_PROD,
    Function.LEAST: Op.REDUCE_MIN,
    Function.MOST: Op.REDUCE_MAX,
    Function.ALL: Op.REDUCE_MIN,
    Function.ANY: Op.REDUCE_MAX,
}
"""The operations that `folded` takes, of truth values as well."""
_OF_OPERATORS = {
    **dict.fromkeys(("ADD", "STABLEHLO_ADD"), Function.SUM),
    **dict.fromkeys(("MUL", "STABLEHLO_MULTIPLY"), Function.PRODUCT),
    **dict.fromkeys(("MINIMUM", "STABLEHLO_MINIMUM"), Function.LEAST),
    **dict.fromkeys(("MAXIMUM", "STABLEHLO_MAXIMUM"), Function.MOST),
    **dict.fromkeys(("LOGICAL_AND", "STABLEHLO_AND"), Function.ALL),
    **dict.fromkeys(("LOGICAL_OR", "STABLEHLO_OR"), Function.ANY),
}


def function_of(c: Context, index: int) -> Function:
    """The function that a subgraph of two inputs computes."""
    subgraph = c.body(index)
    if len(subgraph.inputs) == 2 and not subgraph.operators and subgraph.outputs == subgraph.inputs[1:]:
        return Function.SECOND
    if len(subgraph.operators) == 1 and len(subgraph.inputs) == 2:
        (operator,) = subgraph.operators
        if operator.outputs == subgraph.outputs and sorted(operator.inputs) == sorted(subgraph.inputs):
            found = _OF_OPERATORS.get(operator.name)
            if found is not None:
                return found
    names = ", ".join(operator.name for operator in subgraph.operators) or "nothing"
    raise Unmapped(f"the function must be one sum, product, minimum, maximum, AND or OR of its inputs, got {names}")


def _check(function: Function, *values: Value) -> None:
    codes = (BOOL8.code,) if function.is_logical else (F32.code, I32.code)
    if function is Function.SECOND or values[0].code not in codes or len({value.code for value in values}) > 1:
        raise Unmapped(f"{function.name} does not reduce {' and '.join(str(value.type) for value in values)}")


def _joined(c: Context, function: Function, first: Value, second: Value) -> Value:
    fused = (NONE,) if function in (Function.SUM, Function.PRODUCT) else ()
    return c.emit(_PAIRS[function], first, second, *fused, out=first.type)


# --- axes ----------------------------------------------------------------------------------------------------


@builtin("STABLEHLO_REDUCE")
def reduce(c: Context) -> Value:
    """Map STABLEHLO_REDUCE of one tensor, with the number that each result begins with."""
    options = c.options("StablehloReduceOptions")
    if len(c.inputs) != 2:
        raise Unmapped(f"only one tensor is reduced at a time, got {len(c.inputs)} inputs")
    source, first, function = c.input(0), c.input(1), function_of(c, options.BodySubgraphIndex())
    _check(function, source, first)
    axes = sorted({axis_of(axis, len(source.shape)) for axis in numbers(options, "Dimensions")})
    kept = [size for axis, size in enumerate(source.shape) if axis not in axes]
    reduced = c.reshape(folded(c, _REDUCTIONS[function], source, axes), kept)
    return _joined(c, function, reduced, c.reshape(first, (1,)))


# --- windows -------------------------------------------------------------------------------------------------


def _reduced_windows(
    c: Context,
    source: Value,
    function: Function,
    sizes: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """Reduce the windows of a tensor along one axis after the other."""
    for what in (sizes, strides, dilations):
        if len(what) != len(source.shape) or min(what) < 1:
            raise Unmapped(f"windows of an input of {list(source.shape)} have as many numbers from 1 on, got {what}")
    for axis, (size, stride, dilation) in enumerate(zip(sizes, strides, dilations, strict=True)):
        count = source.shape[axis] - (size - 1) * dilation
        if count < 1:
            raise Unmapped(f"windows of {size} do not fit {source.shape[axis]} elements along axis {axis}")
        source = _along(c, source, function, axis, size, dilation)
        taken = [range(full) for full in source.shape]
        taken[axis] = range(0, count, stride)
        source = strided(c, source, taken)
    return source


def _along(c: Context, source: Value, function: Function, axis: int, size: int, dilation: int) -> Value:
    """Reduce each ``size`` elements in a row. Windows of twice the size are joined of two."""

    def part(value: Value, first: int, count: int) -> Value:
        taken = [range(full) for full in value.shape]
        taken[axis] = range(first, first + count)
        return sliced(c, value, taken)

    count = source.shape[axis] - (size - 1) * dilation
    power, width, done, result = source, 1, 0, None
    while True:
        if size & width:
            piece = part(power, done * dilation, count)
            result = piece if result is None else _joined(c, function, result, piece)
            done += width
        if done == size:
            assert result is not None
            return result
        longer = power.shape[axis] - width * dilation
        power = _joined(c, function, part(power, 0, longer), part(power, width * dilation, longer))
        width *= 2


@builtin("STABLEHLO_REDUCE_WINDOW")
def stablehlo_reduce_window(c: Context) -> Value:
    """Map STABLEHLO_REDUCE_WINDOW of one tensor, surrounded by the number that each result begins with."""
    options, source, first = c.options("StablehloReduceWindowOptions"), c.input(0), c.input(1)
    if len(c.inputs) != 2:
        raise Unmapped(f"only one tensor is reduced at a time, got {len(c.inputs)} inputs")
    function, rank = function_of(c, options.BodySubgraphIndex()), len(source.shape)
    _check(function, source, first)
    pairs = numbers(options, "Padding", 2 * rank, 0)
    spaces = [dilation - 1 for dilation in numbers(options, "BaseDilations", rank, 1)]
    padded = filled_up(c, source, first, pairs[::2], pairs[1::2], spaces)
    sizes = numbers(options, "WindowDimensions", rank)
    strides, dilations = (numbers(options, name, rank, 1) for name in ("WindowStrides", "WindowDilations"))
    reduced = _reduced_windows(c, padded, function, sizes, strides, dilations)
    return _joined(c, function, reduced, c.reshape(first, (1,)))


_Kind = tflite.ReduceWindowFunction
_FUNCTIONS = {
    _Kind.ADD: Function.SUM,
    _Kind.MUL: Function.PRODUCT,
    _Kind.MINIMUM: Function.LEAST,
    _Kind.MAXIMUM: Function.MOST,
    _Kind.ALL: Function.ALL,
    _Kind.ANY: Function.ANY,
}


@builtin("REDUCE_WINDOW")
def reduce_window(c: Context) -> Value:
    """Map REDUCE_WINDOW, whose function is an option."""
    source, first, kind = c.input(0), c.input(1), c.options("ReduceWindowOptions").ReduceFunction()
    if kind not in _FUNCTIONS:
        raise Unmapped(f"unknown function {kind}")
    _check(_FUNCTIONS[kind], source, first)
    sizes, strides, dilations = (
        c.ints(position, what)
        for position, what in ((2, "the window"), (3, "the strides"), (4, "the dilations of the window"))
    )
    reduced = _reduced_windows(c, source, _FUNCTIONS[kind], sizes, strides, dilations)
    return _joined(c, _FUNCTIONS[kind], reduced, c.reshape(first, (1,)))


# --- order ---------------------------------------------------------------------------------------------------

_ASCENDING, _DESCENDING = (Op.LESS, Op.LESS_EQUAL), (Op.GREATER, Op.GREATER_EQUAL)


def _key(c: Context, operator: Operator, inputs: Sequence[int]) -> tuple[int, bool]:
    """The tensor by whose elements all are sorted, and whether the smallest one comes first."""
    options = operator.options("StablehloCompareOptions")
    code = COMPARISONS[options.ComparisonDirection()]
    if code in (*_ASCENDING, *_DESCENDING) and options.CompareType() not in UNUSUAL:
        for key in range(len(c.inputs)):
            first, second = inputs[2 * key : 2 * key + 2]
            if operator.inputs in ((first, second), (second, first)):
                return key, (code in _ASCENDING) == (operator.inputs == (first, second))
    raise Unmapped("the function must compare both elements of one input, in NNAPI's order")


@builtin("STABLEHLO_SORT")
def sort(c: Context) -> list[Value]:
    """Map STABLEHLO_SORT: all inputs in the order of one of them, by TOPK_V2. Equal elements keep their order."""
    options, values = c.options("StablehloSortOptions"), c.all_inputs()
    body = c.body(options.ComparatorSubgraphIndex())
    is_one = [operator.name for operator in body.operators] == ["STABLEHLO_COMPARE"]
    if not is_one or len(body.inputs) != 2 * len(values) or body.operators[0].outputs != body.outputs:
        raise Unmapped("the function must be one STABLEHLO_COMPARE")
    key, ascends = _key(c, body.operators[0], body.inputs)
    rank = len(values[0].shape)
    axis = axis_of(options.Dimension(), rank)
    order = [*(other for other in range(rank) if other != axis), axis]
    back = [order.index(other) for other in range(rank)]
    rows = [_rows(c, transposed(c, value, order)) for value in values]
    number = rows[key]
    if number.code not in (F32.code, I32.code):
        raise Unmapped(f"elements are sorted by FLOAT32 or INT32, got {number.type}")
    if ascends and number.code is I32.code:  # -1 - x, which every integer has
        number = c.emit(Op.SUB, c.constant(-1, I32), number, NONE, out=I32)
    elif ascends:
        number = c.emit(Op.NEG, number, out=F32)
    places = c.reshape(largest(c, number, number.shape[1])[1], (*number.shape, 1))
    picked = [c.keep(ExtendedOperationCode.GATHER_ND, row, places, 1) for row in rows]
    shape = [values[0].shape[other] for other in order]
    return [transposed(c, c.reshape(one, shape), back) for one in picked]


def _rows(c: Context, value: Value) -> Value:
    return c.reshape(value, (value.size // value.shape[-1], value.shape[-1]))
