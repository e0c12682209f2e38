"""Tensors of which data decide how many elements count: as large as they can get, with those that count in front.

NNAPI's operations need sizes that are known when a model is compiled, but for a few; so an importer carries what cannot
be known as a number beside the tensor, and cuts the tensor where it is an output of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.importers.emitter import BOOL8, F32, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph import MAX_RANK, Value
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import Shape

Op = OperationCode

_MOST = 1 << 24
"""Up to so many, elements are counted by real numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """How many elements along an axis count."""

    axis: int
    count: Value
    """INT32 [1]."""

    def on(self, axis: int) -> Counted:
        """As many along another axis."""
        return Counted(axis, self.count)


def true_first(c: Emitter, flags: Value) -> tuple[Value, Value]:
    """The places of all elements of a row of booleans, those of true ones first, and how many of these there are."""
    size = flags.size
    if size > _MOST:
        raise Unmapped(f"{size} elements are too many to be counted")
    numbers = c.constant(np.arange(size), I32)
    weight = c.emit(Op.MUL, c.as_number(flags, I32), c.constant(size, I32), NONE, out=I32)
    keys = c.emit(Op.SUB, weight, numbers, NONE, out=I32)
    places = c.emit_many(Op.TOPK_V2, keys, size, outs=[I32, I32])[1]
    total = c.emit(Op.REDUCE_SUM, c.as_number(flags, F32), np.array([0]), True, out=F32)
    return places, c.emit(Op.CAST, total, out=I32)


def coordinates(c: Emitter, places: Value, shape: Shape) -> list[Value]:
    """Places in the order of memory as one index for each axis."""
    found = []
    for axis, size in enumerate(shape):
        stride = int(np.prod(shape[axis + 1 :], dtype=np.int64))
        part = places if stride == 1 else c.emit(Op.DIV, places, c.constant(stride, I32), NONE, out=I32)
        if axis:
            turns = c.emit(Op.DIV, part, c.constant(size, I32), NONE, out=I32)
            whole = c.emit(Op.MUL, turns, c.constant(size, I32), NONE, out=I32)
            part = c.emit(Op.SUB, part, whole, NONE, out=I32)
        found.append(part)
    return found


def sizes_of(c: Emitter, shape: Shape, counted: Counted) -> Value:
    """The shape of a counted tensor as INT32 that the model computes."""
    place = np.arange(len(shape)) == counted.axis
    asked = c.emit(Op.MUL, counted.count, c.constant(place.astype(np.int32), I32), NONE, out=I32)
    return c.emit(Op.ADD, asked, c.constant(np.where(place, 0, shape), I32), NONE, out=I32)


def cut(c: Emitter, value: Value, counted: Counted) -> Value:
    """The elements that count, for an output of the model; their number is open (0) in its type."""
    if len(value.shape) > MAX_RANK:
        raise Unmapped(f"an output of rank {len(value.shape)} is as large as data say")
    if value.code is OperandCode.TENSOR_BOOL8:
        part, zero = cut(c, c.as_number(value, F32), counted), c.constant(0, F32)
        return c.graph.emit(Op.NOT_EQUAL, [part, zero], [BOOL8], declared=[part.shape], open_=True)[0]
    sizes = sizes_of(c, value.shape, counted)
    shape = tuple(0 if axis == counted.axis else size for axis, size in enumerate(value.shape))
    begin = np.zeros(len(shape))
    return c.graph.emit(Op.SLICE, [value, begin, sizes], [value.type], declared=[shape], open_=True)[0]


# --- what passes it on ---------------------------------------------------------------------------------------


def alike(tensors: Sequence[tuple[Shape, Counted | None]], rank: int) -> Counted:
    """Of an operator that computes each element by itself, on tensors that broadcast to ``rank``."""
    found = {(counted.count, counted.axis - len(shape)) for shape, counted in tensors if counted is not None}
    if len(found) != 1:
        raise Unmapped("data decide the sizes of its inputs, and not one size only")
    ((count, behind),) = found
    for shape, counted in tensors:
        if counted is None and len(shape) >= -behind and shape[behind] != 1:
            raise Unmapped(f"a tensor of shape {list(shape)} meets one of a size that data decide")
    return Counted(rank + behind, count)


def apart(counted: Counted, axes: Sequence[int]) -> Counted:
    """Of an operator that works along other axes; `Unmapped` where it is this one."""
    if counted.axis in axes:
        raise Unmapped(f"it works along axis {counted.axis}, whose size data decide")
    return counted


def reshaped(counted: Counted, before: Shape, after: Shape) -> Counted:
    """Of elements in another shape, where the axis stays one: as many elements before it, and as many behind."""
    size = before[counted.axis]
    ahead = int(np.prod(before[: counted.axis], dtype=np.int64))
    for axis, other in enumerate(after):
        if other == size and int(np.prod(after[:axis], dtype=np.int64)) == ahead:
            return counted.on(axis)
    raise Unmapped(f"axis {counted.axis}, whose size data decide, is not one of {list(after)} any more")
