"""Axes folded into one element, of numbers of any kind."""

from __future__ import annotations

import numpy as np

from nnvk.importers.emitter import BOOL8, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph import MAX_RANK, Value
from nnvk.importers.idioms.elementwise import truncated_quotient
from nnvk.importers.idioms.moving import merged, sliced
from nnvk.types.codes import OperationCode

Op = OperationCode

_PAIRS = {
    Op.REDUCE_MAX: (Op.MAXIMUM, ()),
    Op.REDUCE_MIN: (Op.MINIMUM, ()),
    Op.REDUCE_PROD: (Op.MUL, (NONE,)),
    Op.REDUCE_SUM: (Op.ADD, (NONE,)),
}
"""What whole numbers are reduced with, pair by pair: NNAPI has the operations for real ones only."""
_TRUTH = {Op.REDUCE_MAX: Op.REDUCE_ANY, Op.REDUCE_MIN: Op.REDUCE_ALL}


def folded(c: Emitter, code: Op, value: Value, axes: list[int]) -> Value:
    """A reduction that keeps the axes, of size 1."""
    if not axes:
        return value
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(value.shape))
    if value.code is I32.code:
        return _of_integers(c, code, value, axes)
    if value.code is BOOL8.code:
        if code not in _TRUTH:
            raise Unmapped(f"NNAPI has no {code.name} of booleans")
        code = _TRUTH[code]
    flag = 1 if code is Op.MEAN else True  # MEAN takes INT32, the others BOOL
    if len(value.shape) <= MAX_RANK:
        return c.keep(code, value, np.array(axes), flag)
    sizes, runs = merged(value.shape, set(axes))
    return c.reshape(c.keep(code, c.reshape(value, sizes), np.array(runs), flag), shape)


def _of_integers(c: Emitter, code: Op, value: Value, axes: list[int]) -> Value:
    """Halves of an axis with each other, until one element is left."""
    if code is Op.MEAN:
        total = _of_integers(c, Op.REDUCE_SUM, value, axes)
        return truncated_quotient(c, total, c.constant(value.size // total.size, I32))
    pair, fused = _PAIRS[code]
    shape = value.shape
    for axis in axes:
        value = c.around(value, axis)
        while (size := value.shape[1]) > 1:
            half, ends = size // 2, (range(value.shape[0]), range(value.shape[2]))
            first = sliced(c, value, (ends[0], range(half), ends[1]))
            second = sliced(c, value, (ends[0], range(half, 2 * half), ends[1]))
            both = c.emit(pair, first, second, *fused, out=I32)
            if size % 2:
                last = sliced(c, value, (ends[0], range(size - 1, size), ends[1]))
                head = sliced(c, both, (ends[0], range(1), ends[1])) if half > 1 else both
                together = c.emit(pair, head, last, *fused, out=I32)
                if half > 1:
                    value = _joined(c, together, sliced(c, both, (ends[0], range(1, half), ends[1])))
                    continue
                both = together
            value = both
        shape = (*shape[:axis], 1, *shape[axis + 1 :])
        value = c.reshape(value, shape)
    return value


def _joined(c: Emitter, first: Value, second: Value) -> Value:
    count = second.shape[1]
    pieces = c.emit_many(Op.SPLIT, second, 1, count, outs=[I32] * count) if count > 1 else [second]
    flat = [c.reshape(piece, (first.shape[0], first.shape[2])) for piece in (first, *pieces)]
    return c.emit(Op.PACK, 1, *flat, out=I32)
