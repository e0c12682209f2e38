"""What the kernels of convolutions and FULLY_CONNECTED share: packing, quantisation, the end of the sums."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.convert import as_float32
from nnvk.driver.vulkan.lowering.dtypes import F32, I32, dtype, of
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import sign_mask, sign_push, zero_point
from nnvk.driver.vulkan.lowering.relayout import round_up
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.linear import output_multipliers

PACK_FILTER = Shader("pack_filter", DTYPE=("f32", "f16", "q8"))

BLOCK = 32
"""Output channels in a block of a packed filter."""
_LOCAL = 64
_MAX_ITERATIONS = 65_000
"""Of all loops of an invocation together: llvmpipe ends them after 65,535."""


def refuse_long_sums(taps: tuple[int, int], channels: int) -> str:
    """Why a sum over the taps of a window (height, width) and over channels is too long; empty if it isn't."""
    height, width = taps
    iterations = height * (1 + width * (1 + -(-channels // 4)))
    if iterations <= _MAX_ITERATIONS:
        return ""
    sum_ = f"a sum over {height} x {width} x {channels} values"
    return f"{sum_} takes {iterations} steps, at most {_MAX_ITERATIONS} are safe"


def unsigned_bytes(data: np.ndarray) -> np.ndarray:
    """int8 moved by 128 to uint8; uint8 as it is."""
    return data if data.dtype == np.uint8 else data.view(np.uint8) ^ np.uint8(0x80)


def pack_filter(data: np.ndarray, fill: int = 0) -> np.ndarray:
    """A filter [output channels, taps, channels] as conv2d.comp and fully_connected.comp read it.

    Output channels are in blocks of eight fours, channels in fours; both are padded with ``fill``. uint8: [blocks,
    taps, fours of channels, 8, 4, 4], so that the four bytes of a word are neighbouring channels. float32: [blocks,
    taps, fours of channels, 2, 8, 2, 4], so that a lane finds two steps of K for its four output channels together.
    """
    outputs, taps, channels = data.shape
    padded = np.full((round_up(outputs, BLOCK), taps, round_up(channels, 4)), fill, data.dtype)
    padded[:outputs, :, :channels] = data
    blocks = padded.reshape(-1, BLOCK // 4, 4, taps, padded.shape[2] // 4, 2, 2)
    if data.dtype == np.float32:
        return np.ascontiguousarray(blocks.transpose(0, 3, 4, 5, 1, 6, 2))
    return np.ascontiguousarray(blocks.transpose(0, 3, 4, 1, 2, 5, 6))


def packed_filter(g: Lowering, filter_: Tensor) -> TensorRef:
    """`pack_filter` of an operand [output channels, ..., channels]: now if it is constant, else by a shader.

    16-bit floats become 32-bit ones.
    """
    outputs, *window, channels = filter_.shape
    taps = int(np.prod(window))
    floats = filter_.dtype.kind == "f"
    if filter_.is_constant:
        data = filter_.data.reshape(outputs, taps, channels)
        if floats:
            return g.constant(pack_filter(data.astype(np.float32, copy=False)))
        return g.constant(pack_filter(unsigned_bytes(data), zero_point(filter_)))
    words = round_up(outputs, BLOCK) * taps * round_up(channels, 4) // (1 if floats else 4)
    packed = g.scratch(words * 4)
    quantisation = {} if floats else {**sign_push(filter_), "fill": zero_point(filter_)}
    g.dispatch(
        PACK_FILTER.variant(DTYPE=dtype(filter_)),
        groups=g.flat(words, _LOCAL),
        spec={"local_x": _LOCAL},
        tensors={"src": g.tensor(filter_), "dst": packed},
        words=words,
        out_channels=outputs,
        taps=taps,
        channels=channels,
        **quantisation,
    )
    return packed


def accumulated(g: Lowering, tensor: Tensor) -> TensorRef:
    """A bias, or weights that need no packing, in the type of the sums: 16-bit floats become 32-bit ones."""
    if of(tensor) in (F32, I32):
        return g.tensor(tensor)
    return g.constant(tensor.data.astype(np.float32)) if tensor.is_constant else as_float32(g, tensor)


def quantisation_push(call: Call, filter_: Tensor) -> dict[str, int]:
    """The push constants of q8 variants; nothing for floats."""
    if call.input.dtype.kind == "f":
        return {}
    return {
        "sign_mask": sign_mask(call.input),
        "input_zero": zero_point(call.input),
        "weight_zero": zero_point(filter_),
        "output_zero": zero_point(call.output),
    }


def multipliers(g: Lowering, call: Call, filter_: Tensor, outputs: int) -> dict[str, TensorRef]:
    """The tensor of q8 variants with four mantissas and four shifts for each four outputs; nothing for floats."""
    if call.input.dtype.kind == "f":
        return {}
    pairs = np.zeros((2, round_up(outputs, 4)), np.int32)
    pairs[:, :outputs] = np.stack(output_multipliers(call.code, call.input, filter_, call.output)).reshape(2, -1)
    return {"multipliers": g.constant(np.ascontiguousarray(pairs.reshape(2, -1, 4).transpose(1, 0, 2)))}
