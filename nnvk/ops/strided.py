"""Boxes: elements of a dense tensor in another order, given by sizes and strides.

Operations that only move elements, such as TRANSPOSE and SLICE, give boxes of their input.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.types.operand import Shape

Dimension = tuple[int, int]
"""The size of a box along a dimension, and the stride in the source in elements, which may be negative or 0."""


@dataclass(frozen=True, slots=True)
class Span:
    """Indices along an axis."""

    first: int
    count: int
    stride: int = 1


def dense_strides(shape: Sequence[int]) -> list[int]:
    """The strides, in elements, of a row-major tensor."""
    return list(itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1))[::-1] if shape else []


def dense_dimensions(shape: Sequence[int]) -> list[Dimension]:
    """The dimensions of a box that has all elements of a tensor in their order."""
    return list(zip(shape, dense_strides(shape), strict=True))


def fold(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """The same elements with fewer dimensions: none of size 1, and no neighbours that one stride serves as well."""
    folded: list[Dimension] = []
    for size, stride in dimensions:
        if size == 1:
            continue
        if folded and folded[-1][1] == size * stride:
            folded[-1] = (folded[-1][0] * size, stride)
        else:
            folded.append((size, stride))
    return folded or [(1, 0)]


@dataclass(frozen=True, slots=True)
class Box:
    """Elements of a dense tensor, the source, in an order of their own."""

    dimensions: tuple[Dimension, ...]
    first: int = 0
    """The index of the first element in the source."""

    @classmethod
    def of_spans(cls, shape: Shape, spans: Sequence[Span]) -> Box:
        """The elements of a tensor at these indices along each axis."""
        pairs = list(zip(spans, dense_strides(shape), strict=True))
        dimensions = tuple((taken.count, taken.stride * distance) for taken, distance in pairs)
        return cls(dimensions, sum(taken.first * distance for taken, distance in pairs if taken.count))

    @classmethod
    def transposed(cls, shape: Shape, permutation: Sequence[int]) -> Box:
        """All elements of a tensor, whose axis ``permutation[i]`` is axis ``i`` of the result."""
        dimensions = dense_dimensions(shape)
        return cls(tuple(dimensions[axis] for axis in permutation))

    def __str__(self) -> str:
        """The sizes, each with its stride, and the first element, as in ``8x1,4x8+16``."""
        dimensions = ",".join(f"{size}x{stride}" for size, stride in self.dimensions)
        return f"{dimensions}+{self.first}" if self.first else dimensions

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(size for size, _ in self.dimensions)

    def is_inside(self, elements: int) -> bool:
        """Whether a source of so many elements has all of the box."""
        reach = [(size - 1) * stride for size, stride in self.dimensions]
        low, high = (self.first + sum(limit(0, each) for each in reach) for limit in (min, max))
        return not self.elements or (low >= 0 and high < elements)

    @property
    def folded(self) -> Box:
        """The same box with as few dimensions as possible."""
        return Box(tuple(fold(self.dimensions)), self.first)

    def is_whole(self, elements: int) -> bool:
        """Whether the box has all of so many elements in the order of the source."""
        return self.is_run and self.first == 0 and self.elements == elements

    @property
    def is_run(self) -> bool:
        """Whether the elements follow each other in the source as they do in the box."""
        (_, stride), *others = fold(self.dimensions)
        return not others and (stride == 1 or self.elements <= 1)

    def reorders(self, elements: int) -> bool:
        """Whether the box has each of so many elements, which are all of the source, once."""
        expected = 1
        for size, stride in sorted(fold(self.dimensions), key=lambda dimension: dimension[1]):
            if size > 1 and stride != expected:
                return False
            expected *= size
        return self.first == 0 and expected == elements

    @property
    def inverse(self) -> Box:
        """The box of the result that is the source, of a box that `reorders`."""
        sizes = [size for size, _ in self.dimensions]
        pairs = zip(self.dimensions, dense_strides(sizes), strict=True)
        return Box(tuple((size, own) for (size, _), own in sorted(pairs, key=lambda pair: -pair[0][1])))

    def within(self, other: Box) -> list[list[Dimension]] | None:
        """The dimensions, for each of this box's, in the source of ``other``, whose result is this box's source.

        The first element is `first_within`. None if the elements are no box of that source.
        """
        sizes = [size for size, _ in other.dimensions]
        dense, reach, found = dense_strides(sizes), other._places(self.first), []
        for size, stride in self.dimensions:
            pieces: list[Dimension] = [(size, 0)] if size == 1 or stride == 0 else []
            while size > 1 and stride != 0:
                # The dimension of the other box that a stride goes along, as far as that reaches.
                axis = next((axis for axis, own in enumerate(dense) if 0 < own <= stride and sizes[axis] > 1), -1)
                if axis < 0 or stride % dense[axis]:
                    return None
                along = stride // dense[axis]
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
        """The same elements as a box of the source of ``other``, whose result is this box's source; None if no box."""
        within = self.within(other)
        if within is None:
            return None
        return Box(tuple(piece for pieces in within for piece in pieces), self.first_within(other))

    def first_within(self, other: Box) -> int:
        """The index of the first element in the source of ``other``."""
        along = zip(other._places(self.first), other.dimensions, strict=True)
        return other.first + sum(place * stride for place, (_, stride) in along)

    def _places(self, index: int) -> list[int]:
        """The place along each dimension of the element of this index."""
        places = []
        for stride in dense_strides([size for size, _ in self.dimensions]):
            place, index = divmod(index, stride)
            places.append(place)
        return places

    def of(self, data: np.ndarray) -> np.ndarray:
        """The elements of an array, flat. The result shares no memory with the array."""
        flat = np.ascontiguousarray(data).reshape(-1)
        sizes = [size for size, _ in self.dimensions]
        strides = [flat.itemsize * stride for _, stride in self.dimensions]
        if not self.elements:
            return flat[:0].copy()
        taken = np.lib.stride_tricks.as_strided(flat[self.first :], sizes, strides, writeable=False)
        return taken.flatten()
