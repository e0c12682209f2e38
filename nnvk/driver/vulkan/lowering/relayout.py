"""Changes of layout: NCHW to NHWC and back, and pixels padded to vec4s of channels made dense."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.arrange import arrange
from nnvk.driver.vulkan.lowering.dtypes import F16, moved, of
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Tensor
from nnvk.types.operand import Shape


def round_up(count: int, multiple: int) -> int:
    """The least multiple that is not below ``count``."""
    return -(-count // multiple) * multiple


def nhwc_input(g: Lowering, tensor: Tensor, shape: Shape, nchw: bool = False) -> TensorRef:
    """The tensor in the order of an NHWC shape: itself, or a copy of one that is in NCHW order."""
    source = g.tensor(tensor)
    batches, height, width, channels = shape
    if not nchw or channels == 1 or height * width == 1:
        return source
    target = g.scratch(tensor.size * tensor.dtype.itemsize)
    plane = height * width
    arrange(g, moved(tensor), source, target, [(batches, channels * plane), (plane, 1), (channels, plane)])
    return target


def nhwc_output(g: Lowering, tensor: Tensor, shape: Shape, nchw: bool = False, parts: int = 1) -> TensorRef:
    """Where a shader writes a tensor as pixels of an NHWC shape; `finish_output` makes the tensor of it.

    Equal ``parts`` of pixels are padded to vec4s of channels where elements are packed in words. The tensor itself
    where that is its layout, else scratch.
    """
    *image, channels = shape
    padded, pixels = _padded_channels(g, tensor, channels, parts), math.prod(image)
    dense = padded == channels or (pixels == 1 and parts == 1)
    in_order = not nchw or channels == 1 or math.prod(image[1:]) == 1
    return g.tensor(tensor) if dense and in_order else g.scratch(pixels * padded * tensor.dtype.itemsize)


def finish_output(
    g: Lowering, written: TensorRef, tensor: Tensor, shape: Shape, nchw: bool = False, parts: int = 1
) -> None:
    """Make the tensor of what was written where `nhwc_output` said."""
    target = g.tensor(tensor)
    if written == target:
        return
    batches, height, width, channels = shape
    padded, plane = _padded_channels(g, tensor, channels, parts), height * width
    pixels, of_pixel = (plane, padded), [(parts, padded // parts), (channels // parts, 1)]
    rows = [*of_pixel, pixels] if nchw else [pixels, *of_pixel]
    arrange(g, moved(tensor), written, target, [(batches, plane * padded), *rows])


def nchw_output(g: Lowering, written: TensorRef, tensor: Tensor) -> None:
    """Make an NCHW tensor of what was written in dense NHWC order."""
    batches, channels, height, width = tensor.shape
    plane = height * width
    box = [(batches, plane * channels), (channels, 1), (plane, channels)]
    arrange(g, moved(tensor), written, g.tensor(tensor), box)


def _padded_channels(g: Lowering, tensor: Tensor, channels: int, parts: int) -> int:
    stored_alone = of(tensor).bits == 32 or (of(tensor) is F16 and g.device.has_native_16)
    return channels if stored_alone else parts * round_up(channels // parts, 4)
