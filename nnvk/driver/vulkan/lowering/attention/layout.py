"""Where the matrices of ATTENTION are: its shaders read and write them there (`shaders/include/attention.glsl`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nnvk.base.sizes import whole_numbers
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Call, Tensor
from nnvk.ops.strided import Box, dense_dimensions
from nnvk.types.operand import Shape

OPERANDS = "query", "key", "value", "own_key", "own_value", "output"
"""The operands that are matrices. The mask has a place as well."""
MOST_MATRICES = 65_535
"""Matrices, or tiles of rows, which are workgroups of one dimension: every device has so many."""


@dataclass(frozen=True, slots=True)
class MatrixPlace:
    """Where the matrices of an operand are in a tensor."""

    first: int
    """The index of the first element."""
    strides: tuple[int, int, int, int]
    """Elements from matrix to matrix of both dimensions of batches, from row to row, and from column to column."""

    @property
    def in_rows(self) -> bool:
        """Whether the elements of a row follow each other."""
        return self.strides[-1] in (0, 1)

    def in_vec4s(self, columns: int) -> bool:
        """Whether each row consists of whole vec4s."""
        *outer, _ = self.strides
        return self.in_rows and columns % 4 == 0 and all(each % 4 == 0 for each in (self.first, *outer))


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of all operands, with batches in two dimensions."""

    batches: tuple[int, int]
    """The sizes of the inner and the outer dimension of batches."""
    places: Mapping[str, MatrixPlace]


def layout_of(call: Call) -> Layout | None:
    """The layout of a call's operands; None if the shader can't read or write them where they are."""
    *batches, rows, _ = call.output.shape
    count = math.prod(batches)
    for inner in _inner_sizes(call, count):
        places: dict[str, MatrixPlace] = {}
        for name in OPERANDS:
            tensor: Tensor | None = getattr(call, name)
            if tensor is not None:
                own = Box(tuple(dense_dimensions(tensor.shape))) if tensor.view is None else tensor.view.box
                place = _place(own, (count // inner, inner, *tensor.shape[-2:]))
                if place is None or not (place.in_rows or name.endswith("key")):
                    break
                places[name] = place
        else:
            place = _place_of_mask(call, (count // inner, inner, rows))
            if place is not None:
                return Layout((inner, count // inner), {**places, "mask": place})
    return None


def _inner_sizes(call: Call, count: int) -> list[int]:
    """The sizes that the inner dimension of batches may have, the largest first: dimensions of an operand end there."""
    sizes = [math.prod(call.output.shape[axis:-2]) for axis in range(call.output.rank - 1)]
    for tensor in call.every_tensor():
        matrix, elements = math.prod(tensor.shape[-2:]), 1
        for length, _ in reversed(() if tensor.view is None else tensor.view.box.dimensions):
            elements *= length
            if elements % matrix == 0 and count % (elements // matrix) == 0:
                sizes.append(elements // matrix)
    return sorted(sizes, reverse=True)


def _place(own: Box, shape: Shape) -> MatrixPlace | None:
    """The place of matrices of a shape whose elements in order are a box; None if they have no such strides."""
    matrices = Box(tuple(dense_dimensions(shape)))
    pieces = matrices.within(own)
    if pieces is None or any(len(each) > 1 for each in pieces):
        return None
    outer, inner, row, column = (each[0][1] if each else 0 for each in pieces)
    return MatrixPlace(matrices.first_within(own), (outer, inner, row, column))


def _place_of_mask(call: Call, shape: tuple[int, int, int]) -> MatrixPlace | None:
    """The place of the mask, with strides of 0 where it broadcasts."""
    if call.mask is None:
        return MatrixPlace(0, (0, 0, 0, 0))
    width, batches = call.mask.shape[-1], call.output.shape[:-2]
    full = (1,) * (len(batches) + 2 - call.mask.rank) + call.mask.shape
    sizes = (*batches, shape[2], width)
    dimensions = [
        (size, 0 if own == 1 else stride)
        for size, own, (_, stride) in zip(sizes, full, dense_dimensions(full), strict=True)
    ]
    return _place(Box(tuple(dimensions)), (*shape, width))


def masked_keys(call: Call) -> int:
    """The keys, from the first one on, that the mask is added to."""
    own = 0 if call.own_key is None else call.own_key.shape[-2]
    return call.key.shape[-2] + own if call.masks_own else call.key.shape[-2]


def has_masks_of_vec4s(call: Call, place: MatrixPlace) -> bool:
    """Whether the masks of four keys are a vec4."""
    in_rows = place.strides[-1] == 1 and place.in_vec4s(masked_keys(call))
    return in_rows and (not call.masks_own or call.key.shape[-2] % 4 == 0)


def strides(g: Lowering, layout: Layout, names: tuple[str, ...]) -> TensorRef:
    """The strides of operands as shaders read them: four words for each; zeros for those that are not there."""
    words = tuple(layout.places[name].strides if name in layout.places else (0,) * 4 for name in names)
    return g.once(("attention", words), lambda: g.constant(whole_numbers(words, np.uint32)))
