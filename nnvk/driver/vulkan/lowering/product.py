"""Products: what convolutions, FULLY_CONNECTED and BATCH_MATMUL become, and the one way to dispatch them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from nnvk.driver.vulkan.lowering.arrange import ARRANGE
from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.filter_output import Operands, output_push, output_tensors
from nnvk.driver.vulkan.lowering.filters import BLOCK, FILTER_SHADERS, Filters, in_order, packed
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import sign_mask
from nnvk.driver.vulkan.lowering.relayout import finish_output, nhwc_input, nhwc_output
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.window import Axis
from nnvk.types.operand import Shape

PRODUCT = Shader("product", DTYPE=("f32", "f16", "i32", "q8"), TILE=("subgroup", "shared", "register"))
PRODUCT_SHADERS = (PRODUCT, ARRANGE, *FILTER_SHADERS)
"""All that `multiply` may dispatch."""

POINT = Axis(size=1, window=1, stride=1, dilation=1, before=0, after=0, out=1)
"""An axis along which nothing slides."""

_LANES = 8
"""Invocations of a subgroup that TILE=subgroup is made for."""
_SHARED_COLUMNS = 64
"""Output channels of a workgroup of TILE=shared."""
_LOCAL = {
    "subgroup": {"local_x": _LANES, "local_y": 1},
    "shared": {"local_x": 16, "local_y": 8},
    "register": {"local_x": 64, "local_y": 1},
}
_BUSY_GROUPS = 256
"""Workgroups with which a GPU is busy: below it, smaller tiles are worth their loads."""
_BUSY_INVOCATIONS = 1 << 14
"""Invocations with which a GPU is busy."""
_FEW_COLUMNS = {"subgroup": 4, "shared": 16}
"""Output channels of a part up to which TILE=register is faster than a tile that then is mostly empty."""
_FEW_ROWS = 8
"""Output pixels of a part up to which TILE=register, if it needs no packing, is faster than a tile that does."""

_ROWS = (8, 16, 24, 28, 32)
"""Output pixels of a workgroup of TILE=subgroup; 28 divides the 196 pixels and half covers the 49 of many networks."""
# What a step of four channels costs a workgroup of TILE=subgroup, in cycles: loads of weights, loads of input for eight
# rows, multiplications for one row. Measured on llvmpipe, but for those of i32, which take two instructions.
_STEP_COST = {"f32": (320, 80, 14), "f16": (320, 80, 14), "i32": (320, 80, 28), "q8": (120, 80, 14)}
_MAX_ITERATIONS = 65_000
"""Of all loops of an invocation together: llvmpipe ends them after 65,535."""


class Split(IntEnum):
    """What splits a product into parts that have filters, or taps of filters, of their own; as product.comp has it."""

    NOTHING = 1
    CHANNELS = 2
    """Groups of input channels give groups of output channels."""
    PHASES = 3
    """The output pixels of a transposed convolution that have the same remainders by the strides."""
    BATCHES = 4
    """Images, or matrices."""


@dataclass(frozen=True, slots=True)
class Product:
    """The geometry of a product, as the shader has it."""

    source: Shape
    """NHWC."""
    target: Shape
    """NHWC."""
    vertical: Axis
    horizontal: Axis
    split: Split = Split.NOTHING
    parts: int = 1

    @property
    def columns(self) -> int:
        """Output channels of a part."""
        return self.target[3] // self.pixel_parts

    @property
    def depth(self) -> int:
        """Input channels that a part sees."""
        return self.source[3] // self.pixel_parts

    @property
    def pixel_parts(self) -> int:
        """Parts that share pixels."""
        return self.parts if self.split is Split.CHANNELS else 1

    @property
    def parts_outside(self) -> bool:
        """Whether parts have their filters one after the other, not side by side."""
        return self.split is Split.BATCHES

    @property
    def rows(self) -> int:
        """Output pixels of a part, or the most that one has."""
        batches, height, width, _ = self.target
        if self.split is Split.BATCHES:
            batches = 1
        if self.split is Split.PHASES:
            height, width = -(-height // self.vertical.stride), -(-width // self.horizontal.stride)
        return batches * height * width


def refuse_long_sums(taps: tuple[int, int], channels: int) -> str:
    """Why a sum over the taps of a window (height, width) and over channels is too long; empty if it isn't."""
    height, width = taps
    iterations = height * (1 + width * (1 + -(-channels // 4)))
    if iterations <= _MAX_ITERATIONS:
        return ""
    sum_ = f"a sum over {height} x {width} x {channels} values"
    return f"{sum_} takes {iterations} steps, at most {_MAX_ITERATIONS} are safe"


# --- tiles ---------------------------------------------------------------------------------------------------


def uses_subgroups(device: DeviceProfile) -> bool:
    """Whether TILE=subgroup can run, and is better than TILE=shared."""
    return device.is_cpu and device.subgroup_size == _LANES and device.features >= {"subgroupShuffle", "shaderInt64"}


def tile_of(product: Product, filters: Filters, device: DeviceProfile) -> str:
    """The tile that is the fastest for a product."""
    tile = "subgroup" if uses_subgroups(device) else "shared"
    unpacked = not filters.tensor.is_constant and filters.is_in_order(product.parts_outside)
    few_rows = tile == "shared" and unpacked and product.rows <= _FEW_ROWS
    return "register" if few_rows or product.columns <= _FEW_COLUMNS[tile] else tile


def rows_of(tile: str, product: Product, kind: str, device: DeviceProfile) -> int:
    """How many output pixels a workgroup should compute, of TILE=register an invocation."""
    if tile == "register":
        columns, busy = product.parts * -(-product.columns // 4), 1 if device.is_cpu else _BUSY_INVOCATIONS
        return next((rows for rows in (8, 4, 2) if -(-product.rows // rows) * columns >= busy), 1)
    if tile == "shared":
        columns = product.parts * -(-product.columns // _SHARED_COLUMNS)
        return next((rows for rows in (64, 32) if -(-product.rows // rows) * columns >= _BUSY_GROUPS), 16)
    if product.rows < _LANES:
        return product.rows
    weights, inputs, products = _STEP_COST[kind]
    return min(
        _ROWS,
        key=lambda rows: -(-product.rows // rows) * (weights + inputs * rows // _LANES + products * rows),
    )


def _span(tile: str, product: Product, kind: str) -> int:
    """How many channels the shader can load at once."""
    if product.source[3] % 4 or product.depth % 4:
        return 1
    eights = product.source[3] % 8 == 0 and product.depth % 8 == 0
    return 8 if eights and tile == "subgroup" and kind in ("f32", "i32") else 4


# --- dispatches ----------------------------------------------------------------------------------------------


def multiply(
    g: Lowering,
    operands: Operands,
    filters: Filters,
    product: Product,
    nchw_input: bool = False,
    nchw_output: bool = False,
) -> None:
    """Compute the output of a product. Input and output are in NHWC or in NCHW order."""
    source = nhwc_input(g, operands.input, product.source, nchw_input)
    target = nhwc_output(g, operands.output, product.target, nchw_output, product.pixel_parts)
    kind = dtype(operands.input)
    tile = tile_of(product, filters, g.device)
    rows, columns = rows_of(tile, product, kind, g.device), product.columns
    tiles = -(-product.rows // rows) * product.parts
    if tile == "register":
        groups = g.flat(tiles * -(-columns // 4), _LOCAL[tile]["local_x"])
        weights = in_order(g, filters, product.parts_outside)
    else:
        groups = g.flat(tiles * -(-columns // (BLOCK if tile == "subgroup" else _SHARED_COLUMNS)), 1)
        weights = packed(g, filters)
    batches, height, width, channels = product.source
    vertical, horizontal = product.vertical, product.horizontal
    bytes_ = {"last_word": max(0, batches * height * width * channels - 1) // 4} if kind == "q8" else {}
    if kind == "q8" and tile == "register":
        bytes_["weight_sign_mask"] = sign_mask(operands.filter)
    g.dispatch(
        PRODUCT.variant(DTYPE=kind, TILE=tile),
        groups=groups,
        spec={
            **_LOCAL[tile],
            "ROWS": rows,
            "SPAN": _span(tile, product, kind),
            "VECTOR_STORES": columns % 4 == 0,
            "SPLIT": int(product.split),
        },
        tensors={
            "src": source,
            "weights": weights,
            "dst": target,
            **output_tensors(g, operands, columns, product.pixel_parts),
        },
        rows=product.rows,
        out_height=product.target[1],
        out_width=product.target[2],
        out_channels=columns,
        height=height,
        width=width,
        channels=channels,
        depth=product.depth,
        parts=product.parts,
        kernel_height=vertical.window,
        kernel_width=horizontal.window,
        stride_y=vertical.stride,
        stride_x=horizontal.stride,
        dilation_y=vertical.dilation,
        dilation_x=horizontal.dilation,
        pad_top=vertical.before,
        pad_left=horizontal.before,
        **output_push(operands),
        **bytes_,
    )
    finish_output(g, target, operands.output, product.target, nchw_output, product.pixel_parts)
