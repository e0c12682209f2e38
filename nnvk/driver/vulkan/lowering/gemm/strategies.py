"""The strategies for a GEMM, and their costs by a model of the device.

The model knows a device by its properties alone: whether it is a GPU or runs subgroups as vectors of a CPU, the size of
a subgroup, units, features. All that it assumes is in `costs.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from nnvk.base.extents import hint
from nnvk.driver.vulkan.lowering.costs import Costs, Run, costs_of, cycles
from nnvk.driver.vulkan.lowering.dtypes import SIZES
from nnvk.driver.vulkan.lowering.gemm.half_weights import Form, form_of
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy, Vectors
from nnvk.driver.vulkan.lowering.gemm.tiles import TILES
from nnvk.driver.vulkan.lowering.gemm.tiles.cooperative_matrix import Matrix
from nnvk.driver.vulkan.lowering.gemm.vector import Vector
from nnvk.driver.vulkan.shaders.profile import AvoidedShader, DeviceProfile

_COUNTING = 2500
"""Cycles that counters cost, which have to be zero at first."""
_LEFT = 5.6
"""How often longer than by its store a K slice is waited for to leave a vector of sums."""
_ADDED_TOGETHER = 16
_ADDED_WITH_FEW_REGISTERS = 8
"""Vectors of sums that the last workgroup of a tile loads at once, and with BY_ELEMENTS (SUMS_TOGETHER in
shaders/include/gemm)."""
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


# --- what there is -------------------------------------------------------------------------------------------


def candidates(work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    """The strategies for a GEMM whose shader a device can run and need not avoid."""
    return _without_avoided(all_strategies(work, device), work, device)


def _without_avoided(every: Iterator[Strategy], work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    if not device.avoided and not device.left_out:
        return every
    avoided: dict[tuple[str, str, bool], bool] = {}  # many strategies have the same variant

    def may_be(strategy: Strategy) -> bool:
        key = strategy.tile, strategy.arithmetic, strategy.split_k > 1
        if key not in avoided:
            avoided[key] = device.avoids(strategy.variant(work.kind))
        return not avoided[key]

    return filter(may_be, every)


def all_strategies(work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    """All strategies for a GEMM on a device, including strategies whose shader the device avoids."""
    tiles: tuple[type[Strategy], ...] = (Vector, *TILES.values())
    for tile in tiles:
        if tile.follows_depthwise == (work.depthwise > 0):
            yield from tile.candidates(work, device)


def prefers_matrices(work: Work, device: DeviceProfile) -> bool:
    """Whether a GEMM has to be computed by cooperative matrices, whatever it costs."""
    return device.prefers_matrices and any(_by_matrices(work, device))


def _by_matrices(work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    """The candidates with cooperative matrices, which depthwise convolutions are not computed with."""
    every = iter(()) if work.depthwise else Matrix.candidates(work, device)
    return _without_avoided(every, work, device)


# --- costs ---------------------------------------------------------------------------------------------------


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
    vectors = Vectors.of(work, arithmetic, costs, strategy.span(work, device))
    run = strategy.run(work, costs, vectors, arithmetic, lanes)
    _slow_down(run, strategy, work, costs, vectors, device)
    run.size = math.prod(strategy.local)
    if strategy.split_k > 1:
        _split(run, strategy, costs, vectors, by_elements=strategy.by_elements(work, device))
    run.memory += _bytes(work)
    return cycles(run, costs, device) + _preparation(strategy, work, costs, lanes * device.units)


def _slow_down(run: Run, strategy: Strategy, work: Work, costs: Costs, vectors: Vectors, device: DeviceProfile) -> None:
    """Take account of registers: of what compilers spill, and of how many invocations run at once."""
    if strategy.takes_half_weights(work, device):
        form = form_of(device, work.rows, work.packed_weights)
        run.step = _step_of_half_weights(strategy, work, costs, vectors, form)
        if strategy.sums > 2 and form is Form.FLOAT16:
            run.step *= _SPILLED_SUMS
            run.end *= _SPILLED_SUMS
        return
    takes_elements = device.has_small_subgroups and strategy.by_elements(work, device)
    if takes_elements and 4 * (strategy.sums + strategy.rows + 1) > _FEW_REGISTERS:
        run.step *= _FEWER_THREADS
    if strategy.converts_bytes(work, device):
        spills = device.has_small_subgroups and (strategy.spills_bytes or strategy.vec4s > 1)
        run.step *= _SPILLED if spills else _CONVERTED
    elif work.depthwise and device.has_small_subgroups:
        run.step *= _SPILLED
    elif _spills_sums(strategy, work, device):
        run.step *= _SPILLED_SUMS
    elif device.has_few_registers:
        run.step *= 1 + _PAST_MOST_HELD * max(0.0, run.held - _MOST_HELD)


def _split(run: Run, strategy: Strategy, costs: Costs, vectors: Vectors, *, by_elements: bool) -> None:
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
    return is_video_core and is_first_layer and strategy.spills_sums and strategy.sums > 2


def _step_of_half_weights(strategy: Strategy, work: Work, costs: Costs, vectors: Vectors, form: Form) -> float:
    """Cycles of a round of the tile `register` with `half_weights`, by the instructions of their compilers.

    `Form.FLOAT16` is VideoCore's, which spills more than two vectors of sums. On Mali, the parameters of outputs
    of 8 bits take more than `_FEW_REGISTERS` whatever the tile.
    """
    weights = form.size * costs.load + (16 if form is Form.HIGH_WORDS else 0)
    pixel = vectors.load + (9 if form is Form.FLOAT16 else 4)
    if work.taps > 1 and work.depth % 4:
        pixel += _TAP_BY_TAP
    return strategy.vec4s * weights + strategy.rows * pixel + strategy.sums * vectors.products


def _bytes(work: Work) -> int:
    """The bytes that a GEMM reads and writes in memory."""
    size = SIZES[work.kind]
    of_weight = 1 if work.kind == "q16" or work.int8_weights else size
    images = size * work.rows * (work.depth + work.columns)
    return work.parts * (images + of_weight * work.columns * work.taps * work.depth)


def _preparation(strategy: Strategy, work: Work, costs: Costs, lanes: int) -> float:
    """Putting weights in the strategy's order in every execution, where that is needed."""
    if work.constant or (not strategy.packed and strategy.takes_weights_as_they_lie(work)):
        return 0.0
    vectors = work.parts * work.vec4s * work.vec4s_of_k * (1 if work.kind in ("q8", "q16") else 4)
    return costs.launch + vectors / lanes * 5 * costs.load


def ranked(work: Work, device: DeviceProfile) -> list[Strategy]:
    """All strategies that a device can run for a GEMM, the cheapest first. AvoidedShader: none is left."""
    every = _by_matrices if not work.one_by_one and prefers_matrices(work, device) else candidates
    size = hint(work)
    eligible = (strategy for strategy in every(work, device) if strategy.adds_in_order or not work.one_by_one)
    found = sorted(eligible, key=lambda strategy: cost(hint(strategy), size, device))
    if not found and device.avoided:
        some = {device.native_variant(strategy.variant(work.kind)).name for strategy in all_strategies(work, device)}
        raise AvoidedShader(" and ".join(sorted(some)))
    return found
