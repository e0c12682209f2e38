"""Non-maximum suppression that says which boxes were picked, as NNAPI's operations do not: a WHILE of arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nnvk.api import Model
from nnvk.importers.emitter import BOOL8, F32, I32, NONE, Emitter
from nnvk.importers.graph import Value
from nnvk.importers.idioms.elementwise import chosen, joint, with_number
from nnvk.importers.idioms.moving import gathered
from nnvk.types.codes import OperationCode

Op = OperationCode

_DEAD = float(np.finfo(np.float32).min)
"""The score of a box that was picked or suppressed."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Edges of boxes, each [batches, 1, boxes] and real; low ones are not above high ones."""

    top: Value
    left: Value
    bottom: Value
    right: Value

    def sides(self) -> tuple[Value, ...]:
        """All four."""
        return self.top, self.left, self.bottom, self.right


def from_corners(c: Emitter, one: tuple[Value, Value], other: tuple[Value, Value]) -> Boxes:
    """Boxes by two corners across from each other, each by its place from top to bottom and from left to right."""
    low = [joint(c, Op.MINIMUM, a, b, out=F32) for a, b in zip(one, other, strict=True)]
    high = [joint(c, Op.MAXIMUM, a, b, out=F32) for a, b in zip(one, other, strict=True)]
    return Boxes(*low, *high)


def from_centres(c: Emitter, centre: tuple[Value, Value], size: tuple[Value, Value]) -> Boxes:
    """Boxes by their centre and size."""
    half = [with_number(c, Op.MUL, one, 0.5, NONE) for one in size]
    low = [joint(c, Op.SUB, place, part, NONE, out=F32) for place, part in zip(centre, half, strict=True)]
    high = [joint(c, Op.ADD, place, part, NONE, out=F32) for place, part in zip(centre, half, strict=True)]
    return Boxes(*low, *high)


def picked(
    c: Emitter, boxes: Boxes, scores: Value, most: int, overlap: Value, least: Value | None, *, suppresses: Op
) -> Value:
    """Boxes of each batch and class by falling scores, as INT32 [batches, classes, most], and -1 behind the last one.

    ``scores`` are [batches, classes, boxes]. Those count that are above ``least``. A box is none once its area shared
    with one that was picked, by the area of both, ``suppresses`` (GREATER or GREATER_EQUAL) ``overlap``. Of equal
    scores the first one is picked first. ``least`` and ``overlap`` are one number each.
    """
    alive = scores
    bound = c.constant(_DEAD, F32) if least is None else least
    is_candidate = joint(c, Op.GREATER, scores, bound, out=BOOL8)
    alive = chosen(c, is_candidate, scores, c.constant(_DEAD, F32))
    none = c.filled(-1, I32, (*scores.shape[:2], most))
    start = c.constant(0, I32)
    carried = [alive, none, start]
    given = [*carried, *boxes.sides(), _area(c, boxes), overlap]
    condition = _model(c, given, lambda inner, values: [_goes_on(inner, values[0], values[2], most)])
    body = _model(c, given, lambda inner, values: _turn(inner, values, suppresses))
    outs = [value.type for value in carried]
    return c.emit_many(Op.WHILE, condition, body, *given, outs=outs)[1]


def _area(c: Emitter, boxes: Boxes) -> Value:
    height = joint(c, Op.SUB, boxes.bottom, boxes.top, NONE, out=F32)
    width = joint(c, Op.SUB, boxes.right, boxes.left, NONE, out=F32)
    return joint(c, Op.MUL, height, width, NONE, out=F32)


def _model(c: Emitter, given: list[Value], make: Callable[[Emitter, list[Value]], list[Value]]) -> Model:
    inner = Emitter(c.graph.inner())
    inputs = [inner.graph.input(value.type) for value in given]
    return inner.graph.finish(make(inner, inputs), [f"input {place}" for place in range(len(inputs))])


def _goes_on(c: Emitter, alive: Value, turn: Value, most: int) -> Value:
    """Whether there is a box left, and room for it."""
    best = c.emit(Op.REDUCE_MAX, c.reshape(alive, (1, alive.size)), np.array([1]), False, out=F32)
    is_left = joint(c, Op.GREATER, best, c.constant(_DEAD, F32), out=BOOL8)
    return joint(c, Op.LOGICAL_AND, is_left, joint(c, Op.LESS, turn, c.constant(most, I32), out=BOOL8), out=BOOL8)


def _turn(c: Emitter, values: list[Value], suppresses: Op) -> list[Value]:
    """The best box of each batch and class is picked, and what it suppresses is none."""
    alive, picks, turn, *sides, area, overlap = values
    batches, classes, count = alive.shape
    best = c.emit(Op.ARGMAX, alive, 2, out=I32)
    top = c.emit(Op.REDUCE_MAX, alive, np.array([2]), True, out=F32)
    is_one = joint(c, Op.GREATER, top, c.constant(_DEAD, F32), out=BOOL8)
    firsts = c.constant(np.arange(batches).reshape(batches, 1) * count, I32)
    places = joint(c, Op.ADD, best, firsts, NONE, out=I32)
    own = [
        c.reshape(gathered(c, c.reshape(one, (batches * count,)), 0, places), (batches, classes, 1))
        for one in (*sides, area)
    ]
    shared: Value | None = None
    for low, high in ((0, 2), (1, 3)):
        end = joint(c, Op.MINIMUM, sides[high], own[high], out=F32)
        begin = joint(c, Op.MAXIMUM, sides[low], own[low], out=F32)
        length = with_number(c, Op.MAXIMUM, joint(c, Op.SUB, end, begin, NONE, out=F32), 0.0)
        shared = length if shared is None else joint(c, Op.MUL, shared, length, NONE, out=F32)
    assert shared is not None
    both = joint(c, Op.SUB, joint(c, Op.ADD, area, own[4], NONE, out=F32), shared, NONE, out=F32)
    quotient = joint(c, Op.DIV, shared, both, NONE, out=F32)
    meets = joint(c, Op.GREATER, shared, c.constant(0.0, F32), out=BOOL8)
    goes = joint(c, Op.LOGICAL_AND, meets, joint(c, suppresses, quotient, overlap, out=BOOL8), out=BOOL8)
    column = c.reshape(best, (batches, classes, 1))
    itself = joint(c, Op.EQUAL, column, c.constant(np.arange(count).reshape(1, 1, count), I32), out=BOOL8)
    alive = chosen(c, joint(c, Op.LOGICAL_OR, goes, itself, out=BOOL8), c.constant(_DEAD, F32), alive)
    number = c.emit(Op.SELECT, is_one, column, c.filled(-1, I32, column.shape), out=I32)
    numbers = c.constant(np.arange(picks.shape[2]).reshape(1, 1, picks.shape[2]), I32)
    picks = chosen(c, joint(c, Op.EQUAL, numbers, turn, out=BOOL8), number, picks)
    return [alive, picks, with_number(c, Op.ADD, turn, 1, NONE)]
