"""Dense tensors from strided places: the one command of operations that put a tensor's elements into another order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import MOVED
from nnvk.driver.vulkan.lowering.kernel import Refuse
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import dense_strides
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call

ARRANGE = Shader("arrange", DTYPE=MOVED)
LOCAL = 64
RANK = 8

Dimension = tuple[int, int]
"""Size of the box along a dimension, and the stride in the source, in elements; it may be negative or 0."""


@dataclass(frozen=True, slots=True)
class Box:
    """Elements of a dense tensor, in an order of their own."""

    dimensions: tuple[Dimension, ...]
    first: int = 0
    """Index in the tensor of the first one."""

    @property
    def elements(self) -> int:
        """How many there are."""
        return math.prod(size for size, _ in self.dimensions)

    def reorders(self, elements: int) -> bool:
        """Whether it has each of so many elements, all that there are, once."""
        expected = 1
        for size, stride in sorted(fold(self.dimensions), key=lambda dimension: dimension[1]):
            if size > 1 and stride != expected:
                return False
            expected *= size
        return self.first == 0 and expected == elements

    def within(self, other: Box) -> list[list[Dimension]] | None:
        """Where in the tensor that ``other`` takes from the elements lie that this one takes from what it gives.

        Dimensions for each of this box's; their first element is `first_within`. None where that is no box.
        """
        sizes = [size for size, _ in other.dimensions]
        steps, reach, found = dense_strides(sizes), other.places(self.first), []
        for size, stride in self.dimensions:
            pieces: list[Dimension] = [(size, 0)] if size == 1 or stride == 0 else []
            while size > 1 and stride != 0:
                # The dimension of the other box that a stride goes along, as far as that reaches.
                axis = next((axis for axis, step in enumerate(steps) if 0 < step <= stride and sizes[axis] > 1), -1)
                if axis < 0 or stride % steps[axis]:
                    return None
                along = stride // steps[axis]
                taken = size if (size - 1) * along < sizes[axis] else sizes[axis] // along
                if taken < 2 or size % taken or (taken < size and sizes[axis] % along):
                    return None
                pieces.insert(0, (taken, along * other.dimensions[axis][1]))
                reach[axis] += (taken - 1) * along
                size, stride = size // taken, stride * taken
            found.append(pieces)
        is_inside = all(place < size for place, size in zip(reach, sizes, strict=True))
        return found if is_inside else None

    def through(self, other: Box) -> Box | None:
        """The same elements in the tensor that ``other`` takes from, where this one takes what that gives.

        None where they are no box.
        """
        within = self.within(other)
        if within is None:
            return None
        return Box(tuple(piece for pieces in within for piece in pieces), self.first_within(other))

    def places(self, index: int) -> list[int]:
        """Where along each dimension the element of this index is."""
        places = []
        for step in dense_strides([size for size, _ in self.dimensions]):
            place, index = divmod(index, step)
            places.append(place)
        return places

    def first_within(self, other: Box) -> int:
        """Index of the first element in the tensor that ``other`` takes from."""
        along = zip(other.places(self.first), other.dimensions, strict=True)
        return other.first + sum(place * stride for place, (_, stride) in along)


def arrange(
    g: Lowering, dtype: str, source: TensorRef, target: TensorRef, box: Sequence[Dimension], first: int = 0
) -> None:
    """Fill ``target``, dense, with a box of ``source`` that begins at element ``first`` (``dtype``: see `moved`)."""
    made = arranged(g, dtype, source, target, Box(tuple(box), first), g.operation)
    if made is not None:
        g.add(made)
        if all(size == 1 or stride == 1 for size, stride in fold(box)):
            g.note_taken(target, source, first)


def arranged(
    g: Lowering, dtype: str, source: TensorRef, target: TensorRef, box: Box, operation: int
) -> Dispatch | None:
    """The dispatch that `arrange` adds, for ``operation``; None where there is nothing to do."""
    folded, first = fold(box.dimensions), box.first
    if len(folded) > RANK:
        raise ValueError(f"a box of {len(folded)} dimensions, at most {RANK} can be moved: {folded}")
    full = [(1, 0)] * (RANK - len(folded)) + folded
    elements = math.prod(size for size, _ in folded)
    inner_size, inner_stride = full[-1]
    rows = inner_size % 4 == 0
    aligned = first % 4 == 0 and all(stride % 4 == 0 for _, stride in full[:-1])
    count = -(-elements // 4)
    push = {f"size_{axis}": size for axis, (size, _) in enumerate(full) if axis}
    push |= {f"magic_{axis}": magic(size) for axis, (size, _) in enumerate(full) if axis}
    push |= {f"stride_{axis}": stride & 0xFFFFFFFF for axis, (_, stride) in enumerate(full)}
    return g.made(
        ARRANGE.variant(DTYPE=dtype),
        groups=g.flat(count, LOCAL),
        spec={
            "local_x": LOCAL,
            "RANK": len(folded),
            "ROWS": rows,
            "DENSE": rows and inner_stride == 1 and aligned,
        },
        tensors={"src": source, "dst": target},
        push={"count": count, "elements": elements, "first": first, **push},
        operation=operation,
    )


def box_of(dispatch: Dispatch) -> Box:
    """The box that a dispatch of `arranged` takes from its source."""
    push, rank = dispatch.push, dispatch.shader.constant(dispatch.specialization, "RANK")
    sizes = [int(push[f"size_{axis}"]) for axis in range(1, RANK)]
    sizes = [int(push["elements"]) // max(1, math.prod(sizes)), *sizes]
    strides = [_signed(int(push[f"stride_{axis}"])) for axis in range(RANK)]
    return Box(tuple(zip(sizes[RANK - rank :], strides[RANK - rank :], strict=True)), int(push["first"]))


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def fold(box: Sequence[Dimension]) -> list[Dimension]:
    """The same box with fewer dimensions: those of size 1 go, neighbours with one stride for both become one."""
    folded: list[Dimension] = []
    for size, stride in box:
        if size == 1:
            continue
        if folded and folded[-1][1] == size * stride:
            folded[-1] = (folded[-1][0] * size, stride)
        else:
            folded.append((size, stride))
    return folded or [(1, 0)]


def folded_dimensions(name: str, rows: Sequence[Dimension]) -> dict[str, int]:
    """Sizes and strides of up to four dimensions as push constants of mean.comp; the outermost size is not needed."""
    full = [(1, 0)] * (4 - len(rows)) + list(rows)
    sizes = {f"{name}_size_{axis}": size for axis, (size, _) in enumerate(full) if axis}
    return sizes | {f"{name}_stride_{axis}": stride for axis, (_, stride) in enumerate(full)}


def up_to_rank(most: int, *names: str) -> Refuse:
    """Refuses tensors of a higher rank: those of these names, by default ``input``."""

    def refuse(call: Call) -> str | None:
        for name in names or ("input",):
            rank = getattr(call, name).rank
            if rank > most:
                return f"{name} has rank {rank}, the shader takes {most} at most"
        return None

    return refuse
