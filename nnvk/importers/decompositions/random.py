"""Random real numbers, from the generator of RANDOM_MULTINOMIAL."""

from __future__ import annotations

import math

from nnvk.importers.decompositions.arithmetic import each, with_number
from nnvk.importers.decompositions.moving import sliced
from nnvk.importers.emitter import F32, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode
_CLASSES = 4096
"""The equally likely classes of a draw. Two draws make a number with as many bits as a FLOAT32's mantissa has."""
_MOST_DRAWS = 1 << 24


def uniform(c: Emitter, count: int, seeds: Value, parts: int = 1) -> list[Value]:
    """Random numbers of (0, 1) in several tensors of ``count`` each. Two seeds of 0 give others in every execution."""
    draws = 2 * parts * count
    if draws > _MOST_DRAWS:
        raise Unmapped(f"{count} random numbers are too many at once")
    drawn = c.emit(Op.RANDOM_MULTINOMIAL, c.filled(0.0, F32, (1, _CLASSES)), draws, seeds, out=I32)
    whole = c.reshape(c.emit(Op.CAST, drawn, out=F32), (2 * parts, count))
    rows = [c.reshape(sliced(c, whole, (range(row, row + 1), range(count))), (count,)) for row in range(2 * parts)]
    found = []
    for high, low in zip(rows[::2], rows[1::2], strict=True):
        # Sums of 2^-12 and 2^-24 times whole numbers are exact. Half a last bit keeps them from 0 and 1.
        fine = with_number(c, Op.ADD, with_number(c, Op.MUL, low, 1 / _CLASSES**2, NONE), 0.5 / _CLASSES**2, NONE)
        found.append(c.emit(Op.ADD, with_number(c, Op.MUL, high, 1 / _CLASSES, NONE), fine, NONE, out=F32))
    return found


def normal(c: Emitter, count: int, seeds: Value) -> Value:
    """Random numbers of the standard normal distribution: the Box-Muller transform of two uniform ones."""
    size, angle = uniform(c, count, seeds, 2)
    radius = each(c, Op.SQRT, with_number(c, Op.MUL, each(c, Op.LOG, size), -2.0, NONE))
    turn = each(c, ExtendedOperationCode.COS, with_number(c, Op.MUL, angle, 2 * math.pi, NONE))
    return c.emit(Op.MUL, radius, turn, NONE, out=F32)
