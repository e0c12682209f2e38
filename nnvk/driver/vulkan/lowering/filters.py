"""Filters as shaders read them: where they lie in operands, packed or in order, constant or made by a shader."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.lowering.convert import CONVERT, as_float32
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, Q8, dtype, of
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import MOVE, dense_strides, move
from nnvk.driver.vulkan.lowering.quantised import sign_push, zero_point
from nnvk.driver.vulkan.lowering.relayout import round_up
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Tensor

PACK_FILTER = Shader("pack_filter", DTYPE=("f32", "f16", "i32", "q8"))
FILTER_SHADERS = (PACK_FILTER, MOVE, CONVERT)
"""All that this module may dispatch."""

BLOCK = 32
"""Output channels in a block of packed filters."""
_LOCAL = 64
_PARTS_INSIDE, _PARTS_OUTSIDE = (2, 3, 0, 1), (0, 2, 3, 1)
"""Orders of parts, output channels, taps, channels in which the output channels are innermost."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a product: where their weights lie in an operand."""

    tensor: Tensor
    parts: int
    """Equal parts of the product that have filters of their own."""
    outputs: int
    """Output channels of a part."""
    taps: int
    channels: int
    """That a filter sees."""
    strides: tuple[int, int, int, int]
    """Elements from a part, output channel, tap and channel to the next."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Parts, output channels, taps, channels."""
        return self.parts, self.outputs, self.taps, self.channels

    def sizes_and_strides(self, parts_outside: bool) -> tuple[list[int], list[int]]:
        """Sizes and strides of [taps, channels, parts, output channels], or with the parts around all."""
        axes = _PARTS_OUTSIDE if parts_outside else _PARTS_INSIDE
        return [self.shape[axis] for axis in axes], [self.strides[axis] for axis in axes]

    def is_in_order(self, parts_outside: bool) -> bool:
        """Whether `in_order` gives the operand itself."""
        sizes, strides = self.sizes_and_strides(parts_outside)
        dense = all(
            size == 1 or stride == step for size, stride, step in zip(sizes, strides, dense_strides(sizes), strict=True)
        )
        return dense and self.outputs % 4 == 0 and of(self.tensor) is not F16

    def weights(self) -> np.ndarray:
        """The weights of a constant operand in this shape (a view)."""
        flat = self.tensor.data.reshape(-1)
        return np.lib.stride_tricks.as_strided(
            flat, self.shape, [flat.itemsize * stride for stride in self.strides], writeable=False
        )


def filters_of(tensor: Tensor, parts: int = 1) -> Filters:
    """An operand [output channels, ..., channels], the taps of a window between them."""
    outputs, *window, channels = tensor.shape
    shape = (parts, outputs // parts, math.prod(window), channels)
    part, output, tap, channel = dense_strides(shape)
    return Filters(tensor, *shape, (part, output, tap, channel))


def unsigned_bytes(data: np.ndarray) -> np.ndarray:
    """int8 moved by 128 to uint8; uint8 as it is."""
    return data if data.dtype == np.uint8 else data.view(np.uint8) ^ np.uint8(0x80)


# --- packed --------------------------------------------------------------------------------------------------


def pack(data: np.ndarray, fill: int = 0) -> np.ndarray:
    """Filters [parts, output channels, taps, channels] as product.comp's blocks and fully_connected.comp read them.

    Output channels of a part are in blocks of eight fours, channels in fours; both are padded with ``fill``. uint8:
    [parts, blocks, taps, fours of channels, 8, 4, 4], so that the four bytes of a word are neighbouring channels. 32
    bits: [parts, blocks, taps, fours of channels, 2, 8, 2, 4], so that a lane finds two steps of K for its four output
    channels together.
    """
    parts, outputs, taps, channels = data.shape
    padded = np.full((parts, round_up(outputs, BLOCK), taps, round_up(channels, 4)), fill, data.dtype)
    padded[:, :outputs, :, :channels] = data
    blocks = padded.reshape(-1, BLOCK // 4, 4, taps, padded.shape[3] // 4, 2, 2)
    if data.dtype == np.uint8:
        return np.ascontiguousarray(blocks.transpose(0, 3, 4, 1, 2, 5, 6))
    return np.ascontiguousarray(blocks.transpose(0, 3, 4, 5, 1, 6, 2))


def packed(g: Lowering, filters: Filters) -> TensorRef:
    """`pack` of filters: now and once if they are constant, else by a shader. 16-bit floats become 32-bit ones."""
    tensor = filters.tensor
    steps = of(tensor) is Q8
    if tensor.is_constant:

        def pack_now() -> np.ndarray:
            weights = _widened(filters.weights())
            return pack(unsigned_bytes(weights), zero_point(tensor)) if steps else pack(weights)

        return g.constant_form(tensor, ("packed", filters.shape, filters.strides), pack_now)
    parts, outputs, taps, channels = filters.shape
    words = parts * round_up(outputs, BLOCK) * taps * round_up(channels, 4) // (4 if steps else 1)
    target = g.scratch(4 * words)
    part, output, tap, channel = filters.strides
    quantisation = {**sign_push(tensor), "fill": zero_point(tensor)} if steps else {}
    g.dispatch(
        PACK_FILTER.variant(DTYPE=dtype(tensor)),
        groups=g.flat(words // 4, _LOCAL),
        spec={"local_x": _LOCAL},
        tensors={"src": g.tensor(tensor), "dst": target},
        count=words // 4,
        out_channels=outputs,
        taps=taps,
        channels=channels,
        part_stride=part,
        output_stride=output,
        tap_stride=tap,
        channel_stride=channel,
        **quantisation,
    )
    return target


# --- in order ------------------------------------------------------------------------------------------------


def in_order(g: Lowering, filters: Filters, parts_outside: bool) -> TensorRef:
    """Filters as product.comp reads them into registers: [taps, channels, parts, output channels padded to fours].

    The operand itself where it is like that. ``parts_outside``: the parts are not there, but around all. What is in the
    padding is never used. 16-bit floats become 32-bit ones; bytes stay as they are.
    """
    tensor = filters.tensor
    if filters.is_in_order(parts_outside):
        return g.tensor(tensor)
    sizes, strides = filters.sizes_and_strides(parts_outside)
    padded = [*sizes[:3], round_up(sizes[3], 4)]
    if tensor.is_constant:

        def order_now() -> np.ndarray:
            weights = _widened(filters.weights()).transpose(_PARTS_OUTSIDE if parts_outside else _PARTS_INSIDE)
            return np.pad(weights, [(0, 0)] * 3 + [(0, padded[3] - sizes[3])])

        return g.constant_form(tensor, ("in order", filters.shape, filters.strides, parts_outside), order_now)
    kind = F32 if of(tensor) is F16 else of(tensor)
    target = g.scratch(math.prod(padded) * kind.bits // 8)
    source = as_float32(g, tensor) if of(tensor) is F16 else g.tensor(tensor)
    move(g, kind.moved, source, target, sizes, strides, dense_strides(padded))
    return target


def _widened(weights: np.ndarray) -> np.ndarray:
    return weights.astype(np.float32) if weights.dtype == np.float16 else weights
