"""Strided copies: NCHW to NHWC and back, and pixels padded to fours of channels made dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnvk.driver.vulkan.quantised import dtype
from nnvk.driver.vulkan.shader import Shader
from nnvk.ops.call import Tensor
from nnvk.ops.window import nhwc_shape
from nnvk.types.operand import Shape

if TYPE_CHECKING:
    from nnvk.driver.vulkan.lowering import Lowering
    from nnvk.driver.vulkan.plan import TensorRef

RELAYOUT = Shader("relayout", DTYPE=("f32", "q8"))
_LOCAL = 64
_ELEMENTS = 4
"""Elements that an invocation copies."""


def round_up(count: int, multiple: int) -> int:
    """The least multiple that is not below ``count``."""
    return -(-count // multiple) * multiple


def strided_copy(
    g: Lowering, kind: str, source: TensorRef, target: TensorRef, shape: Shape, strides: Sequence[int], depth: int = 0
) -> None:
    """Fill a dense target of ``shape`` (four dimensions) from elements (``kind``: f32 or q8) at ``strides``.

    Where ``depth`` is given, only so many indexes along the last dimension exist in the source.
    """
    size = shape[0] * shape[1] * shape[2] * shape[3]
    g.dispatch(
        RELAYOUT.variant(DTYPE=kind),
        groups=g.flat(-(-size // _ELEMENTS), _LOCAL),
        spec={"local_x": _LOCAL},
        tensors={"src": source, "dst": target},
        size=size,
        height=shape[1],
        width=shape[2],
        depth=shape[3],
        stride_n=strides[0],
        stride_y=strides[1],
        stride_x=strides[2],
        stride_c=strides[3],
        source_depth=depth or shape[3],
    )


def nhwc_input(g: Lowering, tensor: Tensor, nchw: bool) -> TensorRef:
    """The tensor in NHWC order: itself, or a copy of one that is in NCHW order."""
    source = g.tensor(tensor)
    _, height, width, channels = shape = nhwc_shape(tensor.shape, nchw)
    if not nchw or channels == 1 or height * width == 1:
        return source
    target = g.scratch(tensor.size * tensor.dtype.itemsize)
    plane = height * width
    strided_copy(g, dtype(tensor), source, target, shape, (channels * plane, width, 1, plane))
    return target


def nhwc_output(g: Lowering, tensor: Tensor, nchw: bool) -> TensorRef:
    """Where a shader writes a tensor in NHWC order; the pixels of bytes are padded to fours of channels.

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
    image = height * width * padded
    if nchw:
        shape, strides = (batches, channels, height, width), (image, 1, width * padded, padded)
    else:
        shape, strides = (batches, height, width, channels), (image, width * padded, padded, 1)
    strided_copy(g, dtype(tensor), written, target, shape, strides)


def nchw_output(g: Lowering, written: TensorRef, tensor: Tensor) -> None:
    """Make an NCHW tensor of what was written in dense NHWC order."""
    batches, channels, height, width = tensor.shape
    strides = (height * width * channels, 1, width * channels, channels)
    strided_copy(g, dtype(tensor), written, g.tensor(tensor), (batches, channels, height, width), strides)


def _padded_channels(tensor: Tensor, channels: int) -> int:
    return channels if dtype(tensor) == "f32" else round_up(channels, 4)
