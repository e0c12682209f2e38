"""STABLEHLO_REDUCE and STABLEHLO_SORT, whose functions of two elements are subgraphs of one operator."""

from __future__ import annotations

from collections.abc import Sequence

from nnvk.api import OperationCode
from nnvk.importers.decompositions.moving import axis_of, largest, transposed
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.stablehlo import COMPARISONS, UNUSUAL
from nnvk.importers.tflite.mappers.stablehlo_moving import numbers
from nnvk.importers.tflite.registry import builtin
from nnvk.importers.tflite.schema import Operator
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode

# --- axes ----------------------------------------------------------------------------------------------------

_LOGICAL = (Op.LOGICAL_AND, Op.LOGICAL_OR)
_FUNCTIONS = {
    **dict.fromkeys(("ADD", "STABLEHLO_ADD"), (Op.ADD, Op.REDUCE_SUM)),
    **dict.fromkeys(("MUL", "STABLEHLO_MULTIPLY"), (Op.MUL, Op.REDUCE_PROD)),
    **dict.fromkeys(("MINIMUM", "STABLEHLO_MINIMUM"), (Op.MINIMUM, Op.REDUCE_MIN)),
    **dict.fromkeys(("MAXIMUM", "STABLEHLO_MAXIMUM"), (Op.MAXIMUM, Op.REDUCE_MAX)),
    **dict.fromkeys(("LOGICAL_AND", "STABLEHLO_AND"), (Op.LOGICAL_AND, Op.REDUCE_MIN)),
    **dict.fromkeys(("LOGICAL_OR", "STABLEHLO_OR"), (Op.LOGICAL_OR, Op.REDUCE_MAX)),
}
"""The operation on two elements, and the one that `folded` takes, of truth values as well."""


def _function(c: Context, index: int) -> tuple[Op, Op]:
    """The function that a subgraph of two inputs computes."""
    subgraph = c.body(index)
    if len(subgraph.operators) == 1 and len(subgraph.inputs) == 2:
        (operator,) = subgraph.operators
        if operator.outputs == subgraph.outputs and sorted(operator.inputs) == sorted(subgraph.inputs):
            found = _FUNCTIONS.get(operator.name)
            if found is not None:
                return found
    names = ", ".join(operator.name for operator in subgraph.operators) or "nothing"
    raise Unmapped(f"the function must be one sum, product, minimum, maximum, AND or OR of its inputs, got {names}")


@builtin("STABLEHLO_REDUCE")
def reduce(c: Context) -> Value:
    """Map STABLEHLO_REDUCE of one tensor, with the number that each result begins with."""
    options = c.options("StablehloReduceOptions")
    if len(c.inputs) != 2:
        raise Unmapped(f"only one tensor is reduced at a time, got {len(c.inputs)} inputs")
    source, first, (pair, whole) = c.input(0), c.input(1), _function(c, options.BodySubgraphIndex())
    codes = (BOOL8.code,) if pair in _LOGICAL else (F32.code, I32.code)
    if source.code not in codes or source.code is not first.code:
        raise Unmapped(f"{pair.name} does not reduce {source.type} and {first.type}")
    axes = sorted({axis_of(axis, len(source.shape)) for axis in numbers(options, "Dimensions")})
    kept = [size for axis, size in enumerate(source.shape) if axis not in axes]
    reduced = c.reshape(folded(c, whole, source, axes), kept)
    fused = (NONE,) if pair in (Op.ADD, Op.MUL) else ()
    return c.emit(pair, reduced, c.reshape(first, (1,)), *fused, out=source.type)


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
