"""CONCATENATION and PACK: every input is copied to its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.copies.copied import folded, in_pieces
from nnvk.driver.vulkan.lowering.copies.move import MOVE, RANK, move
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Call, Tensor
from nnvk.ops.strided import Box
from nnvk.types.codes import OperationCode


@dataclass(frozen=True, slots=True)
class _Copy:
    """The strided copy of an input to its place in the output."""

    source: Tensor
    sizes: Sequence[int]
    source_strides: Sequence[int]
    target_strides: Sequence[int]
    source_first: int
    target_first: int
    width: int
    """The elements of the output between this place and that of the next input."""


def _copy(call: Call, source: Tensor, first: int) -> _Copy | None:
    """The copy of an input to the element ``first`` of the output; None for a view that one strided copy can't take."""
    behind = math.prod(call.output.shape[call.axis + 1 :])
    width = behind if call.code is OperationCode.PACK else source.shape[call.axis] * behind
    rows = source.size // max(width, 1)
    strides = call.output.size // max(rows, 1), 1
    if source.view is None:
        return _Copy(source, (rows, width), (width, 1), strides, 0, first, width)
    box, outer = Box(((rows, width), (width, 1))), source.view.box
    within = box.within(outer)
    ways = None if within is None else in_pieces(within, strides)
    if ways is None or len(folded(*ways)[0]) > RANK or min(ways[1]) < 0:
        return None
    return _Copy(source.view.source, *ways, box.first_within(outer), first, width)


def _takes_view(call: Call, tensor: Tensor, view: Tensor, alone: bool) -> bool:
    """A single run of elements may lie in the output from the start, if it is computed there (the pass `coalesce`)."""
    plain = _copy(call, tensor, 0)
    assert plain is not None
    rows, _ = plain.sizes
    is_same = (view.scale, view.zero_point) == (call.output.scale, call.output.zero_point)
    return alone and rows > 1 and is_same and _copy(call, view, 0) is not None


@kernel(OperationCode.CONCATENATION, shaders=(MOVE,), takes_view=_takes_view)
@kernel(OperationCode.PACK, shaders=(MOVE,), takes_view=_takes_view)
def lower(call: Call, g: Lowering) -> None:
    """A dispatch for each input. The pass `quantisation` has brought all of them to the output's scale."""
    target, first = g.tensor(call.output), 0
    for each in call.inputs:
        copy = _copy(call, each, first)
        assert copy is not None
        if copy.source.size:
            source, strides = g.tensor(copy.source), (copy.source_strides, copy.target_strides)
            move(g, moved(copy.source), source, target, copy.sizes, *strides, copy.source_first, copy.target_first)
        first += copy.width
