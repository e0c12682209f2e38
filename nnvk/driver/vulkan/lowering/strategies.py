"""How products may be computed, and which way is chosen: by a model of what each costs, or as it was measured.

A `Strategy` is a tile of `shaders/product.comp` with its sizes. `ranked` gives those that a device can run, the
cheapest by the model first. The model knows a device by its properties alone: whether it is a GPU or runs subgroups as
vectors of a CPU, the size of a subgroup, units, features. `COSTS` is all that it assumes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from nnvk.driver.vulkan.lowering.filters import BLOCK
from nnvk.driver.vulkan.lowering.lowering import MOST_COUNTERS
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

_LANES = 8
"""Invocations of a subgroup that the tile `subgroup` is made for."""
_STAGES = {"dot": (4, 8), "float": (4, 8)}
"""Fours of K that the tile `shared` may load at once: bytes take little room. Others 4."""
_SHARED = ((16, (16, 8), 1), (32, (16, 8), 1), (64, (16, 8), 1), (32, (8, 8), 2), (64, (8, 8), 2), (128, (8, 16), 2))
"""Sizes of the tile `shared`: pixels and invocations of a workgroup, fours of output channels of an invocation."""
_VECTOR_LOCAL = 8, 16
_VECTOR_ROWS = 16
"""Rows up to which the tile `vector` is thought of: it reads the weights once a row."""
_NARROW = 16
"""Output channels of a part up to which weights in order are thought of, where they have to be put so."""
_MAX_ROUNDS = 65_500
"""Of the loops of an invocation together: llvmpipe ends them after 65,535."""
_PIECES = 2, 4, 8, 16
"""Into which K may be split; into others up to the most where these fill a device's units better."""
_COUNTING = 2500
"""Cycles that counters cost, which have to be zero at first."""
_NEAR = 4
"""Of so many vectors that registers are loaded with one comes from the cache that all units share."""
_LEFT = 4
"""How often longer than by its store a piece is waited for to leave a vector of sums."""
_SHORTEST_PIECE = 8
"""Fours of K that are worth a workgroup of their own."""
_CARRIED = 64
"""Fours of K after which sums are carried to larger integers, in a loop of its own."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a product asks for."""

    kind: str
    """Its data type, as the axis DTYPE has it."""
    rows: int
    """Output pixels of a part."""
    columns: int
    """Output channels of a part."""
    parts: int
    taps: int
    depth: int
    """Input channels of a tap."""
    constant: bool
    """The filters are known: they are packed, or put in order, beforehand."""
    in_order: bool
    """The filters lie in order as they are."""
    matrix: bool
    """A matrix by a matrix: one part, one tap, pixels one after the other."""
    halves: bool = False
    """Factors are 16-bit floats that the device has, and may be added up as such (`filters.may_be_halved`)."""
    narrow: bool = False
    """Products of 16-bit steps add up to numbers of 32 bits (`filter_output.has_narrow_sums`)."""

    @property
    def steps(self) -> int:
        """Fours of K."""
        return self.taps * -(-self.depth // 4)

    @property
    def fours(self) -> int:
        """Fours of output channels of a part."""
        return -(-self.columns // 4)


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to compute a product."""

    tile: str
    """The axis TILE of product.comp, or `vector`: fully_connected.comp."""
    rows: int
    """Output pixels of a workgroup; of the tiles `register` and `quads` of an invocation."""
    local: tuple[int, int]
    """Invocations of a workgroup, along output channels and pixels."""
    fours: int = 1
    """Fours of output channels of an invocation."""
    arithmetic: str = "none"
    """The axis ARITHMETIC: how numbers smaller than 32 bits are multiplied."""
    packed: bool = True
    """Weights are packed, not in order."""
    pieces: int = 1
    """Workgroups that share a tile's K."""
    stage: int = 4
    """Fours of K that the tile `shared` loads at once."""

    @property
    def sums(self) -> int:
        """Vectors of sums of an invocation, of the tiles that can share K."""
        return (self.rows // self.local[1] if self.tile == "shared" else self.rows) * self.fours

    @property
    def size(self) -> tuple[int, int]:
        """Pixels and output channels of a workgroup."""
        if self.tile in ("subgroup", "vector"):
            return self.rows, BLOCK
        return self.rows * (1 if self.tile == "shared" else self.local[1]), 4 * self.fours * self.local[0]

    def tiles(self, work: Work) -> int:
        """Into which a product is cut."""
        down, across = self.size
        return work.parts * -(-work.rows // down) * -(-work.columns // across)

    def __str__(self) -> str:
        size = str(self.rows)
        if self.tile == "shared":
            size += f"x{self.size[1]}"
        elif self.tile in ("register", "quads"):
            size += f"x{4 * self.fours}"
        arithmetic = {"none": "", "half": ", in 16 bits"}.get(self.arithmetic, f", bytes by {self.arithmetic}")
        order = "" if self.packed else ", weights in order"
        pieces = "" if self.pieces == 1 else f", K in {self.pieces} pieces"
        stage = "" if self.stage == 4 else f", by {4 * self.stage} of K"
        return f"{self.tile} {size} in {self.local[0]}x{self.local[1]}{arithmetic}{order}{stage}{pieces}"


# --- what there is -------------------------------------------------------------------------------------------


def candidates(work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    """The strategies that a device can run for a product."""
    ways: tuple[str, ...] = ("none",)
    if work.kind == "q8":
        ways = ("dot", "float") if "shaderIntegerDotProduct" in device.features else ("float",)
    if work.kind == "q16":
        has_dots = work.narrow and "shaderIntegerDotProduct" in device.features
        ways = ("none", "float", "dot") if has_dots else ("none", "float")
    if work.halves:
        ways = ("none", "half")
    if work.matrix and work.rows <= _VECTOR_ROWS and work.kind not in ("i32", "q16"):
        yield Strategy("vector", work.rows, _VECTOR_LOCAL)
    for way in ways:
        whole = list(_shared(way))
        if _sums_are_short(work, way):
            whole += _in_registers(work, device, way)
        for strategy in whole:
            yield strategy
            yield from _in_pieces(strategy, work, device)
        if way in ("none", "dot") and uses_subgroups(device):
            for rows in (8, 16, 24, 28, 32) if work.rows >= _LANES else (work.rows,):
                yield Strategy("subgroup", rows, (_LANES, 1), arithmetic=way)


def uses_subgroups(device: DeviceProfile) -> bool:
    """Whether subgroups are vectors of eight of a CPU, as the tile `subgroup` is made for."""
    return "subgroupShuffle" in device.features and device.is_cpu and device.subgroup_size == _LANES


def _shared(way: str) -> Iterator[Strategy]:
    for (rows, local, fours), stage in itertools.product(_SHARED, _STAGES.get(way, (4,))):
        yield Strategy("shared", rows, local, fours, way, stage=stage)


def _in_registers(work: Work, device: DeviceProfile, way: str) -> Iterator[Strategy]:
    orders = [False] if work.in_order or work.columns <= _NARROW else []
    if way == "dot":
        orders = []  # it takes four steps of one channel, which lie apart
    count = 16 if device.is_cpu else 64
    for packed in (True, *orders):
        if way != "half" and device.subgroup_size >= 4 and "subgroupQuad" in device.features and work.fours > 1:
            for rows, fours in itertools.product((4, 8, 12, 16), (1, 2) if work.fours > 4 else (1,)):
                yield Strategy("quads", rows, (4, count // 4), fours, way, packed)
        across = min(8, 1 << (work.fours - 1).bit_length())
        for rows, fours in ((1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 2)):
            if fours == 1 or across > 1:
                local = max(across // fours, 1)
                yield Strategy("register", rows, (local, count // local), fours, way, packed)


def _in_pieces(whole: Strategy, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    """With K split, where there are fewer tiles than a GPU can compute at once; a CPU's few cores have enough."""
    tiles = whole.tiles(work)
    if device.is_cpu or tiles * whole.local[0] * whole.local[1] > MOST_COUNTERS:
        return
    best = _filled(tiles, device)
    for pieces in range(2, _PIECES[-1] + 1):
        if work.steps < pieces * _SHORTEST_PIECE or tiles * pieces > device.units * costs_of(device).resident:
            return
        filled = _filled(tiles * pieces, device)
        if pieces in _PIECES or filled > best + 0.03:
            best = max(best, filled)
            yield replace(whole, pieces=pieces)


def _filled(groups: int, device: DeviceProfile) -> float:
    """How much of a device's units so many workgroups keep busy, of all that they take."""
    return groups / (-(-groups // device.units) * device.units)


def _sums_are_short(work: Work, way: str) -> bool:
    carried = not work.narrow if work.kind == "q16" else way == "float"
    return not carried or work.steps + work.steps // _CARRIED < _MAX_ROUNDS


# --- what it costs -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Costs:
    """Cycles that a subgroup takes for things, whatever its size."""

    load: float
    """A vector of four words for each lane."""
    staged: float
    """Such a vector written to or read from shared memory."""
    brought: float
    """A vector is brought to shared memory: its address and its place there."""
    found: float
    """What that takes beside where not all invocations go on to the next tap together."""
    barrier: float
    """Of a workgroup, for each of its subgroups."""
    launch: float
    """A dispatch more, which another waits for."""
    group: float
    """A workgroup begins."""
    begin: float
    """A subgroup finds its place; it also ends once."""
    stored: Mapping[str, float]
    """A vector of sums becomes one of results: its place, activation, and the scales of bytes; by type, or `any`."""
    products: Mapping[str, float]
    """Four steps of K of one pixel by four output channels, by type or ARITHMETIC; each for every lane.

    `wide dot` and `wide float`: of 16-bit steps with bytes.
    """
    products_by_subgroups: Mapping[str, float]
    """The same in the tile `subgroup`, where it differs: in vectors of eight dot products are vector instructions."""
    convert: Mapping[str, float]
    """What a load of bytes takes before it can be multiplied."""
    swap: float
    """A word goes round a quad; where that is part of `products`, 0."""
    latency: float
    """What a lone subgroup waits for its loads."""
    staged_latency: float
    """What it waits for shared memory in a stage."""
    sums: int
    """Vectors of sums of an invocation that stay in registers; with more of them products take twice as long. CPUs have
    registers for none."""
    resident: int
    """Subgroups that a unit keeps under way, to compute with one while others wait."""
    simds: int
    """Of a unit, which it takes so many subgroups to keep busy."""
    cache: float
    """Bytes that all units get from the cache they share, in a cycle, for each of them."""


COSTS = {
    # Subgroups are vectors of a CPU: loads are made lane by lane, shared memory is memory, and a barrier switches
    # between subgroups. Measured on llvmpipe and SwiftShader, whose loads cost five to six times what four steps of a
    # pixel do.
    "cpu": Costs(
        load=100,
        staged=80,
        brought=160,
        found=60,
        barrier=400,
        launch=600,
        group=600,
        begin=500,
        stored={"any": 100},
        products={
            "f32": 16,
            "f16": 16,
            "i32": 32,
            "q16": 20,
            "float": 16,
            "dot": 100,
            "wide dot": 24,
            "wide float": 18,
            "half": 100,
        },
        products_by_subgroups={"dot": 9, "q16": 56, "wide dot": 58},
        convert={"float": 20, "dot": 4, "q16": 8, "wide dot": 16, "wide float": 12},
        swap=0,
        latency=0,
        staged_latency=0,
        sums=0,
        resident=1,
        simds=1,
        cache=math.inf,
    ),
    # Fitted to what AMD's compiler makes of every strategy and a model of two of its GPUs (tools/isa), of 80 and of 8
    # units, and measured on none. Loads and shared memory are expensive and far, subgroups many.
    "gpu": Costs(
        load=10,
        staged=8,
        brought=9,
        found=20,
        barrier=25,
        launch=5000,
        group=60,
        begin=70,
        stored={"any": 50, "q8": 155, "q16": 200},
        products={
            "f32": 16,
            "f16": 16,
            "i32": 64,
            "q16": 64,
            "float": 16,
            "dot": 12,
            "wide dot": 30,
            "wide float": 24,
            "half": 10,
        },
        products_by_subgroups={},
        convert={"float": 12, "dot": 2, "q16": 6, "wide dot": 10, "wide float": 10},
        swap=0.5,
        latency=650,
        staged_latency=520,
        sums=10,
        resident=16,
        simds=2,
        cache=13,
    ),
}
# CPUs that gather texels by vector instructions, and so load as fast as they multiply: there it counts that sums stay
# in the first cache, and bytes are multiplied faster as floats.
COSTS["cpu with texels"] = replace(
    COSTS["cpu"],
    load=14,
    sums=16,
    products_by_subgroups={**COSTS["cpu"].products_by_subgroups, "dot": 27},
)
# GPUs that share the host's memory: many have no memory of their own for what is staged, and half the registers.
COSTS["unified gpu"] = replace(COSTS["gpu"], staged=16, sums=8, resident=8, cache=32)


def costs_of(device: DeviceProfile) -> Costs:
    """What things are taken to cost on a device."""
    if device.is_cpu:
        return COSTS["cpu with texels" if device.texel_loads else "cpu"]
    return COSTS["unified gpu" if device.unified_memory else "gpu"]


def cost(strategy: Strategy, work: Work, device: DeviceProfile) -> float:
    """Cycles that the device is thought to take for a product."""
    costs = costs_of(device)
    lanes = device.subgroup_size if device.is_cpu else 64
    if work.kind == "f16" and device.has_native_16 and not device.is_cpu:
        costs = replace(costs, load=costs.load / 2, staged=costs.staged / 2)
    way = work.kind if strategy.arithmetic == "none" else strategy.arithmetic
    if work.kind == "q16" and way != "q16":
        way = f"wide {way}"
    products = costs.products.get(way, costs.products["i32"])
    convert = costs.convert.get(way, 0.0)
    of_bytes = work.kind in ("q8", "q16")  # the weights are
    loads = 1 if of_bytes else 4  # of the weights of four steps for four channels, where they are packed
    inputs = {"q8": 0.25, "q16": 0.5}.get(work.kind, 1.0)  # vectors that four steps of a pixel are
    moved = 0.0  # vectors that an invocation gets from the cache which all units share, or leaves there
    stored = costs.stored.get(work.kind, costs.stored["any"])
    local_x, local_y = strategy.local
    fours = work.fours
    if strategy.tile == "vector":
        groups = work.rows * -(-work.columns // BLOCK)
        busy = groups * -(-local_x * local_y // lanes)
        rounds = -(-work.steps // local_y)
        step = (loads + 1) * costs.load + products + convert
        end = costs.barrier + local_y * costs.staged
    elif strategy.tile == "subgroup":
        products = costs.products_by_subgroups.get(way, products)
        groups = busy = strategy.tiles(work)
        rounds = work.steps
        read = loads + -(-strategy.rows // _LANES)
        step = read * costs.load + strategy.rows * products * (1 if strategy.rows <= costs.sums else 2) + convert
        end = strategy.rows * stored
    elif strategy.tile == "shared":
        own = strategy.sums
        groups = strategy.tiles(work)
        busy = groups * -(-local_x * local_y // lanes)
        stage = strategy.stage
        rounds = -(-work.steps // stage)
        down, across = strategy.size
        pixels, weights = (
            -(-stage * down // (local_x * local_y)),
            -(-stage * loads * across // 4 // (local_x * local_y)),
        )
        brought = pixels + weights
        moved = rounds * (pixels * inputs + weights) + own
        staged = brought + stage * (strategy.fours * loads + inputs * own / strategy.fours)
        together = work.taps == 1 or work.depth % (4 * stage) == 0
        step = brought * (costs.brought + (0 if together else costs.found)) + 2 * costs.barrier
        step += stage * own * products + stage * (strategy.fours + own / strategy.fours) * convert
        staging = staged * costs.staged
        step = max(step, staging) if costs.resident > 1 else step + staging  # one subgroup multiplies, another stages
        end = own * stored
    else:
        share = 4 if strategy.tile == "quads" else 1
        across = -(-fours // (local_x * strategy.fours))
        # Lines of invocations that have rows: those of a workgroup take turns, by as many rows as they share.
        whole, left = divmod(work.rows, strategy.rows * local_y)
        lines = whole * local_y + min(local_y, -(-left // share))
        groups = strategy.tiles(work)
        busy = work.parts * across * -(-lines // max(1, lanes // local_x)) * -(-local_x // lanes)
        rounds = work.steps
        read = strategy.fours * (loads if strategy.packed else 4) + strategy.rows // share
        sums = strategy.sums
        words = {"dot": 1, "wide dot": 2}.get(way, 4)
        step = read * costs.load + sums * products * (1 if sums <= costs.sums else 2)
        step += strategy.rows * (share - 1) / share * words * costs.swap
        step += (strategy.fours + strategy.rows // share) * convert
        moved = (rounds * read + sums) / _NEAR
        end = sums * stored
    if strategy.pieces > 1:
        groups, busy, rounds = groups * strategy.pieces, busy * strategy.pieces, -(-rounds // strategy.pieces)
        # Every piece leaves its sums and counts, and what comes last loads them all.
        end += strategy.sums * 2 * costs.load + costs.load
        moved = moved / strategy.pieces + strategy.sums * (1 + strategy.pieces)
    waits = rounds * (costs.staged_latency if strategy.tile == "shared" else costs.latency)
    alone = costs.begin + end + rounds * step
    # The subgroups of the unit that has the most.
    most = -(-groups // device.units) * busy / groups
    most = -(-most // costs.simds) * costs.simds
    throughput = groups * costs.group / min(device.units, groups) + most * alone
    throughput = max(throughput, groups * local_x * local_y * 16 * moved / (costs.cache * device.units))
    turns = -(-most // (costs.resident * costs.simds))
    waiting = turns * (costs.simds * alone + waits)
    if strategy.pieces > 1:
        waiting += _COUNTING + strategy.sums * stored * _LEFT
    return max(throughput, waiting) + _preparation(strategy, work, costs, lanes * device.units)


def _preparation(strategy: Strategy, work: Work, costs: Costs, lanes: int) -> float:
    """Putting weights in the strategy's order in every execution, where that is needed."""
    if work.constant or (work.in_order and not strategy.packed):
        return 0.0
    vectors = work.parts * work.fours * work.steps * (1 if work.kind in ("q8", "q16") else 4)
    return costs.launch + vectors / lanes * 5 * costs.load


def ranked(work: Work, device: DeviceProfile) -> list[Strategy]:
    """All strategies that a device can run for a product, the cheapest first."""
    return sorted(candidates(work, device), key=lambda strategy: cost(strategy, work, device))
