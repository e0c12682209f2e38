"""SPACE_TO_DEPTH, DEPTH_TO_SPACE, SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND: blocks of the image as channels or batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.lowering.arrange import ARRANGE, Dimension, arrange
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import FILL, MOVE, dense_strides, fill, move
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Call
from nnvk.ops.space import block_shape, space_paddings
from nnvk.ops.window import layout_shape
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


@dataclass(frozen=True, slots=True)
class Image:
    """The dimensions of a tensor by what they are, one or more each, whatever its layout."""

    batches: Sequence[Dimension]
    rows: Sequence[Dimension]
    columns: Sequence[Dimension]
    channels: Sequence[Dimension]

    def box(self, nchw: bool) -> list[Dimension]:
        """The dimensions in the order of a layout."""
        if nchw:
            return [*self.batches, *self.channels, *self.rows, *self.columns]
        return [*self.batches, *self.rows, *self.columns, *self.channels]


def _split(dimension: Dimension, *outer: int) -> list[Dimension]:
    """A dimension as several: the inner one is what is left."""
    size, stride = dimension
    sizes = [*outer, size // math.prod(outer)]
    return [(part, stride * inner) for part, inner in zip(sizes, dense_strides(sizes), strict=True)]


def _space_to_depth(call: Call, n: Dimension, y: Dimension, x: Dimension, c: Dimension) -> Image:
    (rows, in_row), (columns, in_column) = _split(y, y[0] // call.block_size), _split(x, x[0] // call.block_size)
    return Image([n], [rows], [columns], [in_row, in_column, c])


def _depth_to_space(call: Call, n: Dimension, y: Dimension, x: Dimension, c: Dimension) -> Image:
    in_row, in_column, channels = _split(c, call.block_size, call.block_size)
    return Image([n], [y, in_row], [x, in_column], [channels])


def _batch_to_space(call: Call, n: Dimension, y: Dimension, x: Dimension, c: Dimension) -> Image:
    in_row, in_column, batches = _split(n, *block_shape(call))
    return Image([batches], [y, in_row], [x, in_column], [c])


def _space_to_batch(call: Call, n: Dimension, y: Dimension, x: Dimension, c: Dimension) -> Image:
    height, width = block_shape(call)
    (rows, in_row), (columns, in_column) = _split(y, y[0] // height), _split(x, x[0] // width)
    return Image([in_row, in_column, n], [rows], [columns], [c])


_IMAGES: dict[OperationCode, Callable[[Call, Dimension, Dimension, Dimension, Dimension], Image]] = {
    OperationCode.BATCH_TO_SPACE_ND: _batch_to_space,
    OperationCode.DEPTH_TO_SPACE: _depth_to_space,
    OperationCode.SPACE_TO_BATCH_ND: _space_to_batch,
    OperationCode.SPACE_TO_DEPTH: _space_to_depth,
}


@kernel(*_IMAGES, shaders=(ARRANGE, FILL, MOVE))
def lower(call: Call, g: Lowering) -> None:
    """One dispatch, and two before it where the input is to be padded."""
    source, shape = g.tensor(call.input), call.input.shape
    if call.has("paddings"):
        source, shape = _padded(call, g)
    dimensions = list(zip(shape, dense_strides(shape), strict=True))
    order = (0, 2, 3, 1) if call.nchw else (0, 1, 2, 3)
    n, y, x, c = (dimensions[axis] for axis in order)
    box = _IMAGES[call.code](call, n, y, x, c).box(call.nchw)
    arrange(g, moved(call.input), source, g.tensor(call.output), box)


def _padded(call: Call, g: Lowering) -> tuple[TensorRef, Shape]:
    """The input with zeros around its images, and its shape then."""
    source, before = g.tensor(call.input), call.input.shape
    (top, bottom), (left, right) = space_paddings(call)
    if not any((top, bottom, left, right)):
        return source, before
    first, second = layout_shape((0, top, left, 0), call.nchw), layout_shape((0, bottom, right, 0), call.nchw)
    shape = tuple(sum(sizes) for sizes in zip(first, before, second, strict=True))
    target = g.scratch(math.prod(shape) * call.input.dtype.itemsize)
    fill(g, target, np.array(call.input.zero_point, call.input.dtype))
    strides = dense_strides(shape)
    start = sum(index * stride for index, stride in zip(first, strides, strict=True))
    move(g, moved(call.input), source, target, before, dense_strides(before), strides, target_first=start)
    return target, shape
