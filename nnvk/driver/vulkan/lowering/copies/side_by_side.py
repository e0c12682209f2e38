"""Matrices that lie side by side in larger rows, as the heads of attention do: GEMMs read and write them there."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.base.extents import hint, unique
from nnvk.driver.vulkan.lowering.copies.arrange import dense
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Tensor
from nnvk.ops.strided import Box, Dimension, fold

_MOST = 256
"""Matrices side by side: a specialisation constant."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """An operand of a GEMM: equally large matrices."""

    parts: int
    rows: int
    columns: int
    is_transposed: bool = False
    """Whether the GEMM has the matrices column by column."""

    def place(self, box: Box) -> Interleaving | None:
        """The place of the matrices, whose elements in order are this box of a tensor; None if they have no such place.

        Matrices that need not be copied are preferred.
        """
        found: list[Interleaving] = []
        dimensions, fewest = fold(box.dimensions), 1 if self.is_transposed else 2
        plain, counts = hint(self), range(fewest, min(hint(self.parts), _MOST) + 1)
        for count, pitch in itertools.product(counts, unique(stride for _, stride in dimensions)):
            # For one size first: what is not so is no guard of the plan.
            if plain._are_in(hint(tuple(dimensions)), count, hint(pitch)) and self._are_in(dimensions, count, pitch):
                rows = Box(((self.parts // count * self.rows, pitch), (count * self.columns, 1)), box.first)
                found.append(Interleaving(count, None if rows.is_run and not rows.first else rows))
        return min(found, key=lambda place: place.rows is not None, default=None)

    def _are_in(self, dimensions: Sequence[Dimension], interleaved: int, pitch: int) -> bool:
        """Whether the folded dimensions of a box are those of the matrices, so many of them side by side."""
        fit = self.parts % interleaved == 0 and pitch >= interleaved * self.columns
        return fit and list(dimensions) == self._dimensions(interleaved, pitch)

    def _dimensions(self, interleaved: int, pitch: int) -> list[Dimension]:
        """The box of the matrices, if so many are side by side in rows of which each is a pitch from the next."""
        matrix = [(self.rows, pitch), (self.columns, 1)]
        around = [(self.parts // interleaved, self.rows * pitch), (interleaved, self.columns)]
        return fold([*around, *(reversed(matrix) if self.is_transposed else matrix)])


@dataclass(frozen=True, slots=True)
class Interleaving:
    """The place of matrices in a tensor."""

    interleaved: int
    """The number of matrices that lie side by side in a row."""
    rows: Box | None
    """The rows that have to be copied from yet larger ones, because GEMMs read and write whole rows; None if none."""


def read(g: Lowering, tensor: Tensor, *layouts: Matrices) -> tuple[TensorRef, int, Matrices]:
    """The memory of matrices, the number of interleaved ones, and their layout, one of ``layouts``.

    Matrices without a place are copied to the first layout.
    """
    view = tensor.view
    places = [] if view is None else [(each, matrices) for matrices in layouts if (each := matrices.place(view.box))]
    if view is None or not places:
        return dense(g, tensor), 1, layouts[0]
    place, matrices = min(places, key=lambda found: found[0].rows is not None)
    source = view.source if place.rows is None else view.source.viewed((tensor.size,), place.rows)
    return dense(g, source), place.interleaved, matrices


def written(tensor: Tensor, matrices: Matrices) -> tuple[Tensor, int]:
    """The tensor in whose memory a GEMM writes matrices, and the number of interleaved matrices."""
    if tensor.view is None:
        return tensor, 1
    place = matrices.place(tensor.view.box)
    assert place is not None
    assert place.rows is None
    return tensor.view.source, place.interleaved
