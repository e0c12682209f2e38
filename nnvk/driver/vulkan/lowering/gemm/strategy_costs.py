"""The cost of a strategy by a model of the device, and the strategies for a GEMM by their costs.

The model knows a device by its properties alone: whether it is a GPU or runs subgroups as vectors of a CPU, the size of
a subgroup, units, features. All that it assumes is in `costs.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from nnvk.base.extents import hint
from nnvk.driver.vulkan.lowering.costs import NEAR, Costs, Run, costs_of, cycles
from nnvk.driver.vulkan.lowering.dtypes import SIZES
from nnvk.driver.vulkan.lowering.gemm import cooperative_matrix
from nnvk.driver.vulkan.lowering.gemm.cooperative_matrix import MatrixTile
from nnvk.driver.vulkan.lowering.gemm.half_weights import Form, form_of
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategies import (
    LANES,
    Strategy,
    all_strategies,
    by_elements,
    candidates,
    converts_bytes,
    prefers_matrices,
    span,
    takes_half_weights,
)
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK
from nnvk.driver.vulkan.shaders.profile import AvoidedShader, DeviceProfile

_COUNTING = 2500
"""Cycles that counters cost, which have to be zero at first."""
_LEFT = 5.6
"""How often longer than by its store a K slice is waited for to leave a vector of sums."""
_BETWEEN = {"f32": 2, "f16": 4, "q8": 12}
"""Vector instructions that make depthwise sums results: an activation, and multipliers of bytes."""
_ADDED_TOGETHER = 16
_ADDED_WITH_FEW_REGISTERS = 8
"""Vectors of sums that the last workgroup of a tile loads at once, and with BY_ELEMENTS (SUMS_TOGETHER in
shaders/include/gemm)."""


@dataclass(frozen=True, slots=True)
class _Vectors:
    """The size of a vec4 of K in vectors of four words, and the cost of using them."""

    weights: int
    """For four output channels."""
    pixel: float
    load: float
    """Cycles to load that of a pixel."""
    products: float
    """Cycles, as the other costs of that name."""
    convert: float
    stored: float
    ending: float

    @staticmethod
    def of(work: Work, arithmetic: str, costs: Costs, channels: int) -> _Vectors:
        """The vectors of a product by an arithmetic, in rounds of so many channels."""
        return _Vectors(
            weights=1 if work.kind in ("q8", "q16") or work.int8_weights else 4,
            pixel={"q8": 0.25, "q16": 0.5}.get(work.kind, 1.0),
            load=costs.load * (costs.odd if channels == 1 else 4 / channels if work.kind == "q8" else 1),
            products=costs.products.get(arithmetic, costs.products["i32"]),
            convert=costs.convert.get("float" if work.int8_weights else arithmetic, 0.0),
            stored=costs.stored.get(work.kind, costs.stored["any"]),
            ending=costs.ending.get(work.kind, costs.ending["any"]),
        )


_FEW_REGISTERS = 32
"""With more registers for sums, inputs and weights, Mali and VideoCore run half as many invocations at once."""
_FEWER_THREADS = 1.25
"""The time of a round in that case."""
_MOST_HELD = 18
"""With more vectors held by the tile `shared`, Intel's compiler spills, and Adreno runs half as many invocations."""
_PAST_MOST_HELD = 0.08
"""The fraction of a round that each further vector costs, by the instructions of Intel's compiler."""
_CONVERTED = 2
"""The time of a round on GPUs without dot products whose registers are few, where bytes of weights are converted."""
_SPILLED_SUMS = 1.6
"""The time of a round of tiles whose sums VideoCore spills, and of what comes before and after the rounds."""
_FEW_TAPS = 9
_TAP_BY_TAP = 60
"""Cycles to find a pixel of a tap whose channels are no vec4s: each round has a tap of its own."""
_SPILLED = 4
"""The time of a round where registers are few and bytes are converted to floats, but by the tile `register` of one vec4
of output channels, or where the tile `depthwise` holds windows. The compilers of Mali and VideoCore spill the floats,
or words; for the largest tiles VideoCore's takes half a minute, or gives up."""


def cost(strategy: Strategy, work: Work, device: DeviceProfile) -> float:
    """Cycles that the device is thought to take for a GEMM."""
    costs = costs_of(device)
    lanes = device.subgroup_size if device.is_cpu else 64
    if work.kind == "f16" and device.has_native_16 and not device.is_cpu:
        # A load has half the bytes, but for those of elements one by one.
        costs = replace(costs, load=costs.load / 2, staged=costs.staged / 2, odd=costs.odd * 2)
    arithmetic = work.kind if strategy.arithmetic in ("none", "int8") else strategy.arithmetic
    if work.kind == "q16" and arithmetic != "q16":
        arithmetic = f"wide {arithmetic}"
    vectors = _Vectors.of(work, arithmetic, costs, span(strategy, work, device))
    if strategy.matrices is not None:
        run = _by_matrices(strategy.matrices, work, costs, vectors, lanes)
    elif strategy.tile == "vector":
        run = _by_vectors(strategy, work, costs, vectors, lanes)
    elif strategy.tile == "subgroup":
        run = _by_subgroups(strategy, work, costs, vectors, arithmetic)
    elif strategy.is_staged:
        run = _by_shared_memory(strategy, work, costs, vectors, lanes)
    else:
        run = _by_registers(strategy, work, costs, vectors, arithmetic, lanes)
    _slow_down(run, strategy, work, costs, vectors, device)
    run.size = math.prod(strategy.local)
    if strategy.split_k > 1:
        _split(run, strategy, costs, vectors, by_elements=by_elements(strategy, work, device))
    run.memory += _bytes(work)
    return cycles(run, costs, device) + _preparation(strategy, work, costs, lanes * device.units)


def _slow_down(
    run: Run, strategy: Strategy, work: Work, costs: Costs, vectors: _Vectors, device: DeviceProfile
) -> None:
    """Take account of registers: of what compilers spill, and of how many invocations run at once."""
    if takes_half_weights(strategy, work, device):
        form = form_of(device, work.rows, work.packed_weights)
        run.step = _step_of_half_weights(strategy, work, costs, vectors, form)
        if strategy.sums > 2 and form is Form.FLOAT16:
            run.step *= _SPILLED_SUMS
            run.end *= _SPILLED_SUMS
        return
    takes_elements = device.has_small_subgroups and by_elements(strategy, work, device)
    if takes_elements and 4 * (strategy.sums + strategy.rows + 1) > _FEW_REGISTERS:
        run.step *= _FEWER_THREADS
    if converts_bytes(strategy, work, device):
        spills = device.has_small_subgroups and (strategy.tile != "register" or strategy.vec4s > 1)
        run.step *= _SPILLED if spills else _CONVERTED
    elif work.depthwise and device.has_small_subgroups:
        run.step *= _SPILLED
    elif _spills_sums(strategy, work, device):
        run.step *= _SPILLED_SUMS
    elif device.has_few_registers:
        run.step *= 1 + _PAST_MOST_HELD * max(0.0, run.held - _MOST_HELD)


def _split(run: Run, strategy: Strategy, costs: Costs, vectors: _Vectors, *, by_elements: bool) -> None:
    """Let workgroups share K: each leaves its sums and counts, and the last one loads all sums, and ends."""
    run.groups *= strategy.split_k
    run.busy *= strategy.split_k
    run.rounds = -(-run.rounds // strategy.split_k)
    left = strategy.sums / (2 if strategy.arithmetic == "half" else 1)  # vectors of four words
    run.end = run.end / strategy.split_k + left * 2 * costs.load + costs.load
    run.moved = run.moved / strategy.split_k + left * 2
    run.memory += run.groups * run.size * 16 * left
    run.idle = _COUNTING + strategy.sums * vectors.stored * _LEFT
    together = _ADDED_WITH_FEW_REGISTERS if by_elements else _ADDED_TOGETHER
    run.idle += costs.latency * -(-strategy.split_k // max(1, together // strategy.sums))


def _spills_sums(strategy: Strategy, work: Work, device: DeviceProfile) -> bool:
    """Whether VideoCore's compiler keeps sums in memory: more than two vectors, in first layers of 3 x 3.

    Larger windows spill with fewer, too.
    """
    is_first_layer = 1 < work.taps <= _FEW_TAPS and work.depth < 4 and work.kind != "q8"
    is_video_core = device.has_small_subgroups and not device.has_small_integers
    return is_video_core and is_first_layer and strategy.tile in ("register", "shared") and strategy.sums > 2


def _step_of_half_weights(strategy: Strategy, work: Work, costs: Costs, vectors: _Vectors, form: Form) -> float:
    """Cycles of a round of the tile `register` with `half_weights`, by the instructions of their compilers.

    `Form.FLOAT16` is VideoCore's, which spills more than two vectors of sums. On Mali, the parameters of outputs
    of 8 bits take more than `_FEW_REGISTERS` whatever the tile.
    """
    weights = form.size * costs.load + (16 if form is Form.HIGH_WORDS else 0)
    pixel = vectors.load + (9 if form is Form.FLOAT16 else 4)
    if work.taps > 1 and work.depth % 4:
        pixel += _TAP_BY_TAP
    return strategy.vec4s * weights + strategy.rows * pixel + strategy.sums * vectors.products


def _by_vectors(strategy: Strategy, work: Work, costs: Costs, vectors: _Vectors, lanes: int) -> Run:
    local_x, local_y = strategy.local
    groups = work.rows * -(-work.columns // BLOCK)
    return Run(
        groups,
        groups * -(-local_x * local_y // lanes),
        rounds=-(-work.vec4s_of_k // local_y),
        step=(vectors.weights + 1) * costs.load + vectors.products + vectors.convert,
        end=costs.barrier + local_y * costs.staged,
        wait=costs.latency,
    )


def _by_subgroups(strategy: Strategy, work: Work, costs: Costs, vectors: _Vectors, arithmetic: str) -> Run:
    groups = strategy.tiles(work)
    products = costs.products_by_subgroups.get(arithmetic, vectors.products) * (1 if strategy.rows <= costs.sums else 2)
    read = vectors.weights * costs.load + -(-strategy.rows // LANES) * vectors.load
    return Run(
        groups,
        groups,
        rounds=work.vec4s_of_k,
        step=read + strategy.rows * products + vectors.convert,
        end=strategy.rows * vectors.stored + vectors.ending,
        wait=costs.latency,
    )


def _by_shared_memory(strategy: Strategy, work: Work, costs: Costs, vectors: _Vectors, lanes: int) -> Run:
    own, stage, vec4s = strategy.sums, strategy.stage, strategy.vec4s
    invocations = math.prod(strategy.local)
    groups = strategy.tiles(work)
    rounds = -(-work.vec4s_of_k // stage)
    down, across = strategy.size
    pixels = -(-stage * down // invocations)
    weights = -(-stage * vectors.weights * across // 4 // invocations)
    brought = pixels + weights
    factors = vec4s * vectors.weights + vectors.pixel * own / vec4s  # of a four of K
    together = work.taps == 1 or work.depth % (4 * stage) == 0
    step = brought * (costs.brought + (0 if together else costs.found)) + 2 * costs.barrier
    step += pixels * (vectors.load - costs.load)
    step += stage * own * vectors.products + stage * (vec4s + own / vec4s) * vectors.convert
    staging = (brought + stage * factors) * costs.staged
    # Sums of 16-bit floats are held in 16 bits beside those in 32 bits.
    held = own + brought + strategy.together * factors
    if strategy.arithmetic == "half":
        held = own + held / 2
    moved = pixels * vectors.pixel + weights
    if work.depthwise:
        # Windows and weights are loaded in the place of pixels, multiplied, and end as results do.
        parameters = -(-work.depthwise // 2) + 3 if work.kind == "q8" else work.depthwise + 1
        windows = pixels * work.depthwise
        step += (windows - pixels) * vectors.load + parameters * costs.load
        step += windows * (costs.products["f32"] / 4 + (costs.convert["float"] if work.kind == "q8" else 0.0))
        step += pixels * _BETWEEN[work.kind] * costs.products["f32"] / 4
        moved += ((windows - pixels) * vectors.pixel + parameters) / NEAR
        held += (windows - pixels) * vectors.pixel + parameters
    return Run(
        groups,
        groups * -(-invocations // lanes),
        rounds,
        # One subgroup multiplies while another stages, where there is another.
        step=max(step, staging) if costs.overlaps else step + staging,
        end=own * vectors.stored + vec4s * vectors.ending,
        wait=costs.staged_latency + (stage - 4) / 4 * costs.longer_latency,
        moved=rounds * moved + own,
        held=held,
    )


def _by_matrices(tile: MatrixTile, work: Work, costs: Costs, vectors: _Vectors, lanes: int) -> Run:
    taps, depth = work.in_lines
    return cooperative_matrix.run(
        tile,
        work.kind,
        costs,
        lanes,
        groups=work.parts * -(-work.rows // tile.rows) * -(-work.columns // tile.columns),
        taps=taps,
        depth=depth,
        stored=vectors.stored,
        ending=vectors.ending,
    )


def _by_registers(strategy: Strategy, work: Work, costs: Costs, vectors: _Vectors, arithmetic: str, lanes: int) -> Run:
    local_x, local_y = strategy.local
    share = 4 if strategy.tile == "quads" else 1
    across = -(-work.vec4s // (local_x * strategy.vec4s))
    # Lines of invocations that have rows: those of a workgroup take turns, by as many rows as they share.
    whole, left = divmod(work.rows, strategy.rows * local_y)
    lines = whole * local_y + min(local_y, -(-left // share))
    pixels, weights = strategy.rows // share, strategy.vec4s * (vectors.weights if strategy.packed else 4)
    sums = strategy.sums
    words = {"dot": 1, "wide dot": 2}.get(arithmetic, 4)
    step = weights * costs.load + pixels * vectors.load
    step += sums * vectors.products * (1 if sums <= costs.sums else 2)
    step += strategy.rows * (share - 1) / share * words * costs.swap
    step += (strategy.vec4s + pixels) * vectors.convert
    return Run(
        strategy.tiles(work),
        work.parts * across * -(-lines // max(1, lanes // local_x)) * -(-local_x // lanes),
        rounds=work.vec4s_of_k,
        step=step,
        end=sums * vectors.stored + strategy.vec4s * vectors.ending,
        wait=costs.latency,
        moved=(work.vec4s_of_k * (pixels + weights) + sums) / NEAR,
    )


def _bytes(work: Work) -> int:
    """The bytes that a GEMM reads and writes in memory."""
    size = SIZES[work.kind]
    of_weight = 1 if work.kind == "q16" or work.int8_weights else size
    images = size * work.rows * (work.depth + work.columns)
    return work.parts * (images + of_weight * work.columns * work.taps * work.depth)


def _preparation(strategy: Strategy, work: Work, costs: Costs, lanes: int) -> float:
    """Putting weights in the strategy's order in every execution, where that is needed."""
    if work.constant or (not strategy.packed and (strategy.is_staged or work.in_order)):
        return 0.0
    vectors = work.parts * work.vec4s * work.vec4s_of_k * (1 if work.kind in ("q8", "q16") else 4)
    return costs.launch + vectors / lanes * 5 * costs.load


def ranked(work: Work, device: DeviceProfile) -> list[Strategy]:
    """All strategies that a device can run for a GEMM, the cheapest first. AvoidedShader: none is left."""
    forced = prefers_matrices(work, device)
    found = [strategy for strategy in candidates(work, device) if strategy.matrices is not None or not forced]
    size = hint(work)
    found.sort(key=lambda strategy: cost(hint(strategy), size, device))
    if not found and device.avoided:
        some = {device.native_variant(strategy.variant(work.kind)).name for strategy in all_strategies(work, device)}
        raise AvoidedShader(" and ".join(sorted(some)))
    return found
