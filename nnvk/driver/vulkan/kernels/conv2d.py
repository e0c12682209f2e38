"""CONV_2D on the GPU: an implicit matrix product, which FULLY_CONNECTED shares."""

from __future__ import annotations

from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.arrange import ARRANGE
from nnvk.driver.vulkan.lowering.convert import CONVERT
from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.filters import (
    BLOCK,
    PACK_FILTER,
    accumulated,
    multipliers,
    packed_filter,
    quantisation_push,
    refuse_long_sums,
)
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import clamp
from nnvk.driver.vulkan.lowering.relayout import finish_output, nhwc_input, nhwc_output
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor
from nnvk.ops.conv2d import conv_axes
from nnvk.ops.window import Axis, nhwc_shape
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

SHADER = Shader("conv2d", DTYPE=("f32", "f16", "q8"), TILE=("cpu", "gpu"))

_LANES = 8
"""Invocations of a subgroup that TILE=cpu is made for."""
_GPU_COLUMNS = 64
"""Output channels of a workgroup of TILE=gpu."""
_GPU_LOCAL = {"local_x": 16, "local_y": 8}
_BUSY_GROUPS = 256
"""Workgroups with which a GPU is busy: below it, smaller tiles are worth their loads."""

_TILES = (8, 16, 24, 28, 32)
"""Output pixels of a workgroup of TILE=cpu; 28 divides the 196 pixels and half covers the 49 of common networks."""
# What a step of four channels costs a workgroup of TILE=cpu, in cycles: loads of weights, loads of input for eight
# rows, multiplications for one row. Measured on llvmpipe.
_STEP_COST = {"f32": (320, 80, 14), "f16": (320, 80, 14), "q8": (120, 80, 14)}


@dataclass(frozen=True, slots=True)
class Product:
    """The matrix product that a convolution is: geometry as the shader has it."""

    source: Shape
    """NHWC."""
    target: Shape
    """NHWC."""
    vertical: Axis
    horizontal: Axis

    @property
    def rows(self) -> int:
        """Output pixels of all batches."""
        return self.target[0] * self.target[1] * self.target[2]


def uses_subgroups(device: DeviceProfile) -> bool:
    """Whether TILE=cpu can run, and is the better one."""
    return device.is_cpu and device.subgroup_size == _LANES and device.features >= {"subgroupShuffle", "shaderInt64"}


def _span(channels: int, kind: str, subgroups: bool) -> int:
    """How many channels the shader can load at once."""
    if channels % 4:
        return 1
    return 8 if subgroups and kind == "f32" and channels % 8 == 0 else 4


def rows_per_group(rows: int, columns: int, kind: str, device: DeviceProfile) -> int:
    """How many output pixels a workgroup should compute."""
    if not uses_subgroups(device):
        for tile in (64, 32):
            if -(-rows // tile) * -(-columns // _GPU_COLUMNS) >= _BUSY_GROUPS:
                return tile
        return 16
    if rows < _LANES:
        return rows
    weights, inputs, products = _STEP_COST[kind]
    return min(
        _TILES,
        key=lambda tile: -(-rows // tile) * (weights + inputs * tile // _LANES + products * tile),
    )


def dispatch_product(
    g: Lowering, call: Call, filter_: Tensor, source: TensorRef, target: TensorRef, product: Product
) -> None:
    """Dispatch conv2d.comp for a call with the operands ``bias`` and ``activation``."""
    _, out_height, out_width, out_channels = product.target
    batches, height, width, channels = product.source
    kind = dtype(call.input)
    subgroups = uses_subgroups(g.device)
    rows = rows_per_group(product.rows, out_channels, kind, g.device)
    tiles = -(-product.rows // rows)
    layers = -(-tiles // g.device.max_groups)
    bytes_ = {"last_word": max(0, batches * height * width * channels - 1) // 4} if kind == "q8" else {}
    g.dispatch(
        SHADER.variant(DTYPE=kind, TILE="cpu" if subgroups else "gpu"),
        groups=(-(-tiles // layers), -(-out_channels // (BLOCK if subgroups else _GPU_COLUMNS)), layers),
        spec={
            **({"local_x": _LANES, "local_y": 1} if subgroups else _GPU_LOCAL),
            "ROWS": rows,
            "SPAN": _span(channels, kind, subgroups),
            "VECTOR_STORES": out_channels % 4 == 0,
        },
        tensors={
            "src": source,
            "weights": packed_filter(g, filter_),
            "bias": accumulated(g, call.bias),
            "dst": target,
            **multipliers(g, call, filter_, out_channels),
        },
        rows=product.rows,
        out_height=out_height,
        out_width=out_width,
        out_channels=out_channels,
        height=height,
        width=width,
        channels=channels,
        kernel_height=product.vertical.window,
        kernel_width=product.horizontal.window,
        stride_y=product.vertical.stride,
        stride_x=product.horizontal.stride,
        dilation_y=product.vertical.dilation,
        dilation_x=product.horizontal.dilation,
        pad_top=product.vertical.before,
        pad_left=product.horizontal.before,
        **clamp(call),
        **quantisation_push(call, filter_),
        **bytes_,
    )


def _refuse(call: Call) -> str:
    _, height, width, channels = call.filter.shape
    return refuse_long_sums((height, width), channels)


@kernel(OperationCode.CONV_2D, shaders=(SHADER, PACK_FILTER, ARRANGE, CONVERT), refuse=_refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower CONV_2D."""
    source = nhwc_input(g, call.input, call.nchw)
    target = nhwc_output(g, call.output, call.nchw)
    product = Product(
        nhwc_shape(call.input.shape, call.nchw), nhwc_shape(call.output.shape, call.nchw), *conv_axes(call)
    )
    dispatch_product(g, call, call.filter, source, target, product)
    finish_output(g, target, call.output, call.nchw)
