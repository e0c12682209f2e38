"""The cost model of a device: the cost of its parts, and the time of a dispatch that follows from them.

A device is known by its properties alone: whether it is a GPU or runs subgroups as vectors of a CPU, how it loads,
whether its memory is the host's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nnvk.driver.vulkan.shaders.profile import DeviceProfile

NEAR = 4
"""Vectors that registers load, per vector from the last-level cache."""
_BESIDE = 0.1
"""The fraction of a device's shorter tasks that adds to the time of its longest one."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Cycles that a subgroup takes for things, whatever its size."""

    load: float
    """A vector of four words for each lane."""
    staged: float
    """Such a vector written to or read from shared memory."""
    overlaps: bool
    """One subgroup multiplies while another one reads from shared memory."""
    brought: float
    """A vector is brought to shared memory: its address and its place there."""
    found: float
    """Further cycles where not all invocations go on to the next tap together."""
    barrier: float
    """Cycles of a workgroup's barrier, for each of its subgroups."""
    launch: float
    """A dispatch more, which another waits for."""
    group: float
    """A workgroup begins."""
    begin: float
    """A subgroup finds its place; it also ends once."""
    odd: float
    """Loads that four channels take where they are no multiple of four."""
    ending: Mapping[str, float]
    """Cycles to load multipliers and the like for the results of four output channels, before the first; by type."""
    stored: Mapping[str, float]
    """A vector of sums becomes one of results: its place, activation, and the scales of bytes; by type, or `any`."""
    products: Mapping[str, float]
    """A vec4 of K of one pixel by four output channels, by type or ARITHMETIC; each for every lane.

    `wide dot` and `wide float`: of 16-bit quantised values with bytes.
    """
    products_by_subgroups: Mapping[str, float]
    """The same in the tile `subgroup`, where it differs: in vectors of eight dot products are vector instructions."""
    by_matrices: Mapping[str, float]
    """The same by cooperative matrices: 64 invocations multiply 1024 pairs."""
    convert: Mapping[str, float]
    """Cycles to convert a load of bytes before it is multiplied."""
    swap: float
    """A word goes round a quad; where that is part of `products`, 0."""
    latency: float
    """Cycles that a lone subgroup waits for its loads."""
    staged_latency: float
    """Cycles that it waits for shared memory in a stage of four vec4s of K."""
    longer_latency: float
    """And for four more in it."""
    sums: int
    """Vectors of sums of an invocation that stay in registers, or in the first cache; with more of them products take
    twice as long."""
    registers: float
    """The capacity of registers for all resident invocations, in vectors, measured with the tile `shared`."""
    resident: int
    """Subgroups that a unit keeps under way, to compute with one while others wait."""
    simds: int
    """Vector processors of a unit, each of which runs one subgroup at a time."""
    cache: float
    """Bandwidth of the last-level cache: bytes per cycle and unit."""
    memory: float
    """Bandwidth of memory: bytes per cycle and unit."""


COSTS = {
    # Subgroups are vectors of a CPU: loads are made lane by lane, shared memory is memory, and a barrier switches
    # between subgroups. Measured on SwiftShader.
    "cpu": Costs(
        load=37,
        staged=80,
        overlaps=False,
        brought=160,
        found=60,
        barrier=400,
        launch=16_000,
        group=600,
        begin=500,
        odd=1,
        ending={"any": 0},
        stored={"any": 100},
        products={
            "f32": 24,
            "f16": 24,
            "i32": 48,
            "q16": 30,
            "float": 24,
            "dot": 150,
            "wide dot": 36,
            "wide float": 27,
            "half": 150,
        },
        products_by_subgroups={"dot": 9, "q16": 56, "wide dot": 58},
        # On lavapipe of Mesa 26.2 they take five times as long as its dot products and products of floats.
        by_matrices={"q8": 45, "f16": 120},
        convert={"float": 20, "dot": 4, "q16": 8, "wide dot": 16, "wide float": 12},
        swap=4.5,
        latency=0,
        staged_latency=0,
        longer_latency=0,
        sums=16,
        registers=math.inf,
        resident=1,
        simds=1,
        cache=math.inf,
        memory=math.inf,
    ),
    # Fitted to what AMD's compiler makes of every strategy and a model of two of its GPUs (tools/isa), of 80 and of 8
    # units: what is chosen takes 1.02 of the shortest time on both, of 16-bit floats up to 1.08. Loads and shared
    # memory are far. How long the last K slice waits was measured on an NVIDIA H200.
    "gpu": Costs(
        load=9.4,
        staged=6.3,
        overlaps=True,
        brought=11,
        found=4,
        barrier=17,
        launch=5000,
        group=90,
        begin=35,
        odd=5,
        ending={"any": 9, "q8": 78},
        stored={"any": 40, "q8": 60, "q16": 200},
        products={
            "f32": 16,
            "f16": 16,
            "i32": 64,
            "q16": 64,
            "float": 16,
            "dot": 4.5,
            "wide dot": 30,
            "wide float": 24,
            "half": 13,
        },
        products_by_subgroups={},
        # Between AMD's RDNA 3, which takes 4 for both types, and RDNA 4, which takes 1 and 2.
        by_matrices={"q8": 2, "f16": 3},
        convert={"float": 11, "dot": 3, "q16": 6, "wide dot": 10, "wide float": 10},
        swap=0.5,
        latency=700,
        staged_latency=290,
        longer_latency=280,
        sums=20,
        registers=81,
        resident=15,
        simds=2,
        cache=11,
        memory=8.4,
    ),
}
# GPUs that share the host's memory: their few units find more of it in the cache.
COSTS["unified gpu"] = replace(
    COSTS["gpu"],
    load=4,
    staged=8,
    brought=8,
    found=5.5,
    barrier=10,
    begin=78,
    ending={"any": 8, "q8": 110},
    stored={"any": 150, "q8": 130, "q16": 200},
    products={**COSTS["gpu"].products, "dot": 5.7, "half": 10.5},
    convert={**COSTS["gpu"].convert, "float": 9.6, "dot": 1.1},
    latency=350,
    staged_latency=700,
    longer_latency=350,
    registers=200,
    resident=24,
    cache=32,
    memory=6,
)
# Those whose pipelines require subgroups half as large as the driver prefers: more of them wait at the same time. The
# factors were fitted as the costs of `gpu` were.
for _name in ("gpu", "unified gpu"):
    _costs = COSTS[_name]
    COSTS[f"{_name} with required subgroups"] = replace(
        _costs,
        latency=0.7 * _costs.latency,
        staged_latency=_costs.staged_latency / 4,
        longer_latency=_costs.longer_latency / 4,
    )
# Those with small subgroups, by the instructions that the compilers of Mali and VideoCore make: all are issued one
# after the other, and the address of a vector in shared memory takes four of them.
COSTS["unified gpu with small subgroups"] = replace(
    COSTS["unified gpu"], load=4, staged=5, overlaps=False, brought=24, swap=6, latency=100, staged_latency=200
)
# CPUs that gather texels by vector instructions, and so load as fast as they multiply: there it counts that sums stay
# in the first cache, and dot products of bytes take no longer than products of floats.
COSTS["cpu with texels"] = replace(
    COSTS["cpu"],
    load=14,
    launch=600,
    # Beside its stores and workgroups those of SwiftShader take half as long again.
    products={**{name: cycles / 1.5 for name, cycles in COSTS["cpu"].products.items()}, "dot": 15},
    swap=0,
    products_by_subgroups={**COSTS["cpu"].products_by_subgroups, "dot": 18},
)


def costs_of(device: DeviceProfile) -> Costs:
    """The costs that are assumed of a device."""
    if device.is_cpu:
        return COSTS["cpu with texels" if device.texel_loads else "cpu"]
    name = "unified gpu" if device.unified_memory else "gpu"
    if device.required_subgroup:
        name += " with required subgroups"
    elif device.unified_memory and device.has_small_subgroups:
        name += " with small subgroups"
    return COSTS[name]


@dataclass(slots=True)
class Run:
    """The work of a device in a dispatch. Cycles are those of a subgroup, vectors those of an invocation."""

    groups: int
    busy: float
    """Subgroups."""
    rounds: int
    step: float
    """Cycles of a round."""
    end: float
    """Cycles before the first and after the last."""
    wait: float
    """Cycles in which a lone subgroup waits in a round."""
    moved: float = 0.0
    """Vectors read from the last-level cache or written to it."""
    held: float = 0.0
    """Vectors in registers, as far as that matters."""
    size: int = 64
    """Invocations of a workgroup."""
    memory: float = 0.0
    """Bytes from memory, or left there."""
    idle: float = 0.0
    """Cycles in which the whole device waits."""


def cycles(run: Run, costs: Costs, device: DeviceProfile) -> float:
    """The estimated cycles: those of the slowest kind of work, and a part of those of the work beside it."""
    alone = costs.begin + run.end + run.rounds * run.step
    # The subgroups of the unit that has the most.
    most = -(-run.groups // device.units) * run.busy / run.groups
    most = -(-most // costs.simds) * costs.simds
    resident = max(1, int(min(costs.resident, costs.registers / max(1.0, run.held))))
    turns = -(-most // (resident * costs.simds))
    bounds = (
        run.groups * costs.group / min(device.units, run.groups) + most * alone,
        run.groups * run.size * 16 * run.moved / (costs.cache * device.units),
        run.memory / (costs.memory * device.units),
        turns * (costs.simds * alone + run.rounds * run.wait) + run.idle,
    )
    slowest = max(bounds)
    return slowest + _BESIDE * (sum(bounds) - slowest)
