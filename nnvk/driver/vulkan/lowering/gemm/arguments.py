"""The arguments of a dispatch of gemm.comp or fully_connected.comp: workgroups, constants, push constants."""

from __future__ import annotations

import math

from nnvk.base.extents import hint
from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.divide import divisors_below
from nnvk.driver.vulkan.lowering.gemm import cooperative_matrix
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, GemmProblem, Split, Work
from nnvk.driver.vulkan.lowering.gemm.strategies import Strategy, by_elements, folds_zero_point, span
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import offset, sign_push
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

_MANY_WEIGHTS = 1 << 20
"""The number of weights from which they do not stay in a cache."""
_MOST_LINE_TAPS = 8
"""The most taps of a line of a window that are unrolled. Sums of bytes of 8 x 8 taps of 4 channels are exact."""


def tile_arguments(g: Lowering, problem: GemmProblem, strategy: Strategy) -> tuple[tuple[int, int, int], Arguments]:
    """The workgroups of a tile of gemm.comp, and the arguments that say nothing of the weights' layout."""
    operands, gemm, work = problem.operands, problem.gemm, problem.work
    groups, order = _grid(g, strategy, gemm, work)
    _, height, width = gemm.pixels
    magics, as_floats = divisors_below(g.device, gemm.rows, height=height, width=width)
    spec = _tile_spec(strategy, gemm, work, g.device) | order | as_floats
    push: dict[str, int] = gemm.push(work.line_taps if strategy.matrices is not None else 1) | magics
    if work.kind == "q8":
        spec |= {"SIGNED": bool(offset(operands.input)), "WEIGHTS_SIGNED": bool(offset(operands.weights.tensor))}
        if strategy.arithmetic == "dot" and folds_zero_point(strategy, work, g.device):
            spec["SETTLED"] = True
        push["last_word"] = max(0, math.prod(gemm.source) - 1) // 4
    elif work.kind != "q16" and strategy.arithmetic != "int8":
        push["weights_pitch"] = 0
    return groups, Arguments(spec, push=push)


def vector_arguments(problem: GemmProblem, strategy: Strategy) -> tuple[tuple[int, int, int], Arguments]:
    """The workgroups of fully_connected.comp, and the arguments that say nothing of the weights' layout."""
    (local_x, local_y), gemm = strategy.local, problem.gemm
    spec = {"local_x": local_x, "local_y": local_y, "VECTOR_STORES": gemm.columns % 4 == 0}
    push = {"inputs": gemm.depth, "src_pitch": gemm.depth, "out_channels": gemm.columns}
    push |= sign_push(problem.operands.input)
    return (gemm.rows, -(-gemm.columns // BLOCK), 1), Arguments(spec, push=push)


def memory_of_sums(g: Lowering, problem: GemmProblem, strategy: Strategy) -> Arguments:
    """The memory that workgroups leave their sums and count in if they share a tile's K."""
    if strategy.split_k == 1:
        return Arguments()
    tiles, invocations = strategy.tiles(problem.work), math.prod(strategy.local)
    nbytes = 8 if strategy.arithmetic == "half" else 32 if problem.operands.is_wide else 16
    sums = g.scratch(nbytes * tiles * strategy.split_k * strategy.sums * invocations)
    return Arguments(tensors={"sums": sums, "counters": g.counters(tiles * invocations)})


def _grid(
    g: Lowering, strategy: Strategy, gemm: Gemm, work: Work
) -> tuple[tuple[int, int, int], dict[str, int | bool]]:
    """The workgroups of a tile of gemm.comp, and the specialisation constants that say how they are ordered.

    Workgroups go through all blocks of output channels for each tile of pixels, so that lines of the output are written
    together and weights are reused from a cache. If the weights are many, and more than the input, the order is
    reversed.
    """
    pixels, blocks = strategy.tiles_of_part(work)
    pixels_inside = hint(gemm.taps * work.depth * work.columns) > max(hint(work.rows * work.depth), _MANY_WEIGHTS)
    inside, outside = (pixels, blocks) if pixels_inside else (blocks, pixels)
    grid = inside * strategy.split_k, outside, work.parts
    folded = any(count > g.device.max_groups for count in grid)
    order = {"PIXELS_INSIDE": pixels_inside, "FOLDED": folded}
    return g.flat(math.prod(grid), 1) if folded else grid, {name: True for name, is_so in order.items() if is_so}


def _tile_spec(strategy: Strategy, gemm: Gemm, work: Work, device: DeviceProfile) -> dict[str, int | bool]:
    """Specialisation constants of gemm.comp: those of all data types."""
    local_x, local_y = strategy.local
    spec: dict[str, int | bool] = {
        "ROWS": strategy.rows,
        "SPAN": span(strategy, work, device),
        "VECTOR_STORES": gemm.columns % 4 == 0,
        "SPLIT": int(gemm.split),
        "PADDED": gemm.is_padded,
        "ONE_TAP": gemm.has_one_tap,
        "SIDE_BY_SIDE": gemm.is_side_by_side,
        **gemm.steps,
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
    is_unrolled = (
        gemm.depth <= 4
        and 1 < gemm.taps <= _MOST_LINE_TAPS**2
        and gemm.horizontal.window <= _MOST_LINE_TAPS
        and gemm.split is not Split.PHASES
        and strategy.packed
        and strategy.split_k <= gemm.vertical.window
    )
    return gemm.horizontal.window if is_unrolled else 0
