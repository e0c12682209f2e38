"""Cumulative sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnvk.importers import charged
from nnvk.importers.bounds import union
from nnvk.importers.decompositions.int64 import Number, Words, combined, moved
from nnvk.importers.emitter import F32, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.types.codes import OperandCode, OperationCode

Op = OperationCode


def cumulative(c: Emitter, source: Value, axis: int, *, exclusive: bool, reverse: bool) -> Value:
    """The sums of all elements up to each one, or of those before it; those of INT32 come round.

    Each element and the one before it, then each pair and the pair before it, and so on: log2 of the size operations.
    """
    if source.code not in (F32.code, OperandCode.TENSOR_FLOAT16, I32.code):
        raise Unmapped(f"NNAPI sums no {source.type}")

    def together(first: Number, second: Number) -> Number:
        assert isinstance(first, Value) and isinstance(second, Value)
        return c.emit(Op.ADD, first, second, NONE, out=source.type)

    found = _cumulative(c, together, source, axis, exclusive, reverse)
    assert isinstance(found, Value)
    return found


def cumulative_exactly(c: Emitter, source: Number, axis: int, *, exclusive: bool, reverse: bool) -> Number:
    """`cumulative` of integers of up to 64 bits."""
    return _cumulative(c, lambda *pair: combined(c, Op.ADD, *pair), source, axis, exclusive, reverse)


def _cumulative(
    c: Emitter,
    together: Callable[[Number, Number], Number],
    source: Number,
    axis: int,
    exclusive: bool,
    reverse: bool,
) -> Number:
    def turned(number: Number) -> Number:
        return moved(c, lambda word: c.keep(Op.REVERSE, word, np.array([1])), number) if reverse else number

    total = turned(moved(c, lambda word: c.around(word, axis), source))
    size = total.shape[1]
    if exclusive:
        total = _delayed(c, total, 1)
    distance = 1
    while distance < size:
        total = together(total, _delayed(c, total, distance))
        distance *= 2
    return moved(c, lambda word: c.reshape(word, source.shape), turned(total))


def _delayed(c: Emitter, number: Number, distance: int) -> Number:
    """Shift elements by ``distance`` along axis 1 of three, and fill the beginning with 0."""
    if isinstance(number, Value):
        return _delayed_word(c, number, distance)
    low, high = (_delayed_word(c, word, distance) for word in (number.low, number.high))
    return Words(low, high, union(number.bounds, (0, 0)))


def _delayed_word(c: Emitter, value: Value, distance: int) -> Value:
    """Shift the elements of one word by ``distance`` along axis 1 of three, and fill the beginning with 0."""
    before, size, behind = value.shape
    if distance >= size:
        return c.filled(0, value.type, value.shape)
    if value.code is not I32.code:
        kept = c.keep(Op.SLICE, value, charged.zeros(3), np.array([before, size - distance, behind]))
        return c.keep(Op.PAD, kept, np.array([[0, 0], [distance, 0], [0, 0]]))
    # NNAPI pads no integers: they are picked, and multiplied with 0 where there are none.
    places = c.whole_numbers((size,), (0, size - distance - 1), _places_before, size, distance)
    is_there = c.whole_numbers((1, size, 1), (0, 1), _are_there, size, distance)
    return c.emit(Op.MUL, c.keep(Op.GATHER, value, 1, places), is_there, NONE, out=I32)


def _places_before(size: int, distance: int) -> np.ndarray:
    return np.maximum(charged.arange(size) - distance, 0)


def _are_there(size: int, distance: int) -> np.ndarray:
    return (charged.arange(size) >= distance).astype(np.int32).reshape(1, size, 1)
