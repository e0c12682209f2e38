"""How products may be computed, and which way is chosen: by a model of what each costs, or as it was measured.

A `Strategy` is a tile of `shaders/product.comp` with its sizes. `ranked` gives those that a device can run, the
cheapest by the model first. The model knows a device by its properties alone: whether it is a GPU or runs subgroups as
vectors of a CPU, the size of a subgroup, units, features. All that it assumes is in `costs.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from nnvk.driver.vulkan.lowering import output_end
from nnvk.driver.vulkan.lowering.costs import NEAR, Costs, Run, costs_of, cycles
from nnvk.driver.vulkan.lowering.dtypes import SIZES
from nnvk.driver.vulkan.lowering.filters import BLOCK
from nnvk.driver.vulkan.lowering.lowering import MOST_COUNTERS
from nnvk.driver.vulkan.shaders.declaration import Shader, Variant
from nnvk.driver.vulkan.shaders.profile import AvoidedShader, DeviceProfile


def _exists(choice: Mapping[str, str]) -> bool:
    """Bytes are multiplied in one of two ways, 16-bit steps with bytes in one of three; no subgroup of eight as floats.

    16-bit floats may be multiplied as such where nothing goes from one invocation to another but through shared memory.
    """
    if not output_end.exists(choice):
        return False
    if choice["SUMS"] == "split" and choice["TILE"] == "subgroup":
        return False  # those are a CPU's
    if choice["ARITHMETIC"] == "int8":
        return choice["DTYPE"] == "f32"
    if choice["ARITHMETIC"] == "half":
        return choice["DTYPE"] == "f16" and choice["TILE"] in ("shared", "register")
    if choice["ARITHMETIC"] == "none":
        return choice["DTYPE"] != "q8"
    is_possible = choice["ARITHMETIC"] == "dot" or choice["TILE"] != "subgroup"
    return is_possible and choice["DTYPE"] in ("q8", "q16")


PRODUCT = Shader(
    "product",
    where=_exists,
    DTYPE=("f32", "f16", "i32", "q8", "q16"),
    TILE=("subgroup", "shared", "register", "quads"),
    ARITHMETIC=("none", "float", "dot", "half", "int8"),
    SUMS=("whole", "split"),
    END=output_end.ENDS,
)
VECTOR = Shader(
    "fully_connected",
    where=lambda choice: output_end.exists(choice) and (choice["ARITHMETIC"] == "none" or choice["DTYPE"] == "f32"),
    DTYPE=("f32", "f16", "q8"),
    ARITHMETIC=("none", "int8"),
    END=output_end.ENDS,
)

_ARITHMETICS = {"none": "", "half": ", in 16 bits", "int8": ", weights of 8 bits"}
"""How strategies name the axis ARITHMETIC, where they don't say by what bytes are multiplied."""
_LANES = 8
"""Invocations of a subgroup that the tile `subgroup` is made for."""
_STAGES = {"dot": (4, 8), "float": (4, 8), "half": (4, 8)}
"""Fours of K that the tile `shared` may load at once: short factors take little room. Others 4."""
_SHARED = (
    ((16, 8), 1, (2, 3, 4, 5, 6, 7, 8)),
    ((16, 16), 1, (2, 3, 4, 6, 8)),
    ((8, 16), 1, (2, 3, 4, 5)),
    ((8, 8), 2, (4, 8)),
    ((8, 16), 2, (8,)),
)
"""Sizes of the tile `shared`: invocations of a workgroup, fours of output channels of an invocation, and its pixels."""
_UNROLLED = 32
"""Vectors of sums by fours of K of a stage, of the tile `shared` on CPUs: drivers take gigabytes to compile more."""
_VECTOR_LOCAL = 8, 16
_VECTOR_ROWS = 16
"""Rows up to which the tile `vector` is thought of: it reads the weights once a row."""
_NARROW = 16
"""Output channels of a part up to which weights in order are thought of, where they have to be put so."""
_MAX_ROUNDS = 65_500
"""The most rounds of an invocation's loops together: llvmpipe ends them after 65,535."""
_PIECES = 2, 4, 8, 16
"""Into which K may be split; into others up to the most where these fill a device's units better."""
_COUNTING = 2500
"""Cycles that counters cost, which have to be zero at first."""
_LEFT = 5.6
"""How often longer than by its store a piece is waited for to leave a vector of sums."""
_SHORTEST_PIECE = 8
"""Fours of K that are worth a workgroup of their own."""
_MANY = 6
"""Rounds of a whole texel of bytes that are worth their longer code, which a CPU has to fetch as well."""
_CARRIED = 64
"""Fours of K after which sums are carried to larger integers, in a loop of its own."""


class Order(IntEnum):
    """How filters lie that the tile `shared` takes; as shared.glsl has it."""

    IN_BLOCKS = 1
    """Packed."""
    BY_STEPS = 2
    """Output channels are innermost, a multiple of four."""
    BY_OUTPUTS = 3
    """The channels that a filter sees are, a multiple of four."""


@dataclass(frozen=True, slots=True)
class Work:
    """The requirements of a product."""

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
    int8_weights: bool = False
    """Weights of real numbers are steps of 8 bits."""
    halves: bool = False
    """Factors are 16-bit floats that the device has, and may be added up as such (`filters.may_be_halved`)."""
    halves_in_pieces: bool = False
    """And pieces may leave their sums as such."""
    order: Order = Order.IN_BLOCKS
    """How the tile `shared` takes the filters: as they lie, where it can, so that they need not be packed."""
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
    """Weights are packed, not in order; of the tile `shared`: not as they lie."""
    pieces: int = 1
    """Workgroups that share a tile's K."""
    stage: int = 4
    """Fours of K that the tile `shared` loads at once."""

    def variant(self, kind: str) -> Variant:
        """The shader variant for a data type, as the axis DTYPE has it."""
        if self.tile == "vector":
            arithmetic = "int8" if self.arithmetic == "int8" else "none"
            return VECTOR.variant(DTYPE=kind, ARITHMETIC=arithmetic, END="plain")
        sums = "whole" if self.pieces == 1 else "split"
        return PRODUCT.variant(DTYPE=kind, TILE=self.tile, ARITHMETIC=self.arithmetic, SUMS=sums, END="plain")

    @property
    def sums(self) -> int:
        """Vectors of sums of an invocation, of the tiles that can share K."""
        return (self.rows // self.local[1] if self.tile == "shared" else self.rows) * self.fours

    @property
    def together(self) -> int:
        """Fours of K whose factors the tile `shared` has in registers at once, where they are short or few."""
        if self.arithmetic in ("half", "dot") or self.sums <= 2:
            return 4
        return 2 if self.sums <= 4 else 1

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

    def fours_of_piece(self, work: Work) -> int:
        """The fours of K of each piece but the last, which may have fewer; the tile `shared` takes whole stages."""
        at_once = self.stage if self.tile == "shared" else 1
        stages = -(-work.steps // at_once)
        return -(-stages // self.pieces) * at_once

    def is_busy(self, work: Work) -> bool:
        """Whether every piece has something to do, which shared.glsl relies on."""
        return self.fours_of_piece(work) * (self.pieces - 1) < work.steps

    def __str__(self) -> str:
        size = str(self.rows)
        if self.tile == "shared":
            size += f"x{self.size[1]}"
        elif self.tile in ("register", "quads"):
            size += f"x{4 * self.fours}"
        arithmetic = _ARITHMETICS.get(self.arithmetic, f", bytes by {self.arithmetic}")
        order = "" if self.packed else ", weights as they lie" if self.tile == "shared" else ", weights in order"
        pieces = "" if self.pieces == 1 else f", K in {self.pieces} pieces"
        stage = "" if self.stage == 4 else f", by {4 * self.stage} of K"
        return f"{self.tile} {size} in {self.local[0]}x{self.local[1]}{arithmetic}{order}{stage}{pieces}"


# --- what there is -------------------------------------------------------------------------------------------


def candidates(work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    """The strategies that a device can run for a product, without those whose shader it has to avoid."""
    possible = _possible(work, device)
    if not device.avoided and not device.left_out:
        return possible
    return (strategy for strategy in possible if not device.avoids(strategy.variant(work.kind)))


def _possible(work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    ways: tuple[str, ...] = ("none",)
    if work.kind == "q8":
        ways = ("dot", "float") if "shaderIntegerDotProduct" in device.features else ("float",)
    if work.kind == "q16":
        has_dots = work.narrow and "shaderIntegerDotProduct" in device.features
        ways = ("none", "float", "dot") if has_dots else ("none", "float")
    if work.halves:
        ways = ("none", "half")
    if work.int8_weights:
        ways = ("int8",)
    if work.matrix and work.rows <= _VECTOR_ROWS and work.kind not in ("i32", "q16"):
        yield Strategy("vector", work.rows, _VECTOR_LOCAL, arithmetic="int8" if work.int8_weights else "none")
    for way in ways:
        whole = [one for one in _shared(device, way, work.order is Order.IN_BLOCKS) if one.is_busy(work)]
        if _sums_are_short(work, way):
            whole += _in_registers(work, device, way)
        for strategy in whole:
            yield strategy
            yield from _in_pieces(strategy, work, device)
        if way in ("none", "dot", "int8") and uses_subgroups(device):
            for rows in (8, 16, 24, 28, 32) if work.rows >= _LANES else (work.rows,):
                yield Strategy("subgroup", rows, (_LANES, 1), arithmetic=way)


def uses_subgroups(device: DeviceProfile) -> bool:
    """Whether subgroups are vectors of eight of a CPU, as the tile `subgroup` is made for."""
    return "subgroupShuffle" in device.features and device.is_cpu and device.subgroup_size == _LANES


def _shared(device: DeviceProfile, way: str, packed: bool) -> Iterator[Strategy]:
    for (local, fours, pixels), stage in itertools.product(_SHARED, _STAGES.get(way, (4,))):
        for each in pixels:
            strategy = Strategy("shared", each * local[1], local, fours, way, packed, stage=stage)
            if _can_stage(strategy, device):
                yield strategy


def _can_stage(strategy: Strategy, device: DeviceProfile) -> bool:
    """Whether a device has room for what the tile `shared` asks of invocations and compilers."""
    if strategy.arithmetic == "half" and strategy.stage * strategy.fours > 8:
        return False  # invocations would hold all registers that there are
    if device.is_cpu and strategy.sums * strategy.stage > _UNROLLED:
        return False
    return math.prod(strategy.local) <= device.max_invocations


def _in_registers(work: Work, device: DeviceProfile, way: str) -> Iterator[Strategy]:
    orders = [False] if work.in_order or work.columns <= _NARROW else []
    if way == "dot":
        orders = []  # it takes four steps of one channel, which lie apart
    if way == "int8":
        orders = []
    count = 16 if device.is_cpu else 64
    for packed in (True, *orders):
        if _can_swap(way, device) and work.fours > 1:
            for rows, fours in itertools.product((4, 8, 12, 16), (1, 2) if work.fours > 4 else (1,)):
                yield Strategy("quads", rows, (4, count // 4), fours, way, packed)
        across = min(8, 1 << (work.fours - 1).bit_length())
        for rows, fours in ((1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 2)):
            if fours == 1 or across > 1:
                local = max(across // fours, 1)
                yield Strategy("register", rows, (local, count // local), fours, way, packed)


def _can_swap(way: str, device: DeviceProfile) -> bool:
    """Whether the tile `quads` is for a device and an arithmetic.

    Not for packed ones on GPUs: Mesa's compiler for AMD's, up to version 22, makes a swap and a product one
    instruction, which these do not have, and what they compute is something else.
    """
    if way == "half" or (way == "dot" and not device.is_cpu):
        return False
    return device.subgroup_size >= 4 and "subgroupQuad" in device.features


def _in_pieces(whole: Strategy, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    """With K split, where there are fewer tiles than a GPU can compute at once; a CPU's few cores have enough."""
    tiles = whole.tiles(work)
    if whole.arithmetic == "half" and not work.halves_in_pieces:
        return
    if device.is_cpu or tiles * whole.local[0] * whole.local[1] > MOST_COUNTERS:
        return
    best = _filled(tiles, device)
    for pieces in range(2, _PIECES[-1] + 1):
        if work.steps < pieces * _SHORTEST_PIECE or tiles * pieces > device.units * costs_of(device).resident:
            return
        filled, split = _filled(tiles * pieces, device), replace(whole, pieces=pieces)
        if split.is_busy(work) and (pieces in _PIECES or filled > best + 0.03):
            best = max(best, filled)
            yield split


def _filled(groups: int, device: DeviceProfile) -> float:
    """How much of a device's units so many workgroups keep busy, of all that they take."""
    return groups / (-(-groups // device.units) * device.units)


def _sums_are_short(work: Work, way: str) -> bool:
    carried = not work.narrow if work.kind == "q16" else way == "float"
    return not carried or work.steps + work.steps // _CARRIED < _MAX_ROUNDS


def span(strategy: Strategy, work: Work, device: DeviceProfile) -> int:
    """Channels that a round of a tile takes at once, a divisor of all; 1 where these are no fours."""
    wide = 4
    if strategy.tile == "subgroup":
        wide = {"q8": 16, "f32": 8, "i32": 8, "f16": 8 if device.has_native_16 else 4}.get(work.kind, 4)
    elif strategy.tile == "register" and strategy.arithmetic == "half":
        wide = 8
    elif strategy.tile != "shared" and work.kind == "q8" and device.texel_loads and 4 * work.steps >= 16 * _MANY:
        wide = 16
    return 1 if work.depth % 4 else 4 if work.depth % wide else wide


# --- what it costs -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Vectors:
    """The size of four steps of K in vectors of four words, and the cost of using them."""

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
    def of(work: Work, way: str, costs: Costs, channels: int) -> _Vectors:
        """The vectors of a product by an arithmetic, in rounds of so many channels."""
        return _Vectors(
            weights=1 if work.kind in ("q8", "q16") or work.int8_weights else 4,
            pixel={"q8": 0.25, "q16": 0.5}.get(work.kind, 1.0),
            load=costs.load * (costs.odd if channels == 1 else 4 / channels if work.kind == "q8" else 1),
            products=costs.products.get(way, costs.products["i32"]),
            convert=costs.convert.get("float" if work.int8_weights else way, 0.0),
            stored=costs.stored.get(work.kind, costs.stored["any"]),
            ending=costs.ending.get(work.kind, costs.ending["any"]),
        )


def cost(strategy: Strategy, work: Work, device: DeviceProfile) -> float:
    """Cycles that the device is thought to take for a product."""
    costs = costs_of(device)
    lanes = device.subgroup_size if device.is_cpu else 64
    if work.kind == "f16" and device.has_native_16 and not device.is_cpu:
        # A load has half the bytes, but for those of elements one by one.
        costs = replace(costs, load=costs.load / 2, staged=costs.staged / 2, odd=costs.odd * 2)
    way = work.kind if strategy.arithmetic in ("none", "int8") else strategy.arithmetic
    if work.kind == "q16" and way != "q16":
        way = f"wide {way}"
    vectors = _Vectors.of(work, way, costs, span(strategy, work, device))
    if strategy.tile == "vector":
        run = _by_vectors(strategy, work, costs, vectors, lanes)
    elif strategy.tile == "subgroup":
        run = _by_subgroups(strategy, work, costs, vectors, way)
    elif strategy.tile == "shared":
        run = _by_shared_memory(strategy, work, costs, vectors, lanes)
    else:
        run = _by_registers(strategy, work, costs, vectors, way, lanes)
    run.size = math.prod(strategy.local)
    if strategy.pieces > 1:
        run.groups *= strategy.pieces
        run.busy *= strategy.pieces
        run.rounds = -(-run.rounds // strategy.pieces)
        # Every piece leaves its sums and counts, and what comes last loads them all, and ends.
        left = strategy.sums / (2 if strategy.arithmetic == "half" else 1)  # vectors of four words
        run.end = run.end / strategy.pieces + left * 2 * costs.load + costs.load
        run.moved = run.moved / strategy.pieces + left * 2
        run.memory += run.groups * run.size * 16 * left
        run.idle = _COUNTING + strategy.sums * vectors.stored * _LEFT
    run.memory += _bytes(work)
    return cycles(run, costs, device) + _preparation(strategy, work, costs, lanes * device.units)


def _by_vectors(strategy: Strategy, work: Work, costs: Costs, vectors: _Vectors, lanes: int) -> Run:
    local_x, local_y = strategy.local
    groups = work.rows * -(-work.columns // BLOCK)
    return Run(
        groups,
        groups * -(-local_x * local_y // lanes),
        rounds=-(-work.steps // local_y),
        step=(vectors.weights + 1) * costs.load + vectors.products + vectors.convert,
        end=costs.barrier + local_y * costs.staged,
        wait=costs.latency,
    )


def _by_subgroups(strategy: Strategy, work: Work, costs: Costs, vectors: _Vectors, way: str) -> Run:
    groups = strategy.tiles(work)
    products = costs.products_by_subgroups.get(way, vectors.products) * (1 if strategy.rows <= costs.sums else 2)
    read = vectors.weights * costs.load + -(-strategy.rows // _LANES) * vectors.load
    return Run(
        groups,
        groups,
        rounds=work.steps,
        step=read + strategy.rows * products + vectors.convert,
        end=strategy.rows * vectors.stored + vectors.ending,
        wait=costs.latency,
    )


def _by_shared_memory(strategy: Strategy, work: Work, costs: Costs, vectors: _Vectors, lanes: int) -> Run:
    own, stage, fours = strategy.sums, strategy.stage, strategy.fours
    invocations = math.prod(strategy.local)
    groups = strategy.tiles(work)
    rounds = -(-work.steps // stage)
    down, across = strategy.size
    pixels = -(-stage * down // invocations)
    weights = -(-stage * vectors.weights * across // 4 // invocations)
    brought = pixels + weights
    factors = fours * vectors.weights + vectors.pixel * own / fours  # of a four of K
    together = work.taps == 1 or work.depth % (4 * stage) == 0
    step = brought * (costs.brought + (0 if together else costs.found)) + 2 * costs.barrier
    step += pixels * (vectors.load - costs.load)
    step += stage * own * vectors.products + stage * (fours + own / fours) * vectors.convert
    staging = (brought + stage * factors) * costs.staged
    # Of halves a sum in 16 bits beside that in 32.
    held = own + brought + strategy.together * factors
    if strategy.arithmetic == "half":
        held = own + held / 2
    return Run(
        groups,
        groups * -(-invocations // lanes),
        rounds,
        # One subgroup multiplies while another stages, where there is another.
        step=max(step, staging) if costs.resident > 1 else step + staging,
        end=own * vectors.stored + fours * vectors.ending,
        wait=costs.staged_latency + (stage - 4) / 4 * costs.longer_latency,
        moved=rounds * (pixels * vectors.pixel + weights) + own,
        held=held,
    )


def _by_registers(strategy: Strategy, work: Work, costs: Costs, vectors: _Vectors, way: str, lanes: int) -> Run:
    local_x, local_y = strategy.local
    share = 4 if strategy.tile == "quads" else 1
    across = -(-work.fours // (local_x * strategy.fours))
    # Lines of invocations that have rows: those of a workgroup take turns, by as many rows as they share.
    whole, left = divmod(work.rows, strategy.rows * local_y)
    lines = whole * local_y + min(local_y, -(-left // share))
    pixels, weights = strategy.rows // share, strategy.fours * (vectors.weights if strategy.packed else 4)
    sums = strategy.sums
    words = {"dot": 1, "wide dot": 2}.get(way, 4)
    step = weights * costs.load + pixels * vectors.load
    step += sums * vectors.products * (1 if sums <= costs.sums else 2)
    step += strategy.rows * (share - 1) / share * words * costs.swap
    step += (strategy.fours + pixels) * vectors.convert
    return Run(
        strategy.tiles(work),
        work.parts * across * -(-lines // max(1, lanes // local_x)) * -(-local_x // lanes),
        rounds=work.steps,
        step=step,
        end=sums * vectors.stored + strategy.fours * vectors.ending,
        wait=costs.latency,
        moved=(work.steps * (pixels + weights) + sums) / NEAR,
    )


def _bytes(work: Work) -> int:
    """The bytes that a product reads and writes in memory."""
    size = SIZES[work.kind]
    of_weight = 1 if work.kind == "q16" or work.int8_weights else size
    images = size * work.rows * (work.depth + work.columns)
    return work.parts * (images + of_weight * work.columns * work.taps * work.depth)


def _preparation(strategy: Strategy, work: Work, costs: Costs, lanes: int) -> float:
    """Putting weights in the strategy's order in every execution, where that is needed."""
    if work.constant or (not strategy.packed and (strategy.tile == "shared" or work.in_order)):
        return 0.0
    vectors = work.parts * work.fours * work.steps * (1 if work.kind in ("q8", "q16") else 4)
    return costs.launch + vectors / lanes * 5 * costs.load


def ranked(work: Work, device: DeviceProfile) -> list[Strategy]:
    """All strategies that a device can run for a product, the cheapest first. AvoidedShader: none is left."""
    found = sorted(candidates(work, device), key=lambda strategy: cost(strategy, work, device))
    if not found and device.avoided:
        some = {device.twin(strategy.variant(work.kind)).name for strategy in _possible(work, device)}
        raise AvoidedShader(" and ".join(sorted(some)))
    return found
