"""DeformConv: a convolution whose taps see the input at places that are data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.importers import charged
from nnvk.importers.decompositions.moving import transposed
from nnvk.importers.decompositions.sampling import SampledAxis, sampled
from nnvk.importers.emitter import F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.windows import Window, covered, windows_of
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode

Op = OperationCode

_MOST_AXES = 3


@operator("DeformConv")
def deformable_convolution(c: Context) -> Tensor:
    """Map DeformConv: sample the input where each tap of the window falls, then multiply by the weights."""
    source, weights = c.tensor(0), c.tensor(1)
    batches, channels, *spatial = source.shape
    rank, units = len(spatial), weights.shape[0]
    groups, offset_groups = c.node.integer("group", 1), c.node.integer("offset_group", 1)
    windows = _windows(c, groups, offset_groups)
    taps = covered(windows)
    out = [window.out for window in windows]
    images, points = batches * offset_groups, math.prod(out)
    offsets = c.reshape(c.real_number(2), (images * taps, rank, points))
    columns = c.emit_many(Op.SPLIT, offsets, 1, rank, outs=[F32] * rank) if rank > 1 else [offsets]
    places = []
    for column, first in zip(columns, _undeformed(windows), strict=True):
        column = c.reshape(column, (images, taps * points))
        places.append(c.emit(Op.ADD, column, c.constant(first.reshape(1, -1), F32), NONE, out=F32))
    axes = [SampledAxis(size, 0.0, size - 1.0, "zeros") for size in spatial]
    grouped = c.reshape(c.real_number(0), (images, channels // offset_groups, *spatial))
    rows = sampled(c, transposed(c, grouped, (0, *range(2, rank + 2), 1)), axes, places, "linear")
    if c.has(4):
        rows = c.emit(Op.MUL, rows, c.reshape(c.real_number(4), (images * taps * points, 1)), NONE, out=F32)
    rows = c.reshape(rows, (batches, offset_groups, taps, points, channels // offset_groups))
    rows = transposed(c, rows, (1, 4, 2, 0, 3))
    rows = c.reshape(rows, (groups, weights.shape[1] * taps, batches * points))
    filters = c.reshape(c.real_number(1), (groups, units // groups, weights.shape[1] * taps))
    result = c.reshape(c.emit(Op.BATCH_MATMUL, filters, rows, False, False, out=F32), (units, batches, points))
    if c.has(3):
        result = c.emit(Op.ADD, result, c.reshape(c.real_number(3), (units, 1, 1)), NONE, out=F32)
    result = transposed(c, result, (1, 0, 2))
    return c.give(c.reshape(result, (batches, units, *out)), None, source.dtype)


def _windows(c: Context, groups: int, offset_groups: int) -> list[Window]:
    """The windows of a DeformConv, whose inputs fit each other. `Unmapped`: they don't."""
    source, weights = c.tensor(0).shape, c.tensor(1).shape
    rank = len(source) - 2
    if not 1 <= rank <= _MOST_AXES or len(weights) != rank + 2:
        raise Unmapped(f"weights of shape {list(weights)} do not fit an input of shape {list(source)}")
    if groups < 1 or source[1] != groups * weights[1] or weights[0] % groups:
        raise Unmapped(
            f"weights of shape {list(weights)} in {groups} groups do not fit the {source[1]} channels of the input"
        )
    if offset_groups < 1 or source[1] % offset_groups:
        raise Unmapped(f"{source[1]} channels can't be divided into {offset_groups} groups of offsets")
    windows = windows_of(c, source[2:], weights[2:])
    for what, number, each_tap in (("offsets", 2, rank), ("a mask", 4, 1)):
        expected = [source[0], offset_groups * covered(windows) * each_tap, *(window.out for window in windows)]
        if c.has(number) and list(c.tensor(number).shape) != expected:
            raise Unmapped(f"{what} of shape {list(c.tensor(number).shape)} can't be used, expected {expected}")
    return windows


def _undeformed(windows: Sequence[Window]) -> list[np.ndarray]:
    """Where the taps of all windows are along each axis, [taps, windows], in elements of the input."""
    rank = len(windows)
    found = []
    full = [each.kernel for each in windows] + [each.out for each in windows]
    for number, window in enumerate(windows):
        taps = charged.arange(window.kernel) * window.dilation
        begins = charged.arange(window.out) * window.stride - window.before
        shape = [1] * (2 * rank)
        shape[number], shape[rank + number] = window.kernel, window.out
        places = charged.outer(np.add, taps, begins).reshape(shape)
        found.append(charged.broadcast_to(places, full).reshape(math.prod(full[:rank]), math.prod(full[rank:])))
    return found
