"""Pixels that are padded to vec4s of channels, and made dense."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.copies.arrange import arrange
from nnvk.driver.vulkan.lowering.dtypes import F16, moved, of
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Tensor
from nnvk.ops.strided import Box
from nnvk.types.operand import Shape


def round_up(count: int, multiple: int) -> int:
    """The least multiple that is not below ``count``."""
    return -(-count // multiple) * multiple


def pixels_of(g: Lowering, tensor: Tensor, shape: Shape, parts: int = 1) -> TensorRef:
    """Where a shader writes a tensor as pixels of an NHWC shape; `finish_pixels` makes the tensor of it.

    Equal ``parts`` of pixels are padded to vec4s of channels where elements are packed in words. The tensor itself
    where that is its layout, else scratch.
    """
    if are_pixels_dense(g.device, tensor, shape, parts):
        return g.tensor(tensor)
    *image, channels = shape
    padded = _padded_channels(g.device, tensor, channels, parts)
    return g.scratch(math.prod(image) * padded * tensor.dtype.itemsize)


def are_pixels_dense(device: DeviceProfile, tensor: Tensor, shape: Shape, parts: int = 1) -> bool:
    """Whether shaders write a tensor as pixels of an NHWC shape without padding."""
    *image, channels = shape
    padded = _padded_channels(device, tensor, channels, parts)
    return padded == channels or (math.prod(image) == 1 and parts == 1)


def finish_pixels(g: Lowering, written: TensorRef, tensor: Tensor, shape: Shape, parts: int = 1) -> None:
    """Make the dense tensor of what was written where `pixels_of` said."""
    target = g.tensor(tensor)
    if written == target:
        return
    *image, channels = shape
    padded = _padded_channels(g.device, tensor, channels, parts)
    box = Box(((math.prod(image), padded), (parts, padded // parts), (channels // parts, 1)))
    arrange(g, moved(tensor), written, target, box)
    g.note_arranged(target, written, box)


def has_padded_pixels(device: DeviceProfile, tensor: Tensor) -> bool:
    """Whether shaders pad the channels of a tensor's pixels, so that a copy has to make the tensor dense."""
    channels = tensor.shape[-1] if tensor.rank else 1
    return _padded_channels(device, tensor, channels, 1) != channels


def _padded_channels(device: DeviceProfile, tensor: Tensor, channels: int, parts: int) -> int:
    stored_alone = of(tensor).bits == 32 or (of(tensor) is F16 and device.has_native_16)
    return channels if stored_alone else parts * round_up(channels // parts, 4)
