"""How GEMMs may be computed: a `Strategy` is a tile of `shaders/gemm.comp` with its sizes.

`candidates` gives those that a device can run. `strategy_costs.py` ranks them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from nnvk.base.extents import hint
from nnvk.driver.vulkan.lowering.costs import costs_of
from nnvk.driver.vulkan.lowering.gemm import cooperative_matrix, epilogue
from nnvk.driver.vulkan.lowering.gemm.cooperative_matrix import MatrixTile
from nnvk.driver.vulkan.lowering.gemm.problem import WeightLayout, Work
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK
from nnvk.driver.vulkan.lowering.lowering import MOST_COUNTERS
from nnvk.driver.vulkan.shaders.declaration import Shader, Variant
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

DEPTHWISE = "depthwise"
"""The tile that computes a depthwise convolution and the 1 x 1 convolution behind it (`separable.py`)."""

_OF_DEPTHWISE = "f32", "f16", "q8"
"""The data types of this tile."""


def _exists(choice: Mapping[str, str]) -> bool:
    """Bytes are multiplied in one of two ways, 16-bit values by bytes in one of three; no subgroup of eight as floats.

    16-bit floats may be multiplied as such where nothing goes from one invocation to another but through shared memory.
    """
    if not epilogue.exists(choice):
        return False
    if choice["SUMS"].startswith("split") and choice["TILE"] == "subgroup":
        return False  # those are a CPU's
    if choice["SUMS"].endswith("checked") and choice["DTYPE"] != "q8":
        return False  # other sums aren't exact
    if choice["TILE"] == cooperative_matrix.TILE:
        return choice["ARITHMETIC"] == cooperative_matrix.ARITHMETICS.get(choice["DTYPE"])
    if choice["TILE"] == DEPTHWISE and choice["DTYPE"] not in _OF_DEPTHWISE:
        return False
    if choice["ARITHMETIC"] == "int8":
        return choice["DTYPE"] == "f32" and choice["TILE"] != DEPTHWISE
    if choice["ARITHMETIC"] == "half":
        return choice["DTYPE"] == "f16" and choice["TILE"] in ("shared", "register", DEPTHWISE)
    if choice["ARITHMETIC"] == "none":
        return choice["DTYPE"] != "q8"
    is_possible = choice["ARITHMETIC"] == "dot" or choice["TILE"] != "subgroup"
    return is_possible and choice["DTYPE"] in ("q8", "q16")


GEMM = Shader(
    "gemm",
    where=_exists,
    needs=lambda choice: cooperative_matrix.REQUIREMENTS if choice["TILE"] == cooperative_matrix.TILE else None,
    DTYPE=("f32", "f16", "i32", "q8", "q16"),
    TILE=("subgroup", "shared", "register", "quads", cooperative_matrix.TILE, DEPTHWISE),
    ARITHMETIC=("none", "float", "dot", "half", "int8"),
    SUMS=("whole", "split", "whole_checked", "split_checked"),
    EPILOGUE=epilogue.EPILOGUES,
)
VECTOR = Shader(
    "fully_connected",
    where=lambda choice: epilogue.exists(choice) and (choice["ARITHMETIC"] == "none" or choice["DTYPE"] == "f32"),
    DTYPE=("f32", "f16", "q8"),
    ARITHMETIC=("none", "int8"),
    EPILOGUE=epilogue.EPILOGUES,
)

_ARITHMETICS = {"none": "", "half": ", in 16 bits", "int8": ", weights of 8 bits"}
"""How strategies name the axis ARITHMETIC, where they don't say by what bytes are multiplied."""
LANES = 8
"""Invocations of a subgroup that the tile `subgroup` is made for."""
_STAGES = {"dot": (4, 8), "float": (4, 8), "half": (4, 8)}
"""Vec4s of K that the tile `shared` may load at once: short factors take little room. Others 4."""
_Size = tuple[tuple[int, int], int, tuple[int, ...]]
_SHARED: tuple[_Size, ...] = (
    ((16, 8), 1, (2, 3, 4, 5, 6, 7, 8)),
    ((16, 16), 1, (2, 3, 4, 6, 8)),
    ((8, 16), 1, (2, 3, 4, 5)),
    ((8, 8), 2, (4, 8)),
    ((8, 16), 2, (8,)),
)
"""Sizes of the tile `shared`: invocations of a workgroup, vec4s of output channels of an invocation, and its pixels."""
_FEW_ROWS = (((16, 8), 1, (1,)),)
"""Those for so few rows of dot products on GPUs."""
_WIDE = (((32, 4), 1, (4,)),)
"""Those for dot products on GPUs behind a depthwise convolution, which each block of output channels computes again."""
_UNROLLED = 32
"""Vectors of sums by vec4s of K of a stage, of the tile `shared` on CPUs: drivers take gigabytes to compile more."""
_SMALL_HELD = 40
"""The most `Strategy.held` on GPUs with small subgroups: with more, the compilers of Mali and VideoCore spill. So does
Intel's where bytes are converted."""
_FEW_HELD, _EIGHT_HELD = 96, 60
"""The most `registers` on GPUs with few, and on those with subgroups of eight. With more, Adreno's compiler spills 32
times, and Intel's 2 to 143 times."""
_FOUND = 4
"""Registers to find the pixels of several taps."""
_WINDOWS = 2
"""The most windows that an invocation of the tile `depthwise` loads at once. Each has up to nine vectors, and it takes
conditions for what is in the padding, of which AMD's compiler spills more. Adreno's spills with two, and
with one for floats; Intel's always. NVIDIA's keeps 56 to 84 bytes of two windows of 32-bit floats in memory."""
_WIDE_SUBGROUP = 64
"""The largest subgroups of AMD's GPUs, and not of NVIDIA's."""
_VECTOR_LOCAL = 8, 16
_VECTOR_ROWS = 16
"""Rows up to which the tile `vector` is thought of: it reads the weights once a row."""
_NARROW = 16
"""Output channels of a part up to which weights in order are thought of, where they have to be put so."""
_MAX_ROUNDS = 65_500
"""The most rounds of an invocation's loops together: llvmpipe ends them after 65,535."""
_SPLITS_OF_K = 2, 4, 8, 16
"""Into which K may be split; into others up to the most where these fill a device's units better."""
_SHORTEST_K_SLICE = 8
"""Vec4s of K that are worth a workgroup of their own."""
_MANY = 6
"""Rounds of a whole texel of bytes that are worth their longer code, which a CPU has to fetch as well."""
_CARRIED = 64
"""Vec4s of K after which sums are carried to larger integers, in a loop of its own."""


_QUICK_REGISTERS = 36
"""The registers of a tile of 4 by 4. SwiftShader takes 0.3 s to compile its shader, and up to 2.7 s for larger ones."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to compute a GEMM."""

    tile: str
    """The axis TILE of gemm.comp, or `vector`: fully_connected.comp."""
    rows: int
    """Output pixels of a workgroup; of the tiles `register` and `quads` of an invocation."""
    local: tuple[int, int]
    """Invocations of a workgroup, along output channels and pixels."""
    vec4s: int = 1
    """Vec4s of output channels of an invocation."""
    arithmetic: str = "none"
    """The axis ARITHMETIC: how numbers smaller than 32 bits are multiplied."""
    packed: bool = True
    """Weights are packed, not in order; of the tile `shared`: not as they lie."""
    split_k: int = 1
    """Workgroups that share a tile's K."""
    stage: int = 4
    """Vec4s of K that the tile `shared` loads at once."""
    matrices: MatrixTile | None = None
    """The work of a workgroup with cooperative matrices."""

    def variant(self, kind: str, epilogue: str = "plain", *, checked: bool = False) -> Variant:
        """The shader variant for a data type and a kind of epilogue, as the axes DTYPE and EPILOGUE have them.

        ``checked``: the one that stores check words (`checksum.py`), which the tile `vector` can't.
        """
        if self.tile == "vector":
            arithmetic = "int8" if self.arithmetic == "int8" else "none"
            return VECTOR.variant(DTYPE=kind, ARITHMETIC=arithmetic, EPILOGUE=epilogue)
        sums = ("whole" if self.split_k == 1 else "split") + ("_checked" if checked else "")
        return GEMM.variant(DTYPE=kind, TILE=self.tile, ARITHMETIC=self.arithmetic, SUMS=sums, EPILOGUE=epilogue)

    @property
    def is_staged(self) -> bool:
        """Whether both operands are staged in shared memory."""
        return self.tile in ("shared", DEPTHWISE)

    @property
    def windows(self) -> int:
        """Vec4s of the left operand that an invocation stages at once."""
        return -(-self.rows * self.stage // math.prod(self.local))

    @property
    def sums(self) -> int:
        """Vectors of sums of an invocation, of the tiles that can share K."""
        if self.matrices is not None:
            return self.matrices.stored
        return (self.rows // self.local[1] if self.is_staged else self.rows) * self.vec4s

    @property
    def held(self) -> int:
        """32-bit registers of an invocation for sums, and for the inputs and weights of one element of K."""
        return 4 * (self.sums + self.sums // self.vec4s + self.vec4s)

    @property
    def staged(self) -> int:
        """32-bit registers of an invocation for what it stages at once, of the tile `shared`."""
        if not self.is_staged:
            return 0
        return 4 * (self.windows + -(-self.size[1] * self.stage // math.prod(self.local)))

    @property
    def is_quick(self) -> bool:
        """Whether drivers compile its shader quickly: an invocation has few sums, whose code is unrolled."""
        return self.held <= _QUICK_REGISTERS

    @property
    def together(self) -> int:
        """Vec4s of K whose factors the tile `shared` has in registers at once, where they are short or few."""
        if self.arithmetic in ("half", "dot") or self.sums <= 2:
            return 4
        return 2 if self.sums <= 4 else 1

    @property
    def size(self) -> tuple[int, int]:
        """Pixels and output channels of a workgroup."""
        if self.matrices is not None:
            return self.matrices.rows, self.matrices.columns
        if self.tile in ("subgroup", "vector"):
            return self.rows, BLOCK
        return self.rows * (1 if self.is_staged else self.local[1]), 4 * self.vec4s * self.local[0]

    def tiles(self, work: Work) -> int:
        """Into which a GEMM is cut."""
        return work.parts * math.prod(self.tiles_of_part(work))

    def tiles_of_part(self, work: Work) -> tuple[int, int]:
        """Into which a part is cut, along its rows and its columns."""
        down, across = self.size
        return -(-work.rows // down), -(-work.columns // across)

    def vec4s_of_k_slice(self, work: Work) -> int:
        """The vec4s of K of each K slice but the last, which may have fewer; the tile `shared` takes whole stages."""
        at_once = self.stage if self.is_staged else 1
        stages = -(-work.vec4s_of_k // at_once)
        return -(-stages // self.split_k) * at_once

    def is_busy(self, work: Work) -> bool:
        """Whether every K slice has something to do, which shared.glsl relies on."""
        if self.matrices is not None:
            stages = -(-cooperative_matrix.chunks(work.kind, *work.in_lines) // self.matrices.stage)
            return -(-stages // self.split_k) * (self.split_k - 1) < stages
        return self.vec4s_of_k_slice(work) * (self.split_k - 1) < work.vec4s_of_k

    def __str__(self) -> str:
        split_k = "" if self.split_k == 1 else f", split-K by {self.split_k}"
        if self.matrices is not None:
            return f"cooperative matrices {self.rows}x{self.size[1]}: {self.matrices}{split_k}"
        size = str(self.rows)
        if self.is_staged:
            size += f"x{self.size[1]}"
        elif self.tile in ("register", "quads"):
            size += f"x{4 * self.vec4s}"
        arithmetic = _ARITHMETICS.get(self.arithmetic, f", bytes by {self.arithmetic}")
        order = "" if self.packed else ", weights as they lie" if self.is_staged else ", weights in order"
        stage = "" if self.stage == 4 else f", by {4 * self.stage} of K"
        return f"{self.tile} {size} in {self.local[0]}x{self.local[1]}{arithmetic}{order}{stage}{split_k}"


# --- what there is -------------------------------------------------------------------------------------------


def candidates(work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    """The strategies for a GEMM whose shader a device can run and need not avoid."""
    every = all_strategies(work, device)
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
    arithmetics: tuple[str, ...] = ("none",)
    if work.kind == "q8":
        arithmetics = ("dot", "float") if device.has_dots else ("float",)
    if work.kind == "q16":
        arithmetics = ("none", "float", "dot") if work.narrow and device.has_dots else ("none", "float")
    if work.float16:
        arithmetics = ("none", "half")
    if work.int8_weights:
        arithmetics = ("int8",)
    if work.depthwise:
        yield from _behind_depthwise(work, device, arithmetics)
        return
    if work.matrix and work.rows <= _VECTOR_ROWS and work.kind not in ("i32", "q16"):
        yield Strategy("vector", work.rows, _VECTOR_LOCAL, arithmetic="int8" if work.int8_weights else "none")
    for strategy in _by_cooperative_matrices(work, device):
        yield strategy
        if strategy.sums <= cooperative_matrix.MOST_SUMS:
            yield from _split_k(strategy, work, device)
    for arithmetic in arithmetics:
        packed, more = work.order is WeightLayout.IN_BLOCKS, _FEW_ROWS if work.rows <= LANES else ()
        whole = [one for one in _shared(device, arithmetic, packed, more) if one.is_busy(work)]
        if _sums_are_short(work, arithmetic):
            whole += _in_registers(work, device, arithmetic)
        for strategy in whole:
            if _fits(strategy, work, device):
                yield strategy
                yield from _split_k(strategy, work, device)
        if arithmetic in ("none", "dot", "int8") and uses_subgroups(device):
            for rows in (8, 16, 24, 28, 32) if work.rows >= LANES else (work.rows,):
                yield Strategy("subgroup", rows, (LANES, 1), arithmetic=arithmetic)


def _fits(strategy: Strategy, work: Work, device: DeviceProfile) -> bool:
    """Whether a strategy fits into an invocation's registers without spilling."""
    is_tight = device.has_small_subgroups or converts_bytes(strategy, work, device)
    if is_tight and strategy.held > _SMALL_HELD:
        return False
    most = _EIGHT_HELD if device.has_subgroups_of_eight else _FEW_HELD
    return not device.has_few_registers or registers(strategy, work) <= most


def registers(strategy: Strategy, work: Work) -> int:
    """The 32-bit registers of an invocation for sums, factors, what is staged, and to find the pixels of taps."""
    pixels = strategy.sums // strategy.vec4s // (4 if strategy.tile == "quads" else 1)
    inputs = pixels * (1 if strategy.arithmetic == "dot" else 4)
    return 4 * (strategy.sums + strategy.vec4s) + inputs + strategy.staged + (_FOUND if work.taps > 1 else 0)


def _behind_depthwise(work: Work, device: DeviceProfile, arithmetics: Iterable[str]) -> Iterator[Strategy]:
    if device.has_few_registers and (work.kind != "q8" or device.has_subgroups_of_eight):
        return
    for arithmetic in arithmetics:
        for shared in _shared(device, arithmetic, packed=True, more=_WIDE):
            strategy = replace(shared, tile=DEPTHWISE)
            is_large = work.kind == "f32" and device.largest_subgroup < _WIDE_SUBGROUP
            most = 1 if device.has_few_registers or is_large else _WINDOWS
            fits = strategy.windows <= most and strategy.is_busy(work)
            if fits and _sums_are_short(work, arithmetic):
                yield strategy
                yield from _split_k(strategy, work, device)


def _by_cooperative_matrices(work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    for tile in cooperative_matrix.tiles(work.kind, work.in_lines[0], device):
        yield Strategy(
            cooperative_matrix.TILE,
            tile.rows,
            (tile.invocations, 1),
            arithmetic=cooperative_matrix.ARITHMETICS[work.kind],
            matrices=tile,
        )


def prefers_matrices(work: Work, device: DeviceProfile) -> bool:
    """Whether a GEMM has to be computed by cooperative matrices, whatever it costs."""
    return device.prefers_matrices and any(strategy.matrices for strategy in candidates(work, device))


def uses_subgroups(device: DeviceProfile) -> bool:
    """Whether subgroups are vectors of eight of a CPU, as the tile `subgroup` is made for."""
    return "subgroupShuffle" in device.features and device.is_cpu and device.subgroup_size == LANES


def _shared(device: DeviceProfile, arithmetic: str, packed: bool, more: tuple[_Size, ...] = ()) -> Iterator[Strategy]:
    """``more``: sizes that are for dot products on GPUs alone."""
    by_dots = arithmetic == "dot" and not device.is_cpu
    sizes = _SHARED + (more if by_dots else ())
    for (local, vec4s, pixels), stage in itertools.product(sizes, _STAGES.get(arithmetic, (4,))):
        for each in pixels:
            strategy = Strategy("shared", each * local[1], local, vec4s, arithmetic, packed, stage=stage)
            if _can_stage(strategy, device):
                yield strategy


def _can_stage(strategy: Strategy, device: DeviceProfile) -> bool:
    """Whether a device has room for what the tile `shared` asks of invocations and compilers."""
    if strategy.arithmetic == "half" and strategy.stage * strategy.vec4s > 8:
        return False  # invocations would hold all registers that there are
    if device.is_cpu and strategy.sums * strategy.stage > _UNROLLED:
        return False
    return math.prod(strategy.local) <= device.max_invocations


def _in_registers(work: Work, device: DeviceProfile, arithmetic: str) -> Iterator[Strategy]:
    orders = [False] if work.in_order or work.columns <= _NARROW else []
    if arithmetic in ("dot", "int8"):
        orders = []  # dot products take four elements of K of one channel, which lie apart
    count = 16 if device.is_cpu else 64
    for packed in (True, *orders):
        if _can_swap(arithmetic, device) and work.vec4s > 1:
            for rows, vec4s in itertools.product((4, 8, 12, 16), (1, 2) if work.vec4s > 4 else (1,)):
                yield Strategy("quads", rows, (4, count // 4), vec4s, arithmetic, packed)
        across = min(8, 1 << (work.vec4s - 1).bit_length())
        for rows, vec4s in ((1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (4, 2), (8, 2)):
            if vec4s == 1 or across > 1:
                local = max(across // vec4s, 1)
                yield Strategy("register", rows, (local, count // local), vec4s, arithmetic, packed)


def _can_swap(arithmetic: str, device: DeviceProfile) -> bool:
    """Whether the tile `quads` is for a device and an arithmetic.

    It is not for packed arithmetic on GPUs. Mesa's compiler for AMD GPUs, up to version 22, merges a swap and a packed
    product into one instruction that the GPU does not have, so that the result is wrong.
    """
    if arithmetic == "half" or (arithmetic == "dot" and not device.is_cpu):
        return False
    return device.subgroup_size >= 4 and "subgroupQuad" in device.features


def _split_k(whole: Strategy, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    """With K split, where there are fewer tiles than a GPU can compute at once; a CPU's few cores have enough."""
    tiles = hint(whole.tiles(work))
    if whole.arithmetic == "half" and not work.float16_split_k:
        return
    if device.is_cpu or tiles * whole.local[0] * whole.local[1] > MOST_COUNTERS:
        return
    best = _filled(tiles, device)
    for split_k in range(2, _SPLITS_OF_K[-1] + 1):
        if work.vec4s_of_k < split_k * _SHORTEST_K_SLICE or tiles * split_k > device.units * costs_of(device).resident:
            return
        filled = _filled(tiles * split_k, device)
        if split_k in _SPLITS_OF_K or filled > best + 0.03:
            split = replace(whole, split_k=split_k)
            if split.is_busy(work):
                best = max(best, filled)
                yield split


def _filled(groups: int, device: DeviceProfile) -> float:
    """The share of a device's units that workgroups keep busy, averaged over all waves."""
    return groups / (-(-groups // device.units) * device.units)


def _sums_are_short(work: Work, arithmetic: str) -> bool:
    carried = not work.narrow if work.kind == "q16" else arithmetic == "float"
    return not carried or work.vec4s_of_k + work.vec4s_of_k // _CARRIED < _MAX_ROUNDS


def converts_bytes(strategy: Strategy, work: Work, device: DeviceProfile) -> bool:
    """Whether bytes are multiplied as floats on a device whose compiler takes several instructions to convert one."""
    takes_several = device.has_small_subgroups or (device.has_few_registers and not device.has_dots)
    return work.kind == "q8" and strategy.arithmetic == "float" and takes_several


def is_quick(strategy: Strategy, work: Work, device: DeviceProfile) -> bool:
    """Whether a driver compiles the shader of a strategy quickly.

    VideoCore's compiler takes up to a minute for bytes that are converted with few registers by another tile than
    `register`, even by a small one.
    """
    is_slow = strategy.tile != "register" and device.has_small_subgroups and converts_bytes(strategy, work, device)
    return strategy.is_quick and not is_slow


def by_elements(strategy: Strategy, work: Work, device: DeviceProfile) -> bool:
    """Whether the tile `register` takes weights of one element of K after the other, because registers are few.

    Floats are loaded so, and bytes converted to floats.
    """
    if strategy.tile != "register":
        return False
    if converts_bytes(strategy, work, device):
        return True
    return device.has_small_subgroups and work.kind in ("f32", "f16", "i32") and strategy.arithmetic == "none"


def takes_half_weights(strategy: Strategy, work: Work, device: DeviceProfile) -> bool:
    """Whether weights of bytes are kept as `half_weights`."""
    return work.can_fold and strategy.packed and work.kind == "q8" and by_elements(strategy, work, device)


def folds_zero_point(strategy: Strategy, work: Work, device: DeviceProfile) -> bool:
    """Whether the bias has what is due to the zero point of inputs of bytes, so that no weights are added up."""
    by_dots = work.kind == "q8" and strategy.arithmetic == "dot" and strategy.matrices is None
    return (by_dots and (work.can_fold or work.depthwise > 0)) or takes_half_weights(strategy, work, device)


def span(strategy: Strategy, work: Work, device: DeviceProfile) -> int:
    """Channels that a round of a tile takes at once, a divisor of all; 1 where these are no vec4s."""
    wide = 4
    if strategy.tile == "subgroup":
        wide = {"q8": 16, "f32": 8, "i32": 8, "f16": 8 if device.has_native_16 else 4}.get(work.kind, 4)
    elif strategy.matrices is not None:
        wide = cooperative_matrix.chunk(work.kind)
    elif not strategy.is_staged and work.kind == "q8" and device.texel_loads and 4 * work.vec4s_of_k >= 16 * _MANY:
        wide = 16
    elif takes_half_weights(strategy, work, device):
        wide = 8 if work.depth % 16 else 16
    elif strategy.tile == "register" and work.kind != "q8":
        wide = 8 if strategy.arithmetic == "half" else 4
        # VideoCore's compiler computes the addresses of all weights of a round first, and keeps those of 8 in memory.
        if device.has_small_integers and by_elements(strategy, work, device):
            wide = 8 if work.depth % 16 else 16
    return 1 if work.depth % 4 else 4 if work.depth % wide else wide
