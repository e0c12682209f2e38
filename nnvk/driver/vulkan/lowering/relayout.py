"""Changes of layout: NCHW to NHWC and back, and pixels padded to fours of channels made dense."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.arrange import arrange
from nnvk.driver.vulkan.lowering.dtypes import F32, moved, of
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Tensor
from nnvk.ops.window import nhwc_shape


def round_up(count: int, multiple: int) -> int:
    """The least multiple that is not below ``count``."""
    return -(-count // multiple) * multiple


def nhwc_input(g: Lowering, tensor: Tensor, nchw: bool) -> TensorRef:
    """The tensor in NHWC order: itself, or a copy of one that is in NCHW order."""
    source = g.tensor(tensor)
    batches, height, width, channels = nhwc_shape(tensor.shape, nchw)
    if not nchw or channels == 1 or height * width == 1:
        return source
    target = g.scratch(tensor.size * tensor.dtype.itemsize)
    plane = height * width
    arrange(g, moved(tensor), source, target, [(batches, channels * plane), (plane, 1), (channels, plane)])
    return target


def nhwc_output(g: Lowering, tensor: Tensor, nchw: bool) -> TensorRef:
    """Where a shader writes a tensor in NHWC order, its pixels padded to fours of channels if these are not words.

    The tensor itself where that is its layout, else scratch from which `finish_output` makes it.
    """
    batches, height, width, channels = nhwc_shape(tensor.shape, nchw)
    padded = _padded_channels(tensor, channels)
    pixels = batches * height * width
    dense = padded == channels or pixels == 1
    in_order = not nchw or channels == 1 or height * width == 1
    return g.tensor(tensor) if dense and in_order else g.scratch(pixels * padded * tensor.dtype.itemsize)


def finish_output(g: Lowering, written: TensorRef, tensor: Tensor, nchw: bool) -> None:
    """Make the tensor of what was written where `nhwc_output` said."""
    target = g.tensor(tensor)
    if written == target:
        return
    batches, height, width, channels = nhwc_shape(tensor.shape, nchw)
    padded = _padded_channels(tensor, channels)
    plane = height * width
    rows = [(plane, padded), (channels, 1)]
    arrange(g, moved(tensor), written, target, [(batches, plane * padded), *(reversed(rows) if nchw else rows)])


def nchw_output(g: Lowering, written: TensorRef, tensor: Tensor) -> None:
    """Make an NCHW tensor of what was written in dense NHWC order."""
    batches, channels, height, width = tensor.shape
    plane = height * width
    box = [(batches, plane * channels), (channels, 1), (plane, channels)]
    arrange(g, moved(tensor), written, g.tensor(tensor), box)


def _padded_channels(tensor: Tensor, channels: int) -> int:
    return channels if of(tensor) is F32 else round_up(channels, 4)
