"""DEPTHWISE_CONV_2D on the GPU: a tile of pixels of four channels per invocation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.lowering.arrange import ARRANGE
from nnvk.driver.vulkan.lowering.convert import CONVERT
from nnvk.driver.vulkan.lowering.dtypes import F32, dtype, of
from nnvk.driver.vulkan.lowering.filter_output import Operands, accumulated, output_push, output_tensors
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import MOVE, move
from nnvk.driver.vulkan.lowering.product import refuse_long_sums
from nnvk.driver.vulkan.lowering.quantised import sign_mask
from nnvk.driver.vulkan.lowering.relayout import finish_output, nhwc_input, nhwc_output, round_up
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.depthwise_conv2d import depthwise_axes
from nnvk.ops.window import Axis, nhwc_shape
from nnvk.types.codes import OperationCode

SHADER = Shader("depthwise_conv2d", DTYPE=("f32", "f16", "q8"))

# What the shader's arrays hold.
_MAX_TAPS = 25
_MAX_COLUMNS = 9
_MAX_COLUMN_HEIGHT = 12
_LOCAL_CPU, _LOCAL_GPU = 8, 64


@dataclass(frozen=True, slots=True)
class Tile:
    """The output pixels of an invocation."""

    height: int
    width: int
    window_loops: bool = False
    """The window is too large to be held in registers."""


def choose_tile(vertical: Axis, horizontal: Axis, is_cpu: bool) -> Tile:
    """The more pixels a tile has, the fewer loads and the fewer invocations there are; on a CPU, loads count."""
    height, width = (4, 28) if is_cpu else (2, 4)
    height, width = min(height, vertical.out), min(width, horizontal.out)
    while height > 1 and (height - 1) * vertical.stride + vertical.reach > _MAX_COLUMN_HEIGHT:
        height -= 1
    fits = (
        vertical.window * horizontal.window <= _MAX_TAPS
        and vertical.reach <= _MAX_COLUMN_HEIGHT
        and max(horizontal.reach, horizontal.stride) <= _MAX_COLUMNS
    )
    return Tile(height, width) if fits else Tile(1, 1, window_loops=True)


def pack_weights(data: np.ndarray) -> np.ndarray:
    """A filter [1, height, width, channels] with channels padded to fours. What is in the padding is never used."""
    return np.pad(data, [(0, 0)] * 3 + [(0, -data.shape[3] % 4)])


def _weights(g: Lowering, filter_: Tensor) -> TensorRef:
    """The filter with channels padded to fours; 16-bit floats become 32-bit ones."""
    _, height, width, channels = filter_.shape
    floats = filter_.dtype.kind == "f"
    if channels % 4 and filter_.is_constant:
        return g.constant(pack_weights(filter_.data.astype(np.float32) if floats else filter_.data))
    source = accumulated(g, filter_) if floats else g.tensor(filter_)
    if channels % 4 == 0:
        return source
    padded, kind = round_up(channels, 4), F32 if floats else of(filter_)
    target = g.scratch(height * width * padded * kind.bits // 8)
    move(g, kind.moved, source, target, (height * width, channels), (channels, 1), (padded, 1))
    return target


def _refuse(call: Call) -> str:
    _, height, width, _ = call.filter.shape
    return refuse_long_sums((height, width), 1)


@kernel(OperationCode.DEPTHWISE_CONV_2D, shaders=(SHADER, ARRANGE, MOVE, CONVERT), refuse=_refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower DEPTHWISE_CONV_2D."""
    vertical, horizontal = depthwise_axes(call)
    _, height, width, channels = source_shape = nhwc_shape(call.input.shape, call.nchw)
    batches, out_height, out_width, out_channels = target_shape = nhwc_shape(call.output.shape, call.nchw)
    operands = Operands.of(call)
    kind = dtype(call.input)
    tile = choose_tile(vertical, horizontal, g.device.is_cpu)
    local = _LOCAL_CPU if g.device.is_cpu else _LOCAL_GPU
    invocations = batches * -(-out_height // tile.height) * -(-out_width // tile.width) * -(-out_channels // 4)
    source = nhwc_input(g, call.input, source_shape, call.nchw)
    target = nhwc_output(g, call.output, target_shape, call.nchw)
    mask = {"weight_sign_mask": sign_mask(call.filter)} if kind == "q8" else {}
    g.dispatch(
        SHADER.variant(DTYPE=kind),
        groups=g.flat(invocations, local),
        spec={
            "local_x": local,
            "KERNEL_HEIGHT": vertical.window,
            "KERNEL_WIDTH": horizontal.window,
            "STRIDE_Y": vertical.stride,
            "STRIDE_X": horizontal.stride,
            "DILATION_Y": vertical.dilation,
            "DILATION_X": horizontal.dilation,
            "TILE_HEIGHT": tile.height,
            "WINDOW_LOOPS": tile.window_loops,
            "VECTOR_LOADS": call.depth_multiplier == 1 and channels % 4 == 0,
            "VECTOR_STORES": out_channels % 4 == 0,
        },
        tensors={
            "src": source,
            "weights": _weights(g, call.filter),
            "dst": target,
            **output_tensors(g, operands, out_channels),
        },
        batch=batches,
        out_height=out_height,
        out_width=out_width,
        out_channels=out_channels,
        height=height,
        width=width,
        channels=channels,
        depth_multiplier=call.depth_multiplier,
        tile_width=tile.width,
        pad_top=vertical.before,
        pad_left=horizontal.before,
        **output_push(operands),
        **mask,
    )
    finish_output(g, target, call.output, target_shape, call.nchw)
