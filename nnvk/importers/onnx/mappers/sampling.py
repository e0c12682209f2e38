"""GridSample: elements at places that are data, with those around them."""

from __future__ import annotations

import math

from nnvk.importers.decompositions.arithmetic import round_half_even, with_number
from nnvk.importers.decompositions.moving import transposed
from nnvk.importers.decompositions.sampling import TAPS, SampledAxis, sampled, within
from nnvk.importers.emitter import F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode

Op = OperationCode

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""Names of version 16."""
_MOST_AXES = 3


@operator("GridSample")
def grid_sample(c: Context) -> Tensor:
    """Map GridSample to the elements around each place of the grid, axis by axis."""
    source, grid = c.tensor(0), c.tensor(1)
    mode = _MODES.get(name := c.node.text("mode", "linear"), name)
    padding = c.node.text("padding_mode", "zeros")
    rank = source.rank - 2
    if mode not in TAPS or padding not in ("zeros", "border", "reflection"):
        raise Unmapped(f"the modes '{mode}' and '{padding}' are unknown here")
    if (
        not 1 <= rank <= _MOST_AXES
        or grid.rank != rank + 2
        or (grid.shape[0], grid.shape[-1]) != (source.shape[0], rank)
    ):
        raise Unmapped(f"a grid of shape {list(grid.shape)} does not fit an input of shape {list(source.shape)}")
    batches, channels, *spatial = source.shape
    count = batches * math.prod(grid.shape[1:-1])
    columns = c.reshape(c.real_number(1), (count, rank))
    coordinates = c.emit_many(Op.SPLIT, columns, 1, rank, outs=[F32] * rank) if rank > 1 else [columns]
    align = bool(c.node.integer("align_corners", 0))
    margin = 0.0 if align else 0.5
    axes = [SampledAxis(size, -margin, size - 1 + margin, padding) for size in spatial]
    places = [
        _place(c, c.reshape(column, (count,)), axis, align, mode)
        for axis, column in zip(axes, reversed(coordinates), strict=True)
    ]
    table = transposed(c, c.real_number(0), (0, *range(2, rank + 2), 1))
    result = c.reshape(sampled(c, table, axes, places, mode), (batches, *grid.shape[1:-1], channels))
    return c.give(transposed(c, result, (0, rank + 1, *range(1, rank + 1))), None, source.dtype)


def _place(c: Context, along: Value, axis: SampledAxis, align: bool, mode: str) -> Value:
    """Coordinates from -1 to 1 in elements, and those beyond the ends where the padding puts them."""
    place = with_number(c, Op.ADD, along, 1.0, NONE)
    if align:
        place = with_number(c, Op.MUL, with_number(c, Op.MUL, place, 0.5, NONE), axis.size - 1.0, NONE)
    else:
        place = with_number(c, Op.ADD, with_number(c, Op.MUL, place, float(axis.size), NONE), -1.0, NONE)
        place = with_number(c, Op.MUL, place, 0.5, NONE)
    if mode == "nearest":
        place = round_half_even(c, place)
    is_kept = axis.padding == "zeros" or (axis.padding == "border" and mode == "cubic")  # each tap is moved then
    return place if is_kept else within(c, place, axis)
