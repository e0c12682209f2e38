"""Dynamic extents: tensors of which data decide how many elements along one axis are valid.

NNAPI's operations need sizes that are known when a model is compiled, but for a few. So an importer gives such a tensor
the largest size that it can have, with the valid elements in front, carries their number as a value of its own, and
cuts the tensor where it is an output of the model.

The functions of the second half say how operators pass a dynamic extent on. An importer has a table (`Rules`) with one
of them for each of its format's operators; an operator without a rule can't take such a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from nnvk.importers import charged
from nnvk.importers.decompositions.int64 import bounded
from nnvk.importers.decompositions.moving import axis_of
from nnvk.importers.emitter import BOOL8, F32, I32, NONE, Emitter, Inputs
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import MAX_RANK, Value
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import Shape

Op = OperationCode

_MOST = 1 << 24
"""The most elements that can be counted in float32."""


@dataclass(frozen=True, slots=True, eq=False)
class DynamicExtent:
    """The number of valid elements along an axis."""

    axis: int
    count: Value
    """INT32 [1]."""

    def on(self, axis: int) -> DynamicExtent:
        """The same number of elements along another axis."""
        return DynamicExtent(axis, self.count)


def true_first(c: Emitter, flags: Value) -> tuple[Value, Value]:
    """The places of all elements of a row of booleans, the true ones first, and the number of true ones."""
    size = flags.size
    if size > _MOST:
        raise Unmapped(f"{size} elements are too many to be counted")
    weight = c.emit(Op.MUL, c.as_number(flags, I32), c.constant(size, I32), NONE, out=I32)
    keys = c.emit(Op.SUB, weight, c.constant(charged.arange(size), I32), NONE, out=I32)
    places = c.emit_many(Op.TOPK_V2, keys, size, outs=[I32, I32])[1]
    total = c.emit(Op.REDUCE_SUM, c.as_number(flags, F32), np.array([0]), True, out=F32)
    return places, bounded(c.emit(Op.CAST, total, out=I32), (0, size))


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


def sizes_of(c: Emitter, shape: Shape, extent: DynamicExtent) -> Value:
    """The shape of a tensor with a dynamic extent, as INT32 that the model computes."""
    place = charged.arange(len(shape)) == extent.axis
    asked = c.emit(Op.MUL, extent.count, c.constant(place.astype(np.int32), I32), NONE, out=I32)
    return c.emit(Op.ADD, asked, c.constant(np.where(place, 0, shape), I32), NONE, out=I32)


def cut(c: Emitter, value: Value, extent: DynamicExtent) -> Value:
    """The valid elements, for an output of the model; their number is open (0) in its type."""
    if len(value.shape) > MAX_RANK:
        raise Unmapped(f"an output of rank {len(value.shape)} is as large as data say")
    if value.code is OperandCode.TENSOR_BOOL8:
        part, zero = cut(c, c.as_number(value, F32), extent), c.constant(0, F32)
        return c.graph.emit(Op.NOT_EQUAL, [part, zero], [BOOL8], declared=[part.shape], open_=True)[0]
    sizes = sizes_of(c, value.shape, extent)
    shape = tuple(0 if axis == extent.axis else size for axis, size in enumerate(value.shape))
    begin = charged.zeros(len(shape))
    return c.graph.emit(Op.SLICE, [value, begin, sizes], [value.type], declared=[shape], open_=True)[0]


# --- how operators pass it on --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Extent:
    """The shape of an operator's input, and its dynamic axis."""

    shape: Shape
    """All dimensions; none for a scalar, where the operator tells it from one element along an axis."""
    dynamic: DynamicExtent | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Extents(Inputs[Extent]):
    """The shapes of one operator. At least one input has a dynamic extent."""

    inputs: Sequence[Extent | None]
    """The inputs; None for an omitted input."""
    output: Shape
    """The shape of one output, as large as it can get."""

    @property
    def rank(self) -> int:
        """The rank of the first input."""
        return len(self.input(0).shape)

    def first(self) -> DynamicExtent:
        """The first input's dynamic extent; `Unmapped` where another input has one."""
        found = self.input(0).dynamic
        if found is None or any(one is not None and one.dynamic is not None for one in self.inputs[1:]):
            raise Unmapped("data decide the size of one of its parameters")
        return found


Node = TypeVar("Node")
Rule = Callable[[Node, Extents], DynamicExtent]
"""The dynamic extent of an output, of the operator as the importer's mappers see it, and of its shapes.

`Unmapped` where elements that are not valid would have a part in others.
"""


class Rules(Generic[Node]):
    """A format's table of rules: how its operators pass a dynamic extent on."""

    def __init__(self, rules: Mapping[str, Rule[Node]], own: Collection[str] = ()) -> None:
        """``own`` are the operators whose mappers look at a dynamic extent themselves."""
        self._rules = rules
        self._own = own

    def check(self, operator: str, inputs: Sequence[DynamicExtent | None]) -> None:
        """`Unmapped` where an operator can't take a tensor whose size data decide."""
        if any(inputs) and operator not in self._rules and operator not in self._own:
            raise Unmapped("data decide the size of its input, and NNAPI has to know it beforehand")

    def passed_on(self, operator: str, node: Node, extents: Extents) -> DynamicExtent | None:
        """The dynamic extent that an output has because of the inputs."""
        is_dynamic = any(one is not None and one.dynamic is not None for one in extents.inputs)
        return self._rules[operator](node, extents) if is_dynamic and operator in self._rules else None


def elementwise(extents: Extents) -> DynamicExtent:
    """An operator that computes each element by itself, on tensors that broadcast to the output's rank."""
    present = [one for one in extents.inputs if one is not None]
    found = {(one.dynamic.count, one.dynamic.axis - len(one.shape)) for one in present if one.dynamic is not None}
    if len(found) != 1:
        raise Unmapped("data decide the sizes of its inputs, and not one size only")
    ((count, behind),) = found
    for one in present:
        if one.dynamic is None and len(one.shape) >= -behind and one.shape[behind] != 1:
            raise Unmapped(f"a tensor of shape {list(one.shape)} meets one of a size that data decide")
    return DynamicExtent(len(extents.output) + behind, count)


def _apart(extent: DynamicExtent, axes: Sequence[int]) -> DynamicExtent:
    if extent.axis in axes:
        raise Unmapped(f"it works along axis {extent.axis}, whose size data decide")
    return extent


def along(extents: Extents, axes: Sequence[int]) -> DynamicExtent:
    """An operator that works along axes of its first input, which may count from the end, and keeps them."""
    return _apart(extents.first(), [axis_of(axis, extents.rank) for axis in axes])


def behind(extents: Extents, axis: int) -> DynamicExtent:
    """An operator that works along an axis of its first input and all behind it, and keeps them."""
    return along(extents, range(axis_of(axis, extents.rank), extents.rank))


def reduction(extents: Extents, axes: Sequence[int], keeps: bool) -> DynamicExtent:
    """An operator that works along axes and, unless it ``keeps`` them, drops them."""
    places = [axis_of(axis, extents.rank) for axis in axes]
    extent = _apart(extents.first(), places)
    return extent.on(extent.axis - (0 if keeps else sum(1 for place in places if place < extent.axis)))


def insertion(extents: Extents, axes: Sequence[int]) -> DynamicExtent:
    """An operator that adds axes of size 1, which ``axes`` names as the output has them."""
    rank = len(extents.output)
    new = {axis_of(axis, rank) for axis in axes}
    extent = extents.first()
    return extent.on([axis for axis in range(rank) if axis not in new][extent.axis])


def transposition(extents: Extents, order: Sequence[int]) -> DynamicExtent:
    """An operator whose output has the input's axes in this order."""
    extent = extents.first()
    return extent.on([axis_of(axis, extents.rank) for axis in order].index(extent.axis))


def reshaped(extents: Extents, fixed: Sequence[int | None] = ()) -> DynamicExtent:
    """An operator that gives another shape, where the axis stays one: as many elements before it, and as many behind.

    ``fixed`` has the sizes of the output that the file gives as numbers, None for others.
    """
    extent, before, after = extents.first(), extents.input(0).shape, extents.output
    ahead = int(np.prod(before[: extent.axis], dtype=np.int64))
    for axis, size in enumerate(after):
        if size == before[extent.axis] and int(np.prod(after[:axis], dtype=np.int64)) == ahead:
            if fixed and fixed[axis] is not None:
                raise Unmapped(f"axis {axis}, whose size data decide, is to be of size {fixed[axis]}")
            return extent.on(axis)
    raise Unmapped(f"axis {extent.axis}, whose size data decide, is not one of {list(after)} any more")


def concatenation(extents: Extents, axis: int) -> DynamicExtent:
    """An operator that joins its inputs along an axis, all of which have the same dynamic extent along another one."""
    parts = [None if one is None else one.dynamic for one in extents.inputs]
    first = parts[0]
    if first is None or any(one is None or (one.axis, one.count) != (first.axis, first.count) for one in parts):
        raise Unmapped("data decide the sizes of its inputs, and not one size only")
    return _apart(first, [axis_of(axis, len(extents.output))])


def gather(extents: Extents, axis: int) -> DynamicExtent:
    """An operator that takes indices, its second input, along an axis of its first; either may be dynamic."""
    source, indices = extents.input(0), extents.input(1)
    axis = axis_of(axis, len(source.shape))
    if indices.dynamic is not None:
        if source.dynamic is not None:
            raise Unmapped("data decide the sizes of both its inputs")
        return indices.dynamic.on(axis + indices.dynamic.axis)
    extent = _apart(extents.first(), [axis])
    return extent.on(extent.axis + (len(indices.shape) - 1 if extent.axis > axis else 0))


def gather_nd(extents: Extents) -> DynamicExtent:
    """An operator that takes rows of indices, its second input, which alone may be dynamic."""
    indices = extents.input(1)
    if indices.dynamic is None or extents.input(0).dynamic is not None:
        raise Unmapped("data decide the size of what it picks from")
    return _apart(indices.dynamic, [len(indices.shape) - 1])
