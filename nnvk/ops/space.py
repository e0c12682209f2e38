"""Operations that trade spatial elements for channels or batches, and back.

All see the input as [batch, rows of blocks, row in a block, columns of blocks, column in a block, channels].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.quant import is_quantised
from nnvk.ops.registry import define
from nnvk.ops.shapes import MOVED, MOVED_2, check_shape, keeps_quantisation, vector
from nnvk.ops.signature import I32, LAYOUT, Signature, i32, one_of, tensor
from nnvk.ops.strided import Box, Dimension, dense_dimensions
from nnvk.ops.traits import Fp16, Traits
from nnvk.ops.window import from_nhwc, layout_shape, nhwc_shape, to_nhwc
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


def _block_size(call: Call) -> int:
    size: int = call.block_size
    if size < 1:
        raise bad_data(f"block_size must be at least 1, got {size}")
    return size


def block_shape(call: Call) -> tuple[int, int]:
    """Height and width of a block, for the operations on batches."""
    height, width = vector(call.block_shape, 2)
    if min(height, width) < 1:
        raise bad_data(f"block_shape must be at least 1, got {[height, width]}")
    return height, width


def _space_to_depth_shape(call: Call) -> list[Shape]:
    block = _block_size(call)
    batches, height, width, channels = nhwc_shape(call.input.shape, call.nchw)
    if height % block or width % block:
        raise bad_data(f"block_size must divide height {height} and width {width} of input, got {block}")
    return [layout_shape((batches, height // block, width // block, channels * block * block), call.nchw)]


def _space_to_depth(call: Call) -> np.ndarray:
    block = call.block_size
    batches, height, width, channels = nhwc_shape(call.output.shape, call.nchw)
    blocks = to_nhwc(call.input.data, call.nchw).reshape(
        batches, height, block, width, block, channels // (block * block)
    )
    return from_nhwc(blocks.transpose(0, 1, 3, 2, 4, 5).reshape(batches, height, width, channels), call.nchw)


def _depth_to_space_shape(call: Call) -> list[Shape]:
    block = _block_size(call)
    batches, height, width, channels = nhwc_shape(call.input.shape, call.nchw)
    if channels % (block * block):
        raise bad_data(f"block_size must, squared, divide the {channels} channels of input, got {block}")
    return [layout_shape((batches, height * block, width * block, channels // (block * block)), call.nchw)]


def _depth_to_space(call: Call) -> np.ndarray:
    block = call.block_size
    batches, height, width, _ = nhwc_shape(call.input.shape, call.nchw)
    shape = nhwc_shape(call.output.shape, call.nchw)
    blocks = to_nhwc(call.input.data, call.nchw).reshape(batches, height, width, block, block, shape[3])
    return from_nhwc(blocks.transpose(0, 1, 3, 2, 4, 5).reshape(shape), call.nchw)


def space_paddings(call: Call) -> list[list[int]]:
    """[[top, bottom], [left, right]] of a SPACE_TO_BATCH_ND."""
    check_shape(call.paddings, (2, 2))
    pairs: list[list[int]] = call.paddings.data.tolist()
    if min(map(min, pairs)) < 0:
        raise bad_data(f"paddings must not be negative, got {pairs}")
    return pairs


def _space_to_batch_shape(call: Call) -> list[Shape]:
    block_h, block_w = block_shape(call)
    batches, height, width, channels = nhwc_shape(call.input.shape, call.nchw)
    vertical, horizontal = space_paddings(call)
    height, width = height + sum(vertical), width + sum(horizontal)
    if height % block_h or width % block_w:
        raise bad_data(
            f"block_shape must divide the padded height {height} and width {width}, got {[block_h, block_w]}"
        )
    shape = (batches * block_h * block_w, height // block_h, width // block_w, channels)
    return [layout_shape(shape, call.nchw)]


def _space_to_batch(call: Call) -> np.ndarray:
    block_h, block_w = block_shape(call)
    fill = call.input.zero_point if is_quantised(call.input.code) else 0
    source = np.pad(to_nhwc(call.input.data, call.nchw), ((0, 0), *space_paddings(call), (0, 0)), constant_values=fill)
    shape = nhwc_shape(call.output.shape, call.nchw)
    blocks = source.reshape(source.shape[0], shape[1], block_h, shape[2], block_w, shape[3])
    return from_nhwc(blocks.transpose(2, 4, 0, 1, 3, 5).reshape(shape), call.nchw)


def _batch_to_space_shape(call: Call) -> list[Shape]:
    block_h, block_w = block_shape(call)
    batches, height, width, channels = nhwc_shape(call.input.shape, call.nchw)
    if batches % (block_h * block_w):
        raise bad_data(f"block_shape must divide the {batches} batches of input, got {[block_h, block_w]}")
    return [layout_shape((batches // (block_h * block_w), height * block_h, width * block_w, channels), call.nchw)]


def _batch_to_space(call: Call) -> np.ndarray:
    block_h, block_w = block_shape(call)
    _, height, width, channels = nhwc_shape(call.input.shape, call.nchw)
    shape = nhwc_shape(call.output.shape, call.nchw)
    blocks = to_nhwc(call.input.data, call.nchw).reshape(block_h, block_w, shape[0], height, width, channels)
    return from_nhwc(blocks.transpose(2, 3, 0, 4, 1, 5).reshape(shape), call.nchw)


# --- as boxes of the input ---------------------------------------------------------------------------------------


def _images(shape: Shape, nchw: bool) -> list[Dimension]:
    """Batches, rows, columns and channels of images, whatever their layout."""
    dimensions = dense_dimensions(shape)
    return [dimensions[axis] for axis in (_NCHW_AXES if nchw else range(4))]


def _box(
    nchw: bool,
    batches: Sequence[Dimension],
    rows: Sequence[Dimension],
    columns: Sequence[Dimension],
    channels: Sequence[Dimension],
) -> Box:
    """The box of images with these dimensions, in the order of their layout."""
    return Box((*batches, *channels, *rows, *columns) if nchw else (*batches, *rows, *columns, *channels))


def _blocks_of(dimension: Dimension, size: int) -> tuple[Dimension, Dimension]:
    """The blocks along a dimension, and the elements of a block."""
    elements, stride = dimension
    return (elements // size, stride * size), (size, stride)


def _in_blocks(dimension: Dimension, height: int, width: int) -> list[Dimension]:
    """Row in a block, column in a block, and the rest, of a dimension that has all three."""
    elements, stride = dimension
    left = elements // (height * width)
    return [(height, stride * left * width), (width, stride * left), (left, stride)]


def _space_to_depth_box(call: Call) -> list[Box]:
    batches, rows, columns, channels = _images(call.input.shape, call.nchw)
    (rows, in_row), (columns, in_column) = (_blocks_of(each, call.block_size) for each in (rows, columns))
    return [_box(call.nchw, [batches], [rows], [columns], [in_row, in_column, channels])]


def _depth_to_space_box(call: Call) -> list[Box]:
    batches, rows, columns, channels = _images(call.input.shape, call.nchw)
    in_row, in_column, channels = _in_blocks(channels, call.block_size, call.block_size)
    return [_box(call.nchw, [batches], [rows, in_row], [columns, in_column], [channels])]


def _batch_to_space_box(call: Call) -> list[Box]:
    batches, rows, columns, channels = _images(call.input.shape, call.nchw)
    in_row, in_column, batches = _in_blocks(batches, *block_shape(call))
    return [_box(call.nchw, [batches], [rows, in_row], [columns, in_column], [channels])]


def space_to_batch_box(call: Call, shape: Shape) -> Box:
    """The box of the padded input, of this shape, that the output of a SPACE_TO_BATCH_ND is."""
    batches, rows, columns, channels = _images(shape, call.nchw)
    height, width = block_shape(call)
    (rows, in_row), (columns, in_column) = _blocks_of(rows, height), _blocks_of(columns, width)
    return _box(call.nchw, [in_row, in_column, batches], [rows], [columns], [channels])


def _space_to_batch_boxes(call: Call) -> list[Box] | None:
    return None if any(map(any, space_paddings(call))) else [space_to_batch_box(call, call.input.shape)]


_NCHW_AXES = (0, 2, 3, 1)

_DEPTH = Signature(tensor("input", rank=4), i32("block_size"), LAYOUT)
_BLOCKS = (tensor("input", rank=4), tensor("block_shape", one_of(I32), rank=1))
_PADDINGS = tensor("paddings", one_of(I32), rank=2)

for _code, _types, _signature, _infer, _reference, _boxes in (
    (OperationCode.SPACE_TO_DEPTH, MOVED, _DEPTH, _space_to_depth_shape, _space_to_depth, _space_to_depth_box),
    (OperationCode.DEPTH_TO_SPACE, MOVED, _DEPTH, _depth_to_space_shape, _depth_to_space, _depth_to_space_box),
    (
        OperationCode.SPACE_TO_BATCH_ND,
        MOVED_2,
        Signature(*_BLOCKS, _PADDINGS, LAYOUT),
        _space_to_batch_shape,
        _space_to_batch,
        _space_to_batch_boxes,
    ),
    (
        OperationCode.BATCH_TO_SPACE_ND,
        MOVED_2,
        Signature(*_BLOCKS, LAYOUT),
        _batch_to_space_shape,
        _batch_to_space,
        _batch_to_space_box,
    ),
):
    define(
        _code,
        traits=Traits(foldable=False, fp16=Fp16.FOLLOWS, boxes=_boxes),
        types=_types,
        signatures=_signature,
        infer=_infer,
        reference=_reference,
        validate=keeps_quantisation(),
        wide=_signature is _DEPTH,
    )
