"""The arguments of a dispatch of gemm.comp that hold for all data types: workgroups, constants, push constants."""

from __future__ import annotations

import math

from nnvk.base.extents import hint
from nnvk.driver.vulkan.lowering.gemm import cooperative_matrix
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, Split
from nnvk.driver.vulkan.lowering.gemm.strategies import Strategy, Work, by_elements, span
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

_MANY_WEIGHTS = 1 << 20
"""The number of weights from which they do not stay in a cache."""
_MOST_LINE_TAPS = 8
"""The most taps of a line of a window that are unrolled. Sums of bytes of 8 x 8 taps of 4 channels are exact."""


def grid(g: Lowering, strategy: Strategy, gemm: Gemm, work: Work) -> tuple[tuple[int, int, int], dict[str, int | bool]]:
    """The workgroups of a tile of gemm.comp, and the specialisation constants that say how they are ordered.

    Workgroups go through all blocks of output channels for each tile of pixels, so that lines of the output are written
    together and weights are reused from a cache. If the weights are many, and more than the input, the order is
    reversed.
    """
    pixels, blocks = strategy.tiles_of_part(work)
    taps = gemm.vertical.window * gemm.horizontal.window
    pixels_inside = hint(taps * work.depth * work.columns) > max(hint(work.rows * work.depth), _MANY_WEIGHTS)
    inside, outside = (pixels, blocks) if pixels_inside else (blocks, pixels)
    grid = inside * strategy.split_k, outside, work.parts
    folded = any(count > g.device.max_groups for count in grid)
    order = {"PIXELS_INSIDE": pixels_inside, "FOLDED": folded}
    return g.flat(math.prod(grid), 1) if folded else grid, {name: True for name, is_so in order.items() if is_so}


def tile_spec(strategy: Strategy, gemm: Gemm, work: Work, device: DeviceProfile) -> dict[str, int | bool]:
    """Specialisation constants of gemm.comp: those of all data types."""
    local_x, local_y = strategy.local
    vertical, horizontal = gemm.axes
    spec: dict[str, int | bool] = {
        "ROWS": strategy.rows,
        "SPAN": span(strategy, work, device),
        "VECTOR_STORES": gemm.columns % 4 == 0,
        "SPLIT": int(gemm.split),
        "PADDED": gemm.is_padded,
        "ONE_TAP": gemm.has_one_tap,
        "SIDE_BY_SIDE": gemm.is_side_by_side,
        "STRIDE_Y": vertical.stride,
        "STRIDE_X": horizontal.stride,
        "DILATION_Y": vertical.dilation,
        "DILATION_X": horizontal.dilation,
        "FEW": min(gemm.depth, 4),
    }
    if strategy.split_k > 1:
        spec["SPLIT_K"] = strategy.split_k
    if strategy.matrices is not None:
        # The phases of a transposed convolution have different numbers of taps.
        taps, depth = work.in_lines
        if work.line_taps > 1:
            spec["LINE_TAPS"] = work.line_taps
        return spec | cooperative_matrix.constants(
            strategy.matrices, work.kind, 0 if gemm.split is Split.PHASES else taps, depth
        )
    if strategy.tile in ("register", "quads"):
        spec |= {"local_x": local_x * local_y, "ACROSS": local_x, "VEC4S": strategy.vec4s, "PACKED": strategy.packed}
        if strategy.tile == "register":
            spec["WHOLE_COLUMNS"] = gemm.columns % (4 * strategy.vec4s) == 0
        if by_elements(strategy, work, device):
            spec |= {"BY_ELEMENTS": True, "LINE_TAPS": _line_taps(strategy, gemm)}
        return spec
    spec |= {"local_x": local_x, "local_y": local_y}
    if strategy.is_staged:
        whole = gemm.depth % (4 * strategy.stage) == 0
        spec |= {"VEC4S": strategy.vec4s, "STAGE": strategy.stage, "WHOLE_STAGES": whole, "TOGETHER": strategy.together}
        if not strategy.packed:
            spec["WEIGHT_LAYOUT"] = int(work.order)
    return spec


def _line_taps(strategy: Strategy, gemm: Gemm) -> int:
    """LINE_TAPS of register.glsl: the taps of a line of a window whose loop is unrolled, or 0.

    Taps of few channels take more instructions for their addresses than for their products, unless these are known.
    """
    taps = gemm.vertical.window * gemm.horizontal.window
    is_unrolled = (
        gemm.depth <= 4
        and 1 < taps <= _MOST_LINE_TAPS**2
        and gemm.horizontal.window <= _MOST_LINE_TAPS
        and gemm.split is not Split.PHASES
        and strategy.packed
        and strategy.split_k <= gemm.vertical.window
    )
    return gemm.horizontal.window if is_unrolled else 0


def tile_push(gemm: Gemm, source_parts: int, line_taps: int = 1) -> dict[str, int]:
    """Push constants of gemm.comp: those of all data types. ``line_taps`` neighbouring taps are one."""
    _, height, width, channels = gemm.source
    _, out_height, out_width, _ = gemm.target
    return {
        "rows": gemm.rows,
        "out_height": out_height,
        "out_width": out_width,
        "out_channels": gemm.columns,
        "height": height,
        "width": width,
        "channels": channels * source_parts,
        "depth": gemm.depth * line_taps,
        "parts": gemm.parts,
        "kernel_height": gemm.vertical.window,
        "kernel_width": gemm.horizontal.window // line_taps,
        "pad_top": gemm.vertical.before,
        "pad_left": gemm.horizontal.before,
    }


def push_by_channel(gemm: Gemm) -> dict[str, int]:
    """Push constants of the shaders that verify convolutions whose filters see a channel each: their geometry."""
    (_, height, width, channels), (_, out_height, out_width, outputs) = gemm.source, gemm.target
    return {
        "rows": gemm.rows,
        "out_channels": outputs,
        "out_height": out_height,
        "out_width": out_width,
        "height": height,
        "width": width,
        "channels": channels,
        "depth_multiplier": outputs // channels,
        "kernel_height": gemm.vertical.window,
        "pad_top": gemm.vertical.before,
        "pad_left": gemm.horizontal.before,
    }
