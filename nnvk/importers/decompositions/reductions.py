"""Reductions of tensors of any type."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnvk.importers.decompositions.arithmetic import truncated_quotient
from nnvk.importers.decompositions.int64 import Number, combined, extreme, moved
from nnvk.importers.decompositions.moving import sliced
from nnvk.importers.emitter import BOOL8, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.types.codes import OperationCode

Op = OperationCode

_PAIRS = {
    Op.REDUCE_MAX: (Op.MAXIMUM, ()),
    Op.REDUCE_MIN: (Op.MINIMUM, ()),
    Op.REDUCE_PROD: (Op.MUL, (NONE,)),
    Op.REDUCE_SUM: (Op.ADD, (NONE,)),
}
"""The operations that reduce integers pair by pair, because NNAPI only reduces floats."""
_TRUTH = {Op.REDUCE_MAX: Op.REDUCE_ANY, Op.REDUCE_MIN: Op.REDUCE_ALL}


def folded(c: Emitter, code: Op, value: Value, axes: list[int]) -> Value:
    """Add a reduction that keeps its axes with size 1."""
    if not axes:
        return value
    if value.code is I32.code:
        return _of_integers(c, code, value, axes)
    if value.code is BOOL8.code:
        if code not in _TRUTH:
            raise Unmapped(f"NNAPI has no {code.name} of booleans")
        code = _TRUTH[code]
    flag = 1 if code is Op.MEAN else True  # MEAN takes INT32, the others BOOL
    return c.keep(code, value, np.array(axes), flag)


def folded_exactly(c: Emitter, code: Op, number: Number, axes: list[int]) -> Number:
    """`folded`, of whole numbers of up to 64 bits."""
    if not axes:
        return number
    if code is Op.MEAN:
        total = folded_exactly(c, Op.REDUCE_SUM, number, axes)
        return combined(c, Op.DIV, total, c.constant(_count(number, total), I32))
    pair, _ = _PAIRS[code]
    join = extreme if code in _TRUTH else combined
    return _by_halves(c, lambda first, second: join(c, pair, first, second), number, axes)


def _of_integers(c: Emitter, code: Op, value: Value, axes: list[int]) -> Value:
    """Reduce INT32 numbers, which wrap."""
    if code is Op.MEAN:
        total = _of_integers(c, Op.REDUCE_SUM, value, axes)
        return truncated_quotient(c, total, c.constant(_count(value, total), I32))
    pair, fused = _PAIRS[code]

    def join(first: Number, second: Number) -> Number:
        assert isinstance(first, Value) and isinstance(second, Value)
        return c.emit(pair, first, second, *fused, out=I32)

    found = _by_halves(c, join, value, axes)
    assert isinstance(found, Value)
    return found


def _count(source: Number, total: Number) -> int:
    """The number of elements that were reduced to each result."""
    return math.prod(source.shape) // math.prod(total.shape)


def _by_halves(c: Emitter, join: Callable[[Number, Number], Number], number: Number, axes: list[int]) -> Number:
    """Combine the two halves of an axis until one element is left. An odd one is combined at the end."""

    def part(source: Number, taken: range) -> Number:
        ends = range(source.shape[0]), range(source.shape[2])
        return moved(c, lambda word: sliced(c, word, (ends[0], taken, ends[1])), source)

    shape = number.shape
    for axis in axes:
        number = moved(c, lambda word, axis=axis: c.around(word, axis), number)
        waiting = []
        while (size := number.shape[1]) > 1:
            half = size // 2
            if size % 2:
                waiting.append(part(number, range(size - 1, size)))
            number = join(part(number, range(half)), part(number, range(half, 2 * half)))
        for last in waiting:
            number = join(number, last)
        shape = (*shape[:axis], 1, *shape[axis + 1 :])
        number = moved(c, lambda word, shape=shape: c.reshape(word, shape), number)
    return number
