"""Operations on tensors of more dimensions than NNAPI's operations take.

Each operation says how it treats an axis. Neighbouring axes that it treats alike are merged. If more than `MAX_RANK`
axes are left, an operation that treats its axes one by one is split into several operations, and operands that
broadcast are repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from nnvk.base.sizes import broadcast_sizes
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import MAX_RANK, Argument, Graph, Value
from nnvk.types.codes import FuseCode, OperandCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode
from nnvk.types.operand import OperandType, Shape

Op = OperationCode
Extended = ExtendedOperationCode
Types = Sequence[OperandType]
Rule = Callable[[Graph, KnownCode, Sequence[Argument], Types], list[Value]]
_BOOL8 = OperandType(OperandCode.TENSOR_BOOL8)
_I32 = OperandType(OperandCode.TENSOR_INT32)
_NONE = int(FuseCode.NONE)


def add(
    graph: Graph,
    code: KnownCode,
    inputs: Sequence[Argument],
    types: Types,
    declared: Sequence[Shape] | None = None,
) -> list[Value]:
    """Add an operation on tensors of any rank: `Graph.emit`, or the operations that it is lowered to.

    ``declared`` counts up to `MAX_RANK`; beyond, shapes follow from the inputs and from constants. `Unmapped` where an
    operation is defined for at most `MAX_RANK` dimensions, or a parameter is no constant.
    """
    if max((_rank(code, inputs), *map(len, declared or ()))) <= MAX_RANK:
        return graph.emit(code, inputs, types, declared=declared)
    if code not in _RULES:
        found = " and ".join(str(list(value.shape)) for value in _tensors(inputs))
        raise Unmapped(f"{code.name} takes at most {MAX_RANK} dimensions, got {found}")
    return _RULES[code](graph, code, inputs, types)


def _rank(code: KnownCode, inputs: Sequence[Argument]) -> int:
    """The largest rank of the operands, and of a result that has more dimensions than they."""
    tensors = _tensors(inputs)
    rank = max((len(value.shape) for value in tensors), default=0)
    if code is Op.PACK:
        return rank + 1
    if code is Extended.GATHER_ND:
        source, places = tensors
        return max(rank, len(source.shape) + len(places.shape) - 1 - places.shape[-1])
    shape = inputs[-1]
    if code is Extended.SCATTER_ND and isinstance(shape, np.ndarray | Value):
        return max(rank, math.prod(shape.shape))
    return rank


def _tensors(inputs: Iterable[Argument]) -> list[Value]:
    return [argument for argument in inputs if isinstance(argument, Value)]


def _numbers(argument: Argument, code: KnownCode) -> np.ndarray:
    """A parameter with numbers for each axis."""
    array = argument.known_array if isinstance(argument, Value) else argument
    if not isinstance(array, np.ndarray):
        raise Unmapped(f"{code.name}: its parameters must be constants above {MAX_RANK} dimensions")
    return array


# --- each element by itself ----------------------------------------------------------------------------------


def _elementwise(graph: Graph, code: KnownCode, inputs: Sequence[Argument], types: Types) -> list[Value]:
    """Axes along which the same operands broadcast are merged."""
    tensors = _tensors(inputs)
    try:
        shape = broadcast_sizes(*(value.shape for value in tensors))
    except ValueError:
        shapes = " and ".join(str(list(value.shape)) for value in tensors)
        raise Unmapped(f"{code.name}: shapes {shapes} don't broadcast") from None
    if len(tensors) == 1 and tensors[0].origin is not None:
        flat = [tensors[0].origin]  # which has a rank that operations take
    else:
        flat = _merged_operands(graph, tensors, shape)
    rest = iter(flat)
    arguments = [next(rest) if isinstance(argument, Value) else argument for argument in inputs]
    return [graph.reshape(value, shape) for value in graph.emit(code, arguments, types)]


def _looked_up(graph: Graph, code: KnownCode, inputs: Sequence[Argument], types: Types) -> list[Value]:
    """The table, which is the second operand, has its own shape."""
    value, table = _tensors(inputs)
    flat = graph.emit(code, [graph.reshape(value, (value.size,)), table], types)[0]
    return [graph.reshape(flat, value.shape)]


def _merged_operands(graph: Graph, tensors: list[Value], shape: Shape) -> list[Value]:
    """The operands with at most `MAX_RANK` axes. They are repeated where axes can't be merged otherwise: constants
    first, as this costs no operation.
    """
    for repeated in sorted(tensors, key=lambda value: not value.is_constant):
        merged = _merge_broadcast([value.shape for value in tensors], shape)
        if len(merged[0]) <= MAX_RANK:
            break
        tensors = [broadcast(graph, value, shape) if value is repeated else value for value in tensors]
    merged = _merge_broadcast([value.shape for value in tensors], shape)
    return [graph.reshape(value, tuple(sizes)) for value, sizes in zip(tensors, merged, strict=True)]


def _merge_broadcast(shapes: Sequence[Shape], full: Shape) -> list[list[int]]:
    """The shapes with neighbouring axes merged along which the same of them broadcast."""
    padded = [(1,) * (len(full) - len(shape)) + shape for shape in shapes]
    merged: list[list[int]] = [[] for _ in shapes]
    before: tuple[bool, ...] | None = None
    for axis, size in enumerate(full):
        pattern = tuple(shape[axis] == 1 and size != 1 for shape in padded)
        for own, shape in zip(merged, padded, strict=True):
            if before is not None and (size == 1 or pattern == before):
                own[-1] *= shape[axis]
            else:
                own.append(shape[axis])
        before = before if before is not None and size == 1 else pattern
    return merged


def broadcast(graph: Graph, value: Value, shape: Shape) -> Value:
    """The tensor repeated along its axes of size 1 to fill ``shape``, of the same rank or a higher one."""
    if value.is_constant:
        if broadcast_sizes(value.shape, shape) != shape:
            raise Unmapped(f"a tensor of shape {list(value.shape)} can't be broadcast to {list(shape)}")
        assert value.constant is not None
        return graph.computed(value.type.with_dimensions(shape), np.broadcast_to, value.constant)
    value = graph.reshape(value, (1,) * (len(shape) - len(value.shape)) + value.shape)
    for axes in _runs(axis for axis, size in enumerate(shape) if size != value.shape[axis]):
        first, end = axes.start, axes.stop
        sides = math.prod(value.shape[:first]), 1, math.prod(value.shape[end:])
        times = math.prod(shape[first:end])
        rows = graph.reshape(value, sides)
        if value.code is OperandCode.TENSOR_BOOL8:
            false = graph.filled(np.array(False), _BOOL8.with_dimensions((1, times, 1)))
            rows = graph.emit(Op.LOGICAL_OR, [rows, false], [_BOOL8])[0]
        else:
            rows = graph.emit(Op.TILE, [rows, np.array([1, times, 1])], [value.type])[0]
        value = graph.reshape(rows, (*value.shape[:first], *shape[first:end], *value.shape[end:]))
    return value


def _runs(axes: Iterable[int]) -> list[range]:
    """Ascending axes as runs of neighbours."""
    runs: list[range] = []
    for axis in axes:
        if runs and runs[-1].stop == axis:
            runs[-1] = range(runs[-1].start, axis + 1)
        else:
            runs.append(range(axis, axis + 1))
    return runs


# --- along one axis ------------------------------------------------------------------------------------------


def _along(position: int, *, is_new: bool = False, shared: int | None = None) -> Rule:
    """An operation along one axis: the axes before it are merged, and so are those behind it.

    The axis is the argument at ``position``, or the last one where the argument is left out. With ``is_new`` the result
    gets the axis. The argument at ``shared`` does not have these axes.
    """

    def rule(graph: Graph, code: KnownCode, inputs: Sequence[Argument], types: Types) -> list[Value]:
        if position >= len(inputs):
            return _along_last(graph, code, inputs, types)
        arguments, given = list(inputs), inputs[position]
        moved = [index for index, one in enumerate(inputs) if isinstance(one, Value) and index != shared]
        shape = _tensors(inputs[index] for index in moved)[0].shape
        rank = len(shape) + is_new
        if not isinstance(given, int) or not -rank <= given < rank:
            raise Unmapped(f"{code.name}: the axis must be in [{-rank}, {rank}), got {given}")
        axis, end = given % rank, given % rank + (not is_new)
        for index in moved:
            value = inputs[index]
            assert isinstance(value, Value)
            if (value.shape[:axis], value.shape[end:]) != (shape[:axis], shape[end:]):
                raise Unmapped(f"{code.name}: shapes {list(shape)} and {list(value.shape)} differ beside axis {axis}")
            sides = math.prod(value.shape[:axis]), math.prod(value.shape[end:])
            arguments[index] = graph.reshape(value, (sides[0], *value.shape[axis:end], sides[1]))
        arguments[position] = 1
        results = graph.emit(code, arguments, types)
        return [graph.reshape(value, (*shape[:axis], *value.shape[1:-1], *shape[end:])) for value in results]

    return rule


def _along_last(graph: Graph, code: KnownCode, inputs: Sequence[Argument], types: Types) -> list[Value]:
    """An operation on rows."""
    value, *rest = inputs
    assert isinstance(value, Value)
    rows = graph.reshape(value, (math.prod(value.shape[:-1]), value.shape[-1]))
    results = graph.emit(code, [rows, *rest], types)
    return [graph.reshape(result, (*value.shape[:-1], *result.shape[1:])) for result in results]


# --- axis by axis --------------------------------------------------------------------------------------------

Row = tuple[int, ...]
"""The parameters of one axis."""


def _axis_by_axis(
    rows_of: Callable[[KnownCode, Sequence[Argument], Shape], list[Row]],
    whole: Callable[[int], Row],
    arguments: Callable[[np.ndarray, Sequence[Argument]], list[Argument]],
) -> Rule:
    """An operation that is the same as one after the other along each axis.

    ``rows_of`` gives the parameters of each axis, ``whole`` those of an axis of that size that nothing happens to, and
    ``arguments`` the operation's arguments behind the tensor for parameters of all axes.
    """

    def rule(graph: Graph, code: KnownCode, inputs: Sequence[Argument], types: Types) -> list[Value]:
        value = inputs[0]
        assert isinstance(value, Value)
        rows = rows_of(code, inputs, value.shape)
        if len(rows) != len(value.shape):
            raise Unmapped(
                f"{code.name}: there must be parameters for each axis of {list(value.shape)}, got {len(rows)}"
            )
        pending = [axis for axis, (row, size) in enumerate(zip(rows, value.shape, strict=True)) if row != whole(size)]
        while pending:
            count = next(n for n in range(len(pending), 0, -1) if len(_split(value.shape, pending[:n])) <= MAX_RANK)
            groups = _split(value.shape, pending[:count])
            sizes = [math.prod(value.shape[axis] for axis in group) for group in groups]
            numbers = [
                rows[group.start] if group.start in pending[:count] else whole(size)
                for group, size in zip(groups, sizes, strict=True)
            ]
            operands = [graph.reshape(value, tuple(sizes)), *arguments(np.array(numbers), inputs)]
            result = graph.emit(code, operands, types)[0]
            shape = list(value.shape)
            for group, size in zip(groups, result.shape, strict=True):
                if group.start in pending[:count]:
                    shape[group.start] = size
            value, pending = graph.reshape(result, tuple(shape)), pending[count:]
        return [value]

    return rule


def _split(shape: Shape, alone: Sequence[int]) -> list[range]:
    """The axes, each of ``alone`` by itself and neighbours among the others together."""
    groups: list[range] = []
    for axis in range(len(shape)):
        if groups and axis not in alone and groups[-1].start not in alone:
            groups[-1] = range(groups[-1].start, axis + 1)
        else:
            groups.append(range(axis, axis + 1))
    return groups


def _paddings(code: KnownCode, inputs: Sequence[Argument], shape: Shape) -> list[Row]:
    return [tuple(row) for row in _numbers(inputs[1], code).reshape(-1, 2).tolist()]


def _repetitions(code: KnownCode, inputs: Sequence[Argument], shape: Shape) -> list[Row]:
    return [(times,) for times in _numbers(inputs[1], code).reshape(-1).tolist()]


def _boxes(code: KnownCode, inputs: Sequence[Argument], shape: Shape) -> list[Row]:
    begins, sizes = (_numbers(argument, code).reshape(-1).tolist() for argument in inputs[1:3])
    if not len(begins) == len(sizes) == len(shape):
        raise Unmapped(f"{code.name}: begin and size must name each axis of {list(shape)}, got {begins} and {sizes}")
    limits = zip(begins, sizes, shape, strict=True)
    return [(begin, full - begin if size == -1 else size) for begin, size, full in limits]


def _strides(code: KnownCode, inputs: Sequence[Argument], shape: Shape) -> list[Row]:
    begins, ends, strides = (_numbers(argument, code).reshape(-1).tolist() for argument in inputs[1:4])
    begin_mask, end_mask = inputs[4:6]
    assert isinstance(begin_mask, int) and isinstance(end_mask, int)
    return [
        (begin, end, stride, begin_mask >> axis & 1, end_mask >> axis & 1)
        for axis, (begin, end, stride) in enumerate(zip(begins, ends, strides, strict=True))
    ]


def _strided_arguments(rows: np.ndarray, inputs: Sequence[Argument]) -> list[Argument]:
    masks = [int(sum(1 << axis for axis, flag in enumerate(column) if flag)) for column in rows.T[3:]]
    return [*rows.T[:3], *masks, 0]


def _reversed(code: KnownCode, inputs: Sequence[Argument], shape: Shape) -> list[Row]:
    axes = [int(axis) % len(shape) for axis in _numbers(inputs[1], code).reshape(-1)]
    return [(int(axis in axes),) for axis in range(len(shape))]


# --- several axes at once ------------------------------------------------------------------------------------


def _reduction(graph: Graph, code: KnownCode, inputs: Sequence[Argument], types: Types) -> list[Value]:
    """Runs of axes are reduced together. A MEAN of too many runs is one of the last axis, since it rounds once; other
    reductions go run by run.
    """
    value, axes, keeps = inputs
    assert isinstance(value, Value)
    rank, given = len(value.shape), _numbers(axes, code).reshape(-1).tolist()
    if not all(-rank <= axis < rank for axis in given):
        raise Unmapped(f"{code.name}: the axes must be in [{-rank}, {rank}), got {given}")
    reduced = sorted({axis % rank for axis in given})
    kept = [axis for axis in range(rank) if axis not in reduced]
    shape = tuple(1 if axis in reduced else size for axis, size in enumerate(value.shape) if keeps or axis in kept)
    runs = _runs(reduced)
    groups = sorted([*runs, *_runs(kept)], key=lambda run: run.start)
    sizes = tuple(math.prod(value.shape[run.start : run.stop]) for run in groups)
    if len(groups) <= MAX_RANK:
        places = np.array([groups.index(run) for run in runs])
        result = graph.emit(code, [graph.reshape(value, sizes), places, keeps], types)[0]
    elif code in (Op.MEAN, Extended.ROUNDED_MEAN):
        count = math.prod(value.shape[axis] for axis in kept)
        rows = graph.reshape(transposed(graph, value, [*kept, *reduced]), (count, value.size // count))
        result = graph.emit(code, [rows, np.array([1]), keeps], types)[0]
    else:
        result = value
        for run in runs:
            before, behind = math.prod(result.shape[: run.start]), math.prod(result.shape[run.stop :])
            middle = graph.reshape(result, (before, math.prod(result.shape[run.start : run.stop]), behind))
            ones = (*result.shape[: run.start], *[1] * len(run), *result.shape[run.stop :])
            result = graph.reshape(graph.emit(code, [middle, np.array([1]), keeps], types)[0], ones)
    return [graph.reshape(result, shape or (1,))]


def _transposition(graph: Graph, code: KnownCode, inputs: Sequence[Argument], types: Types) -> list[Value]:
    value, order = inputs
    assert isinstance(value, Value)
    return [transposed(graph, value, _numbers(order, code).reshape(-1).tolist())]


def transposed(graph: Graph, value: Value, order: Sequence[int]) -> Value:
    """The tensor with its axes in another order: those that stay neighbours are one axis, and where too many are left,
    they go to their places one by one.
    """
    shape = tuple(value.shape[axis] for axis in order)
    runs = _stretches([axis for axis in order if value.shape[axis] != 1])
    axes = sorted(runs)
    sizes = {run: math.prod(value.shape[axis] for axis in run) for run in runs}
    value = graph.reshape(value, tuple(sizes[run] for run in axes) or (1,))
    if len(runs) > MAX_RANK:
        for place, run in enumerate(runs):
            now = axes.index(run)
            if now == place:
                continue
            parts = axes[:place], axes[place:now], axes[now : now + 1], axes[now + 1 :]
            value = graph.reshape(value, tuple(math.prod(sizes[one] for one in part) for part in parts))
            value = graph.emit(Op.TRANSPOSE, [value, np.array([0, 2, 1, 3])], [value.type])[0]
            axes.insert(place, axes.pop(now))
    elif len(runs) > 1:
        value = graph.emit(Op.TRANSPOSE, [value, np.array([axes.index(run) for run in runs])], [value.type])[0]
    return graph.reshape(value, shape)


def _stretches(order: Sequence[int]) -> list[tuple[int, ...]]:
    """Axes in a new order, cut where the next one was not the next before; there are none of size 1 among them."""
    before = sorted(order)
    stretches: list[tuple[int, ...]] = []
    for axis in order:
        place = before.index(axis)
        if stretches and place and before[place - 1] == stretches[-1][-1]:
            stretches[-1] += (axis,)
        else:
            stretches.append((axis,))
    return stretches


# --- by rows and keys ----------------------------------------------------------------------------------------


def _gather(graph: Graph, code: KnownCode, inputs: Sequence[Argument], types: Types) -> list[Value]:
    """The axes of batches are one, and so are those of a slice; so are those that indices name if they are too many."""
    source, indices = _tensors(inputs)
    batch = inputs[2] if len(inputs) > 2 else 0
    assert isinstance(batch, int)
    depth, outer = indices.shape[-1], source.shape[:batch]
    sizes, inner = source.shape[batch : batch + depth], source.shape[batch + depth :]
    batches = (math.prod(outer),) if batch else ()
    places = graph.reshape(indices, (indices.size // depth, depth))
    if len(batches) + depth + 1 > MAX_RANK:
        places, sizes = _flat_places(graph, places, sizes), (math.prod(sizes),)
    rows = places.shape[0] // math.prod(batches)
    slices = graph.reshape(source, (*batches, *sizes, math.prod(inner)))
    places = graph.reshape(places, (*batches, rows, places.shape[-1]))
    result = graph.emit(code, [slices, places, len(batches)], types)[0]
    return [graph.reshape(result, (*indices.shape[:-1], *inner) or (1,))]


def _scatter(graph: Graph, code: KnownCode, inputs: Sequence[Argument], types: Types) -> list[Value]:
    """The axes behind those that the indices name are one; so are these where there are too many of them."""
    tensors = _tensors(inputs)
    is_over_base = isinstance(inputs[-1], int)  # the reduction; else it is the shape of the result
    indices, updates = tensors[1:3] if is_over_base else tensors[:2]
    shape = tensors[0].shape if is_over_base else tuple(_numbers(inputs[2], code).reshape(-1).tolist())
    depth = indices.shape[-1]
    count, inner = indices.size // depth, math.prod(shape[depth:])
    places, sizes = graph.reshape(indices, (count, depth)), shape[:depth]
    if depth >= MAX_RANK:
        places, sizes = _flat_places(graph, places, sizes), (math.prod(sizes),)
    slices = graph.reshape(updates, (count, inner))
    if is_over_base:
        base = graph.reshape(tensors[0], (*sizes, inner))
        result = graph.emit(code, [base, places, slices, inputs[-1]], types)[0]
    else:
        result = graph.emit(code, [places, slices, np.array((*sizes, inner))], types)[0]
    return [graph.reshape(result, shape)]


def _flat_places(graph: Graph, places: Value, sizes: Shape) -> Value:
    """Rows of indices, which may count from the end, as places in one axis; behind it where one is out of range."""

    def each(code: OperationCode, one: Value, other: Value | int, type_: OperandType, *rest: int) -> Value:
        if isinstance(other, int):
            other = graph.filled(np.array(other, np.int32), _I32.with_dimensions((1, 1)))
        return graph.emit(code, [one, other, *rest], [type_])[0]

    count, depth = places.shape
    columns = graph.emit(Op.SPLIT, [places, 1, depth], [_I32] * depth)
    ones, zeros, beyond = (
        graph.filled(np.array(number, np.int32), _I32.with_dimensions((count, 1)))
        for number in (1, 0, math.prod(sizes))
    )
    flat, are_inside = zeros, graph.filled(np.array(True), _BOOL8.with_dimensions((count, 1)))
    for column, size in zip(columns, sizes, strict=True):
        inside = each(
            Op.LOGICAL_AND, each(Op.LESS, column, size, _BOOL8), each(Op.GREATER_EQUAL, column, -size, _BOOL8), _BOOL8
        )
        are_inside = each(Op.LOGICAL_AND, are_inside, inside, _BOOL8)
        is_from_end = graph.emit(Op.SELECT, [each(Op.LESS, column, 0, _BOOL8), ones, zeros], [_I32])[0]
        from_start = each(Op.ADD, column, each(Op.MUL, is_from_end, size, _I32, _NONE), _I32, _NONE)
        flat = each(Op.ADD, each(Op.MUL, flat, size, _I32, _NONE), from_start, _I32, _NONE)
    return graph.emit(Op.SELECT, [are_inside, flat, beyond], [_I32])[0]


def _rows(graph: Graph, code: KnownCode, inputs: Sequence[Argument], types: Types) -> list[Value]:
    """A look-up of rows in the last tensor, whose other axes are one."""
    *keys, table = _tensors(inputs)
    count, rest = table.shape[0], table.shape[1:]
    found, *hits = graph.emit(code, [*keys, graph.reshape(table, (count, math.prod(rest)))], types)
    return [graph.reshape(found, (*found.shape[:1], *rest)), *hits]


_RULES: Mapping[KnownCode, Rule] = {
    **dict.fromkeys(
        (
            *(Op.ABS, Op.ADD, Op.CAST, Op.DEQUANTIZE, Op.DIV, Op.ELU, Op.EQUAL, Op.EXP, Op.FLOOR, Op.GREATER),
            *(Op.GREATER_EQUAL, Op.HARD_SWISH, Op.LESS, Op.LESS_EQUAL, Op.LOG, Op.LOGICAL_AND, Op.LOGICAL_NOT),
            *(Op.LOGICAL_OR, Op.LOGISTIC, Op.MAXIMUM, Op.MINIMUM, Op.MUL, Op.NEG, Op.NOT_EQUAL, Op.POW, Op.PRELU),
            *(Op.QUANTIZE, Op.RELU, Op.RELU1, Op.RELU6, Op.RSQRT, Op.SELECT, Op.SIN, Op.SQRT, Op.SUB, Op.TANH),
            *(Extended.ADD_INT64, Extended.COMPARE_INT64, Extended.DIV_INT64, Extended.ERF, Extended.FLOAT_TO_INT64),
            *(Extended.GELU, Extended.INT64_TO_FLOAT, Extended.INT64_TO_INT32, Extended.MUL_INT64),
            *(Extended.QUANTIZE_TIES_TO_EVEN, Extended.SUB_INT64),
            *(Extended.ACOS, Extended.ACOSH, Extended.ASIN, Extended.ASINH, Extended.ATAN, Extended.ATAN2),
            *(Extended.ATANH, Extended.CBRT, Extended.COS, Extended.COSH, Extended.FLOOR_DIV, Extended.FLOOR_MOD),
            *(Extended.FMOD, Extended.MISH, Extended.SINH, Extended.SOFTPLUS, Extended.SWISH, Extended.TAN),
        ),
        _elementwise,
    ),
    **dict.fromkeys((Op.ARGMAX, Op.ARGMIN, Op.SPLIT), _along(1)),
    **dict.fromkeys((Op.SOFTMAX, Op.LOG_SOFTMAX), _along(2)),
    Op.CONCATENATION: _along(-1),
    Op.GATHER: _along(1, shared=2),
    Op.L2_NORMALIZATION: _along(1),
    Op.LOCAL_RESPONSE_NORMALIZATION: _along(5),
    Op.PACK: _along(0, is_new=True),
    Op.TOPK_V2: _along_last,
    **dict.fromkeys(
        (Op.PAD, Op.PAD_V2, Op.MIRROR_PAD),
        _axis_by_axis(_paddings, lambda size: (0, 0), lambda rows, inputs: [rows, *inputs[2:]]),
    ),
    Op.REVERSE: _axis_by_axis(_reversed, lambda size: (0,), lambda rows, inputs: [np.flatnonzero(rows[:, 0])]),
    Op.SLICE: _axis_by_axis(_boxes, lambda size: (0, size), lambda rows, inputs: [*rows.T]),
    Op.STRIDED_SLICE: _axis_by_axis(_strides, lambda size: (0, size, 1, 0, 0), _strided_arguments),
    Op.TILE: _axis_by_axis(_repetitions, lambda size: (1,), lambda rows, inputs: [rows[:, 0]]),
    Extended.TABLE_LOOKUP: _looked_up,
    **dict.fromkeys((Op.MEAN, Op.REDUCE_ALL, Op.REDUCE_ANY, Extended.ROUNDED_MEAN), _reduction),
    **dict.fromkeys((Op.REDUCE_MAX, Op.REDUCE_MIN, Op.REDUCE_PROD, Op.REDUCE_SUM), _reduction),
    Op.TRANSPOSE: _transposition,
    Extended.GATHER_ND: _gather,
    Extended.SCATTER_ND: _scatter,
    **dict.fromkeys((Op.EMBEDDING_LOOKUP, Op.HASHTABLE_LOOKUP), _rows),
}
"""How each operation is lowered. Those that are missing are defined for at most `MAX_RANK` dimensions."""
