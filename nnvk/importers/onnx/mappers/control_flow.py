"""IF, and loops that are unrolled."""

from __future__ import annotations

import numpy as np

from nnvk.base.sizes import everything
from nnvk.importers.decompositions.moving import strided
from nnvk.importers.errors import Unmapped
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor, constant

_MOST_TURNS = 1024


@operator("If")
def if_(c: Context) -> list[Tensor]:
    """Map If. If the condition is known, its branch becomes part of this graph, otherwise of NNAPI's IF."""
    then, other = c.node.graph("then_branch"), c.node.graph("else_branch")
    condition = c.tensor()
    if condition.size != 1 or condition.dtype != np.bool_:
        raise Unmapped(f"the condition must be one boolean, got {condition.dtype} {list(condition.shape)}")
    if condition.is_constant:
        return c.outside.inlined(then if condition.array.reshape(()) else other, [])
    return c.outside.choice(c.reshape(c.value(), (1,)), (then, other))


@operator("Loop")
def loop(c: Context) -> list[Tensor]:
    """Map Loop by unrolling. The trip count must be known, and the condition must be constant in every iteration."""
    body = c.node.graph("body")
    count = _MOST_TURNS + 1
    if c.has(0):
        count = max(0, int(c.scalar(0, "the trip count")))
    condition = c.tensor(1) if c.has(1) else constant(np.array(True))
    state = [c.tensor(position) for position in range(2, len(c.inputs))]
    carried = len(state)
    collected: list[list[Tensor]] = [[] for _ in range(len(body.output) - 1 - carried)]
    for turn in range(count):
        if not condition.is_constant:
            raise Unmapped("NNAPI's loops carry no such tensors, and the condition is not known at import")
        if not condition.array.reshape(()):
            break
        if turn == _MOST_TURNS:
            raise Unmapped(f"a loop of more than {_MOST_TURNS} turns is too long to unroll")
        results = c.outside.inlined(body, [constant(np.array(turn, np.int64)), condition, *state])
        condition, state = results[0], results[1 : 1 + carried]
        for rows, one in zip(collected, results[1 + carried :], strict=True):
            rows.append(one)
    return [*state, *(_stacked(c, rows, 0) for rows in collected)]


@operator("Scan")
def scan(c: Context) -> list[Tensor]:
    """Map Scan by unrolling, along each input's axis."""
    body, count = c.node.graph("body"), c.node.integer("num_scan_inputs", 0)
    if c.node.version < 9:
        raise Unmapped("the oldest form of this operator, with batches, is unknown here")
    tensors = c.tensors()
    state, rows = tensors[: len(tensors) - count], tensors[len(tensors) - count :]
    axes = c.node.integers("scan_input_axes") or [0] * count
    turned = c.node.integers("scan_input_directions") or [0] * count
    if not rows:
        raise Unmapped("there must be an input to go along")
    axes = [axis % row.rank for axis, row in zip(axes, rows, strict=True)]
    turns = rows[0].shape[axes[0]]
    if turns > _MOST_TURNS or any(row.shape[axis] != turns for axis, row in zip(axes, rows, strict=True)):
        raise Unmapped(f"the inputs must be of one length of {_MOST_TURNS} at most")
    collected: list[list[Tensor]] = [[] for _ in range(len(body.output) - len(state))]
    for turn in range(turns):
        given = [
            _taken(c, row, axis, turns - 1 - turn if back else turn)
            for row, axis, back in zip(rows, axes, turned, strict=True)
        ]
        results = c.outside.inlined(body, [*state, *given])
        state = results[: len(state)]
        for kept, one in zip(collected, results[len(state) :], strict=True):
            kept.append(one)
    out_axes = c.node.integers("scan_output_axes") or [0] * len(collected)
    out_turned = c.node.integers("scan_output_directions") or [0] * len(collected)
    stacked = [
        _stacked(c, kept[::-1] if back else kept, axis)
        for kept, axis, back in zip(collected, out_axes, out_turned, strict=True)
    ]
    return [*state, *stacked]


def _taken(c: Context, tensor: Tensor, axis: int, place: int) -> Tensor:
    shape = (*tensor.shape[:axis], *tensor.shape[axis + 1 :])
    if tensor.is_constant:
        return constant(np.take(tensor.array, place, axis))
    taken = everything(tensor.shape)
    taken[axis] = range(place, place + 1)
    return c.give(strided(c, c.carried(tensor), taken), shape, tensor.dtype)


def _stacked(c: Context, rows: list[Tensor], axis: int) -> Tensor:
    """The results of the iterations, along a new axis."""
    if not rows:
        raise Unmapped("a loop without turns gives nothing")
    axis %= rows[0].rank + 1
    if all(row.is_constant for row in rows):
        return constant(np.stack([row.array for row in rows if row.is_constant], axis))
    shape = rows[0].shape
    if any(row.shape != shape or row.extent is not None for row in rows):
        raise Unmapped("what a loop gives in each turn must be of one shape")
    values = [c.reshape(c.plain(row), (*shape[:axis], 1, *shape[axis:])) for row in rows]
    whole = joined(c, values, axis) if len(values) > 1 else values[0]
    return c.give(whole, (*shape[:axis], len(rows), *shape[axis:]), rows[0].dtype)


# --- optional values -----------------------------------------------------------------------------------------


@operator("OptionalHasElement")
def optional_has_element(c: Context) -> Tensor:
    """Map OptionalHasElement of a tensor, or of nothing: a constant."""
    return constant(np.array(c.has(0)))


@operator("OptionalGetElement")
def optional_get_element(c: Context) -> Tensor:
    """Map OptionalGetElement of a tensor, which is the tensor itself."""
    return c.tensor()
