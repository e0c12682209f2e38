"""GEMMs: what convolutions, FULLY_CONNECTED and BATCH_MATMUL become, and the one way to dispatch them."""

from __future__ import annotations

import math

import numpy as np

from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.compared import Checked
from nnvk.driver.vulkan.lowering.copies.arrange import ARRANGE
from nnvk.driver.vulkan.lowering.copies.relayout import are_pixels_dense
from nnvk.driver.vulkan.lowering.copies.side_by_side import Matrices, read
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, I32, Q8, dtype, of
from nnvk.driver.vulkan.lowering.gemm import half_weights, separable
from nnvk.driver.vulkan.lowering.gemm.epilogue import (
    FilterOutput,
    Target,
    bias_of,
    bias_words,
    filter_output,
    has_narrow_sums,
    narrowed,
)
from nnvk.driver.vulkan.lowering.gemm.problem import POINT, Gemm, GemmProblem, Operands, Split, WeightLayout, Work
from nnvk.driver.vulkan.lowering.gemm.strategies import ranked
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.lowering.gemm.tiles import GEMM
from nnvk.driver.vulkan.lowering.gemm.vector import VECTOR
from nnvk.driver.vulkan.lowering.gemm.verification import checksum, exact
from nnvk.driver.vulkan.lowering.gemm.weights import (
    WEIGHT_SHADERS,
    Weights,
    fit_four_bits,
    may_be_float16,
)
from nnvk.driver.vulkan.lowering.lowering import REPRODUCIBLE, Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call

GEMM_SHADERS = (GEMM, VECTOR, ARRANGE, *WEIGHT_SHADERS, checksum.CHECKSUM, exact.EXACT)
"""All that `lower_gemm` may dispatch."""

FROM_FLOATS = "FROM_FLOATS"
"""The specialisation constant by which float16 variants of gemm.comp read a float32 input."""

_MAX_ITERATIONS = 65_000
"""The most rounds of all loops of an invocation together: llvmpipe ends them after 65,535."""


def refuse_long_sums(taps: tuple[int, int], channels: int) -> str | None:
    """Why a sum over the taps of a window (height, width) and over channels is too long; empty if it isn't."""
    height, width = taps
    iterations = height * (1 + width * (1 + -(-channels // 4)))
    if iterations <= _MAX_ITERATIONS:
        return None
    sum_ = f"a sum over {height} x {width} x {channels} values"
    return f"{sum_} takes {iterations} iterations, at most {_MAX_ITERATIONS} are safe"


def epilogue_channels(call: Call, device: DeviceProfile, parts: int = 1) -> int | None:
    """The channels of the pixels that a call's GEMM stores, if it can have an epilogue; None if it can't.

    ``parts``: the equal parts that share a pixel. Pixels must not be padded, and those of bytes must be whole words.
    """
    output, type_ = call.output, of(call.output)
    *_, channels = output.shape
    if type_ not in (F32, F16, Q8) or not output.size or (type_ is Q8 and channels // parts % 4):
        return None
    shape = math.prod(output.shape[:-1]), 1, 1, channels
    return channels if are_pixels_dense(device, output, shape, parts) else None


def has_few_channels(depth: int) -> bool:
    """Whether input channels are loaded one by one, as those of `Operands.wide_input` are.

    Others are loaded as vectors, and for every block of output channels again, so that a float16 copy pays.
    """
    return depth % 4 != 0


# --- from the problem to the dispatch ------------------------------------------------------------------------


def lower_gemm(g: Lowering, operands: Operands, gemm: Gemm) -> None:
    """Compute the output of a GEMM, by the strategy that is thought or was measured to be the fastest."""
    problem = GemmProblem(operands, gemm, work_of(g, operands, gemm))
    lower_gemm_by(g, problem, best_strategy(g, problem))


def work_of(g: Lowering, operands: Operands, gemm: Gemm) -> Work:
    """The description of a GEMM that strategies are chosen by."""
    weights, kind, (vertical, horizontal) = operands.weights, dtype(operands.input), gemm.axes
    native = kind == F16.name and g.device.has_native_16 and not g.adds_in_order
    float16 = native and may_be_float16(g, weights)
    float16_split_k = native and may_be_float16(g, weights, split_k=True)
    if operands.depthwise is not None:
        return separable.work_of(operands.depthwise, gemm, float16=float16, float16_split_k=float16_split_k)
    constant, lies_in_order = weights.tensor.is_constant, weights.is_in_order(gemm.parts_outside, g.device)
    taps = gemm.taps
    if gemm.split is Split.PHASES:
        taps = -(-vertical.window // vertical.stride) * -(-horizontal.window // horizontal.stride)

    # Constants are packed beforehand. The tile `shared` can take right matrices that a model computes as they lie.
    layout = WeightLayout.IN_BLOCKS
    is_matrix = weights.taps == 1 and gemm.split in (Split.NOTHING, Split.BATCHES)
    if not constant and is_matrix and dtype(weights.tensor) in (F32.name, F16.name, I32.name):
        if lies_in_order:
            layout = WeightLayout.BY_K
        elif weights.is_by_outputs(g.device):
            layout = WeightLayout.BY_OUTPUTS

    # Weights of 8 bits stay such in matrices alone, because Winograd's tiles need real numbers.
    has_constant_bias = operands.bias is not None and operands.bias.is_constant
    may_stay_bytes = kind == F32.name and has_constant_bias and gemm.is_side_by_side and gemm.split is Split.NOTHING
    may_stay_bytes = may_stay_bytes and not g.adds_in_order
    sizes = gemm.rows, gemm.columns, gemm.parts, taps, gemm.depth
    return Work(
        kind,
        *sizes,
        constant=constant,
        in_order=lies_in_order,
        order=layout,
        matrix=gemm.parts == 1 and vertical == POINT and horizontal == POINT and gemm.source[1:3] == (1, 1),
        int8_weights=may_stay_bytes and weights.quantised is not None,
        float16=float16,
        float16_split_k=float16_split_k,
        can_fold=half_weights.are_known(operands.input, weights, operands.bias)
        and gemm.split in (Split.NOTHING, Split.CHANNELS)
        and not fit_four_bits(g, weights, None),
        narrow=operands.is_wide and has_narrow_sums(g, operands),
        one_by_one=g.adds_in_order and kind in (F32.name, F16.name),
        line_taps=_line_taps(weights, gemm),
    )


def _line_taps(weights: Weights, gemm: Gemm) -> int:
    """The taps of a line if cooperative matrices can take them as one: those of few channels, one after the other."""
    window, dilation = gemm.horizontal.window, gemm.horizontal.dilation
    is_possible = gemm.split is Split.NOTHING and dilation == 1 and weights.has_dense_taps
    return window if is_possible and has_few_channels(gemm.depth) else 1


def best_strategy(g: Lowering, problem: GemmProblem) -> Strategy:
    """The strategy for a GEMM that is thought or was measured to be the fastest."""
    work = problem.work
    every = g.once(("ranked", work), lambda: ranked(work, g.device))
    return g.choose(
        g.tuning_key(work, problem.gemm),
        every,
        is_quick=lambda strategy: strategy.compiles_quickly(work, g.device),
        is_exact=work.one_by_one or work.kind not in (F32.name, F16.name),
    )


def lower_gemm_by(g: Lowering, problem: GemmProblem, strategy: Strategy) -> None:
    """Compute the output of a GEMM by a strategy, or verify what was computed before."""
    if _is_verified(g, problem):
        return
    operands, gemm, work = problem.operands, problem.gemm, problem.work
    target, source = Target.of(g, operands, gemm), _source(g, problem, strategy)
    weights = strategy.weights(g, problem)
    words = 0 if "SOURCE_PARTS" in source.spec else _check_words(g, problem, strategy)
    output = filter_output(g, operands, gemm, _bias(g, problem, strategy, is_checked=words > 0))
    groups, arguments = strategy.arguments(g, problem)
    stored = target.arguments(operands, output) | output
    arguments = arguments | source | weights | stored | strategy.memory_of_sums(g, problem)
    if words:
        checked = _checked(g, problem, strategy, output, target, words)
        arguments |= Arguments(tensors={"checks": checked.words})
    if work.one_by_one:
        arguments |= Arguments({REPRODUCIBLE: True})
    arguments.dispatch(g, strategy.variant(work.kind, operands.variant, checked=bool(words)), groups)
    target.finish(g)


def _source(g: Lowering, problem: GemmProblem, strategy: Strategy) -> Arguments:
    """The left matrix as a strategy reads it: converted beforehand or by the dispatch, or computed in it."""
    operands, gemm, interleaved = problem.operands, problem.gemm, 1
    spec: dict[str, int | bool] = {}
    push: dict[str, int] = {}
    tensor = operands.input
    if operands.depthwise is not None:
        tensor, spec = operands.depthwise.input, separable.constants(operands.depthwise, g.device)
        push = {"kernel_height": 1, "kernel_width": 1}  # of the GEMM's own filter
        source = g.tensor(tensor)
    elif operands.wide_input is not None and strategy.takes_floats and has_few_channels(gemm.depth):
        tensor, spec = operands.wide_input, {FROM_FLOATS: True}
        source = g.tensor(tensor)
    else:
        source, interleaved, _ = read(g, narrowed(g, operands), Matrices(gemm.parts, gemm.rows, gemm.depth))
        spec = {} if interleaved == 1 else {"SOURCE_PARTS": interleaved}
    access = strategy.access_to_input(problem, g.device, of(tensor).size, interleaved)
    return Arguments(spec, {"src": source}, push, access)


def _bias(g: Lowering, problem: GemmProblem, strategy: Strategy, *, is_checked: bool) -> TensorRef | np.ndarray:
    """The bias as `filter_output` takes it: words if the dispatch binds many tensors, as it stores check words too."""
    operands, gemm = problem.operands, problem.gemm
    depthwise, folded = operands.depthwise, strategy.folds_zero_point(problem.work, g.device)
    if is_checked and strategy.split_k > 1 and operands.epilogue is not None:
        words = bias_words(g, operands, gemm, folded=folded)
        return words if depthwise is None else np.concatenate([words, separable.parameters(g, depthwise)])
    if depthwise is not None:
        return separable.bias_and_parameters(g, operands, folded=folded)
    quantised = operands.weights.quantised if strategy.arithmetic == "int8" else None
    return bias_of(g, operands, gemm, folded=folded, scales=None if quantised is None else quantised.scales)


# --- verification --------------------------------------------------------------------------------------------


def _is_verified(g: Lowering, problem: GemmProblem) -> bool:
    """Verify a product if it is lowered the second time and can be verified; whether it was."""
    operands, gemm = problem.operands, problem.gemm
    if exact.may_verify(g, operands, gemm):
        exact.recompute(g, operands, gemm)
    elif (checked := g.to_verify(operands.target)) is not None:
        depthwise, target, of_rows = operands.depthwise, Target.of(g, operands, gemm), gemm
        if depthwise is None:
            source, _, _ = read(g, operands.input, Matrices(gemm.parts, gemm.rows, gemm.depth))
        else:
            source, of_rows = g.checked[depthwise.output.index].results, gemm.pointwise
        checksum.verify(g, operands, of_rows, checked, source, target.pixels)
        target.finish(g)
        if depthwise is not None:
            separable.verify(g, depthwise)
    else:
        return False
    return True


def _check_words(g: Lowering, problem: GemmProblem, strategy: Strategy) -> int:
    """The number of the check words that a strategy stores, if they are to verify the product; 0 if they are not."""
    operands, gemm, work = problem.operands, problem.gemm, problem.work
    if operands.depthwise is not None:
        if not separable.has_checksums(operands.depthwise, gemm, g.device):
            return 0
        gemm = gemm.pointwise
    if not strategy.takes_floats or not checksum.may_store(g, operands, gemm):
        return 0
    tile = _tile_of_checks(strategy, work)
    is_avoided = g.device.avoids(strategy.variant(work.kind, operands.variant, checked=True))
    if is_avoided or not checksum.is_possible(g.device, gemm, tile):
        return 0
    return strategy.tiles_of_part(work)[0] * tile[1]


def _tile_of_checks(strategy: Strategy, work: Work) -> tuple[int, int]:
    """The rows of a workgroup of a strategy, and the check words of all workgroups that have the same rows."""
    _, across = strategy.tiles_of_part(work)
    return strategy.size[0], work.parts * across * math.prod(strategy.local)


def _checked(
    g: Lowering, problem: GemmProblem, strategy: Strategy, output: FilterOutput, target: Target, words: int
) -> Checked:
    """Let a product be verified later by so many check words, for which there is memory then."""
    operands, gemm, depthwise = problem.operands, problem.gemm, problem.operands.depthwise
    of_rows, before = (gemm, 0) if depthwise is None else (gemm.pointwise, separable.words_before(gemm))
    filters = checksum.filters_of_rows(g.device, operands, of_rows, output)
    checks, tile = g.scratch(4 * (before + words)), _tile_of_checks(strategy, problem.work)
    checked = Checked(target.pixels, checks, filters, tile, before)
    g.checked[operands.target.index] = checked
    if depthwise is not None:
        separable.note_checked(g, depthwise, gemm, checked.words)
    return checked
