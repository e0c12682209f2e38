"""A way to compute a GEMM: a tile with its sizes. Each tile of gemm.comp is a class in a module of its own (`tiles`).

A tile says which variants its shader has, which strategies there are (`Strategy.candidates`), how much work one is
(`Strategy.run`), and with which arguments it is dispatched (`Strategy.arguments`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from nnvk.base.extents import hint
from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.copies.arrange import dense
from nnvk.driver.vulkan.lowering.copies.side_by_side import Matrices, read
from nnvk.driver.vulkan.lowering.costs import Costs, Run, costs_of
from nnvk.driver.vulkan.lowering.divide import divisors_below
from nnvk.driver.vulkan.lowering.dtypes import SIZES
from nnvk.driver.vulkan.lowering.gemm import half_weights
from nnvk.driver.vulkan.lowering.gemm.problem import GemmProblem, Split, WeightLayout, Work
from nnvk.driver.vulkan.lowering.gemm.weights import (
    Weights,
    fit_four_bits,
    float16_scaling_of,
    in_order,
    packed,
    packed_quantised,
    zero_of,
)
from nnvk.driver.vulkan.lowering.lowering import MOST_COUNTERS, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import offset
from nnvk.driver.vulkan.lowering.strided_view import Constants, RowAccess, Rows, Views, pitch_of
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Requirements, Shader, Variant
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

DTYPES = "f32", "f16", "i32", "q8", "q16"
"""The axis DTYPE of gemm.comp."""
ARITHMETICS = "none", "float", "dot", "half", "int8"
"""The axis ARITHMETIC: how numbers smaller than 32 bits are multiplied."""
_NAMES = {"none": "", "half": ", in 16 bits", "int8": ", weights of 8 bits"}
"""How strategies name the axis ARITHMETIC, where they don't say by what bytes are multiplied."""
_SMALL_HELD = 40
"""The most `Strategy.held` on GPUs with small subgroups: with more, the compilers of Mali and VideoCore spill. So does
Intel's where bytes are converted."""
_FEW_HELD, _EIGHT_HELD = 96, 60
"""The most `registers` on GPUs with few, and on those with subgroups of eight. With more, Adreno's compiler spills 32
times, and Intel's 2 to 143 times."""
_MAX_ROUNDS = 65_500
"""The most rounds of an invocation's loops together: llvmpipe ends them after 65,535."""
_CARRIED = 64
"""Vec4s of K after which sums are carried to larger integers, in a loop of its own."""
_FOUND = 4
"""Registers to find the pixels of several taps."""
_SPLITS_OF_K = 2, 4, 8, 16
"""Into which K may be split; into others up to the most where these fill a device's units better."""
_SHORTEST_K_SLICE = 8
"""Vec4s of K that are worth a workgroup of their own."""
_MANY = 6
"""Rounds of a whole texel of bytes that are worth their longer code, which a CPU has to fetch as well."""
_MANY_WEIGHTS = 1 << 20
"""The number of weights from which they do not stay in a cache."""
_QUICK_REGISTERS = 36
"""The registers of a tile of 4 by 4. SwiftShader takes 0.3 s to compile its shader, and up to 2.7 s for larger ones."""


@dataclass(frozen=True, slots=True)
class Vectors:
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
    def of(work: Work, arithmetic: str, costs: Costs, channels: int) -> Vectors:
        """The vectors of a product by an arithmetic, in rounds of so many channels."""
        return Vectors(
            weights=1 if work.kind in ("q8", "q16") or work.int8_weights else 4,
            pixel={"q8": 0.25, "q16": 0.5}.get(work.kind, 1.0),
            load=costs.load * (costs.odd if channels == 1 else 4 / channels if work.kind == "q8" else 1),
            products=costs.products.get(arithmetic, costs.products["i32"]),
            convert=costs.convert.get("float" if work.int8_weights else arithmetic, 0.0),
            stored=costs.stored.get(work.kind, costs.stored["any"]),
            ending=costs.ending.get(work.kind, costs.ending["any"]),
        )


@dataclass(frozen=True, slots=True)
class Strategy(ABC):
    """One way to compute a GEMM."""

    shader: ClassVar[Shader]
    """gemm.comp, as `tiles` declares it with all of its tiles."""
    tile: ClassVar[str]
    """The axis TILE of gemm.comp, or `vector`: fully_connected.comp."""
    dtypes: ClassVar[tuple[str, ...]] = DTYPES
    """The data types of its variants."""
    arithmetics: ClassVar[tuple[str, ...]] = ARITHMETICS
    """How its variants multiply, as far as that is possible with a data type."""
    splits_k: ClassVar[bool] = True
    """Whether it has variants whose workgroups share K."""
    needs: ClassVar[Requirements | None] = None
    """Requirements of its variants on the compiler of shaders."""
    follows_depthwise: ClassVar[bool] = False
    """Whether it computes a depthwise convolution and the 1 x 1 convolution behind it (`separable.py`)."""
    takes_floats: ClassVar[bool] = True
    """Whether the shader can convert an input of 32-bit floats, and store check words."""
    spills_sums: ClassVar[bool] = False
    """Whether VideoCore's compiler keeps more than two vectors of sums in memory in first layers."""
    spills_bytes: ClassVar[bool] = True
    """Whether compilers for few registers spill bytes that are converted to floats. VideoCore's takes a minute."""
    order: ClassVar[str] = "in order"
    """How weights lie that are not packed."""
    share: ClassVar[int] = 1
    """Invocations that share loads of pixels."""

    has_one_sum: ClassVar[bool] = True
    """Whether one invocation adds up all products of a result, along K."""

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

    def variant(self, kind: str, epilogue: str = "plain", *, checked: bool = False) -> Variant:
        """The shader variant for a data type and a kind of epilogue, as the axes DTYPE and EPILOGUE have them.

        ``checked``: the one that stores check words (`checksum.py`), which the tile `vector` can't.
        """
        sums = ("whole" if self.split_k == 1 else "split") + ("_checked" if checked else "")
        return self.shader.variant(DTYPE=kind, TILE=self.tile, ARITHMETIC=self.arithmetic, SUMS=sums, EPILOGUE=epilogue)

    @property
    def adds_in_order(self) -> bool:
        """Whether products of floats are added to the bias one by one, along K, and rounded each time."""
        return self.has_one_sum and self.split_k == 1 and self.arithmetic == "none"

    # --- which there are -------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def candidates(cls, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
        """The strategies of the tile for a GEMM on a device, including those whose shader the device avoids."""

    @classmethod
    def ways_to_multiply(cls, work: Work, device: DeviceProfile) -> Iterator[str]:
        """The values of the axis ARITHMETIC by which the tile can compute a GEMM."""
        ways: tuple[str, ...] = ("none",)
        if work.kind == "q8":
            ways = ("dot", "float") if device.has_dots else ("float",)
        if work.kind == "q16":
            ways = ("none", "float", "dot") if work.narrow and device.has_dots else ("none", "float")
        if work.float16:
            ways = ("none", "half")
        if work.int8_weights:
            ways = ("int8",)
        return (each for each in ways if work.kind in cls.dtypes and each in cls.arithmetics)

    def whole_and_split(self, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
        """Itself, and with K split, unless an invocation does not have the registers."""
        if self.fits(work, device):
            yield self
            yield from self.split(work, device)

    # --- sizes -----------------------------------------------------------------------------------------------

    @property
    def sums(self) -> int:
        """Vectors of sums of an invocation, of the tiles that can share K."""
        return self.rows * self.vec4s

    @property
    def held(self) -> int:
        """32-bit registers of an invocation for sums, and for the inputs and weights of one element of K."""
        return 4 * (self.sums + self.sums // self.vec4s + self.vec4s)

    @property
    def is_quick(self) -> bool:
        """Whether drivers compile its shader quickly: an invocation has few sums, whose code is unrolled."""
        return self.held <= _QUICK_REGISTERS

    @property
    def size(self) -> tuple[int, int]:
        """Pixels and output channels of a workgroup."""
        return self.rows * self.local[1], 4 * self.vec4s * self.local[0]

    def tiles(self, work: Work) -> int:
        """Into which a GEMM is cut."""
        return work.parts * math.prod(self.tiles_of_part(work))

    def tiles_of_part(self, work: Work) -> tuple[int, int]:
        """Into which a part is cut, along its rows and its columns."""
        down, across = self.size
        return -(-work.rows // down), -(-work.columns // across)

    def vec4s_of_k_slice(self, work: Work) -> int:
        """The vec4s of K of each K slice but the last, which may have fewer."""
        return -(-work.vec4s_of_k // self.split_k)

    def is_busy(self, work: Work) -> bool:
        """Whether every K slice has something to do, which shared.glsl relies on."""
        return self.vec4s_of_k_slice(work) * (self.split_k - 1) < work.vec4s_of_k

    def registers(self, work: Work) -> int:
        """The 32-bit registers of an invocation for sums, factors, what is staged, and to find the pixels of taps."""
        inputs = self.sums // self.vec4s // self.share * (1 if self.arithmetic == "dot" else 4)
        return 4 * (self.sums + self.vec4s) + inputs + (_FOUND if work.taps > 1 else 0)

    def fits(self, work: Work, device: DeviceProfile) -> bool:
        """Whether it fits into an invocation's registers without spilling."""
        is_tight = device.has_small_subgroups or self.converts_bytes(work, device)
        if is_tight and self.held > _SMALL_HELD:
            return False
        most = _EIGHT_HELD if device.has_subgroups_of_eight else _FEW_HELD
        return not device.has_few_registers or self.registers(work) <= most

    def split(self, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
        """With K split, where there are fewer tiles than a GPU can compute at once; a CPU's few cores have enough."""
        tiles = hint(self.tiles(work))
        if self.arithmetic == "half" and not work.float16_split_k:
            return
        if device.is_cpu or tiles * self.local[0] * self.local[1] > MOST_COUNTERS:
            return
        best = _filled(tiles, device)
        for split_k in range(2, _SPLITS_OF_K[-1] + 1):
            is_short = work.vec4s_of_k < split_k * _SHORTEST_K_SLICE
            if is_short or tiles * split_k > device.units * costs_of(device).resident:
                return
            filled = _filled(tiles * split_k, device)
            if split_k in _SPLITS_OF_K or filled > best + 0.03:
                split = replace(self, split_k=split_k)
                if split.is_busy(work):
                    best = max(best, filled)
                    yield split

    def __str__(self) -> str:
        arithmetic = _NAMES.get(self.arithmetic, f", bytes by {self.arithmetic}")
        order = "" if self.packed else f", weights {self.order}"
        stage = "" if self.stage == 4 else f", by {4 * self.stage} of K"
        local = f"{self.local[0]}x{self.local[1]}"
        return f"{self.tile} {self._sizes} in {local}{arithmetic}{order}{stage}{self._slices}"

    @property
    def _sizes(self) -> str:
        return str(self.rows)

    @property
    def _slices(self) -> str:
        return "" if self.split_k == 1 else f", split-K by {self.split_k}"

    # --- how numbers are multiplied --------------------------------------------------------------------------

    def converts_bytes(self, work: Work, device: DeviceProfile) -> bool:
        """Whether bytes are multiplied as floats on a device whose compiler takes several instructions for one."""
        takes_several = device.has_small_subgroups or (device.has_few_registers and not device.has_dots)
        return work.kind == "q8" and self.arithmetic == "float" and takes_several

    def compiles_quickly(self, work: Work, device: DeviceProfile) -> bool:
        """Whether a driver compiles its shader quickly for a GEMM."""
        is_slow = self.spills_bytes and device.has_small_subgroups and self.converts_bytes(work, device)
        return self.is_quick and not is_slow

    def by_elements(self, work: Work, device: DeviceProfile) -> bool:
        """Whether it takes weights of one element of K after the other, because registers are few."""
        return False

    def takes_half_weights(self, work: Work, device: DeviceProfile) -> bool:
        """Whether weights of bytes are kept as `half_weights`."""
        return work.can_fold and self.packed and work.kind == "q8" and self.by_elements(work, device)

    def folds_zero_point(self, work: Work, device: DeviceProfile) -> bool:
        """Whether the bias has what is due to the zero point of inputs of bytes, so that no weights are added up."""
        by_dots = work.kind == "q8" and self.arithmetic == "dot"
        return (by_dots and (work.can_fold or work.depthwise > 0)) or self.takes_half_weights(work, device)

    def span(self, work: Work, device: DeviceProfile) -> int:
        """Channels that a round takes at once, a divisor of all; 1 where these are no vec4s."""
        wide = self.widest(work, device)
        return 1 if work.depth % 4 else 4 if work.depth % wide else wide

    def widest(self, work: Work, device: DeviceProfile) -> int:
        """Channels that a round takes at once if there are enough."""
        return 4

    # --- costs -----------------------------------------------------------------------------------------------

    @abstractmethod
    def run(self, work: Work, costs: Costs, vectors: Vectors, arithmetic: str, lanes: int) -> Run:
        """The work of a device whose subgroups have so many ``lanes``. ``arithmetic`` is the name of its costs."""

    # --- the dispatch ----------------------------------------------------------------------------------------

    def arguments(self, g: Lowering, problem: GemmProblem) -> tuple[tuple[int, int, int], Arguments]:
        """The workgroups, and the arguments that say nothing of the weights' layout."""
        operands, gemm, work = problem.operands, problem.gemm, problem.work
        groups, order = self._grid(g, problem)
        _, height, width = gemm.pixels
        magics, as_floats = divisors_below(g.device, gemm.rows, height=height, width=width)
        spec: dict[str, int | bool] = {
            "ROWS": self.rows,
            "SPAN": self.span(work, g.device),
            "VECTOR_STORES": gemm.columns % 4 == 0,
            "SPLIT": int(gemm.split),
            "PADDED": gemm.is_padded,
            "ONE_TAP": gemm.has_one_tap,
            "SIDE_BY_SIDE": gemm.is_side_by_side,
            **gemm.steps,
            "FEW": min(gemm.depth, 4),
            **({"SPLIT_K": self.split_k} if self.split_k > 1 else {}),
            **self.constants(problem, g.device),
            **order,
            **as_floats,
        }
        push: dict[str, int] = gemm.push(self.line_taps(work)) | magics
        access = RowAccess()
        if work.kind == "q8":
            spec |= {"SIGNED": bool(offset(operands.input)), "WEIGHTS_SIGNED": bool(offset(operands.weights.tensor))}
            if self.arithmetic == "dot" and self.folds_zero_point(work, g.device):
                spec["SETTLED"] = True
        elif self._has_weights_pitch(work):
            access = RowAccess(pitches=(lambda views: ({}, {"weights_pitch": pitch_of(views, "weights", 0)}),))
        return groups, Arguments(spec, push=push, access=access)

    def access_to_input(
        self, problem: GemmProblem, device: DeviceProfile, itemsize: int, interleaved: int = 1
    ) -> RowAccess:
        """The access to pixels whose elements have so many bytes, or to rows of ``interleaved`` matrices."""
        gemm, work = problem.gemm, problem.work
        rows, channels = math.prod(gemm.source[:3]) // interleaved, interleaved * gemm.source[3]

        def pitches(views: Views) -> Constants:
            pitch = pitch_of(views, "src", channels)
            push = {"channels": pitch}
            if work.kind == "q8":
                push["last_word"] = max(0, (rows - 1) * pitch + channels - 1) // 4
            return {}, push

        taken = {} if self.line_taps(work) > 1 else {"src": Rows(itemsize, channels, self.span(work, device))}
        return RowAccess(taken, (pitches,))

    def _has_weights_pitch(self, work: Work) -> bool:
        """Whether its shader has a push constant for the pitch of weights."""
        return work.kind not in ("q8", "q16") and self.arithmetic != "int8"

    def _weights_by_pitch(self, problem: GemmProblem, tensor: TensorRef, width: int) -> Arguments:
        """Weights whose rows have so many elements."""
        may_be_views = self._has_weights_pitch(problem.work) and problem.gemm.split is not Split.CHANNELS
        rows = {"weights": Rows(SIZES[problem.work.kind], width)} if may_be_views else {}
        return Arguments(tensors={"weights": tensor}, access=RowAccess(rows))

    def constants(self, problem: GemmProblem, device: DeviceProfile) -> dict[str, int | bool]:
        """The specialisation constants of the tile alone."""
        local_x, local_y = self.local
        return {"local_x": local_x, "local_y": local_y}

    def line_taps(self, work: Work) -> int:
        """The taps of a line that are taken as one."""
        return 1

    def _grid(self, g: Lowering, problem: GemmProblem) -> tuple[tuple[int, int, int], dict[str, int | bool]]:
        """The workgroups, and the specialisation constants that say how they are ordered.

        Workgroups go through all blocks of output channels for each tile of pixels, so that lines of the output are
        written together and weights are reused from a cache. If the weights are many, and more than the input, the
        order is reversed.
        """
        gemm, work = problem.gemm, problem.work
        pixels, blocks = self.tiles_of_part(work)
        pixels_inside = hint(gemm.taps * work.depth * work.columns) > max(hint(work.rows * work.depth), _MANY_WEIGHTS)
        inside, outside = (pixels, blocks) if pixels_inside else (blocks, pixels)
        grid = inside * self.split_k, outside, work.parts
        folded = any(count > g.device.max_groups for count in grid)
        order = {"PIXELS_INSIDE": pixels_inside, "FOLDED": folded}
        return g.flat(math.prod(grid), 1) if folded else grid, {name: True for name, is_so in order.items() if is_so}

    def memory_of_sums(self, g: Lowering, problem: GemmProblem) -> Arguments:
        """The memory that workgroups leave their sums and count in if they share a tile's K."""
        if self.split_k == 1:
            return Arguments()
        tiles, invocations = self.tiles(problem.work), math.prod(self.local)
        nbytes = 8 if self.arithmetic == "half" else 32 if problem.operands.is_wide else 16
        sums = g.scratch(nbytes * tiles * self.split_k * self.sums * invocations)
        return Arguments(tensors={"sums": sums, "counters": g.counters(tiles * invocations)})

    # --- weights ---------------------------------------------------------------------------------------------

    def weights(self, g: Lowering, problem: GemmProblem) -> Arguments:
        """The weights as the tile reads them."""
        filters, gemm, work, rounded = problem.operands.weights, problem.gemm, problem.work, Arguments()
        if self.takes_half_weights(work, g.device):
            return self._half_weights(g, problem)
        if self.arithmetic == "int8":
            quantised = filters.quantised
            assert quantised is not None
            four_bits = fit_four_bits(g, filters, quantised)
            weights = packed_quantised(g, filters, quantised, four_bits=four_bits)
            return Arguments({"FOUR_BITS": four_bits}, {"weights": weights}, {"weight_zero": zero_of(quantised)})
        scale = 1.0
        if self.arithmetic == "half":
            scaling = float16_scaling_of(g, filters, split_k=self.split_k > 1)
            scale = scaling.scale
            rounded = Arguments({"ROUND": scaling.round}, push={"weight_scale": 1.0 / scaling.scale})
            if self.split_k > 1:
                rounded |= Arguments(push={"left_scale": scaling.scale_of_sum(self.vec4s_of_k_slice(work))})
        if self.packed:
            four_bits = fit_four_bits(g, filters, None)
            weights = packed(g, filters, scale, four_bits=four_bits)
            return rounded | Arguments({"FOUR_BITS": True} if four_bits else {}, {"weights": weights})
        if self.takes_weights_as_they_lie(work, scale):
            return rounded | self._weights_as_they_lie(g, problem)
        weights = in_order(g, filters, gemm.parts_outside, scale)
        return rounded | self._weights_by_pitch(problem, weights, gemm.columns)

    def _half_weights(self, g: Lowering, problem: GemmProblem) -> Arguments:
        operands, work = problem.operands, problem.work
        filters, form = operands.weights, half_weights.form_of(g.device, work.rows, work.packed_weights)
        is_float = self.split_k == 1 and half_weights.has_float_totals(g, operands.input, filters, operands.bias)
        sums = {"SHORT_SUMS": half_weights.has_short_sums(g, filters), "FLOAT_TOTALS": is_float}
        return Arguments({**half_weights.constants(form), **sums}, {"weights": half_weights.packed(g, filters, form)})

    def takes_weights_as_they_lie(self, work: Work, scale: float = 1.0) -> bool:
        """Whether weights that are not packed, times a scale, need no preparation."""
        return work.in_order and scale == 1.0

    def layouts(self, problem: GemmProblem) -> dict[WeightLayout, Matrices]:
        """The layouts from which it can read right matrices without packing; that of its constants first."""
        filters = problem.operands.weights
        return {WeightLayout.BY_K: Matrices(filters.parts, filters.channels, filters.outputs)}

    def _weights_as_they_lie(self, g: Lowering, problem: GemmProblem) -> Arguments:
        """Right matrices without packing."""
        filters, layouts = problem.operands.weights, self.layouts(problem)
        first = next(iter(layouts))
        if filters.tensor.view is None or problem.gemm.split is not Split.BATCHES:
            return self._weights_by_pitch(problem, dense(g, filters.tensor), layouts[first].columns)
        weights, interleaved, found = read(g, filters.tensor, *layouts.values())
        taken = next(each for each, matrices in layouts.items() if matrices is found)
        spec = {"WEIGHT_PARTS": interleaved} if interleaved > 1 else {}
        by_pitch = self._weights_by_pitch(problem, weights, interleaved * found.columns)
        return by_pitch | Arguments(spec if taken is first else {**spec, "WEIGHT_LAYOUT": int(taken)})


def takes_texels(work: Work, device: DeviceProfile) -> bool:
    """Whether rounds of a whole texel of bytes are worth their longer code."""
    return work.kind == "q8" and device.texel_loads and 4 * work.vec4s_of_k >= 16 * _MANY


def sums_are_short(work: Work, arithmetic: str) -> bool:
    """Whether an invocation's loops have few enough rounds, where each sum of a tile is one of a single loop."""
    carried = not work.narrow if work.kind == "q16" else arithmetic == "float"
    return not carried or work.vec4s_of_k + work.vec4s_of_k // _CARRIED < _MAX_ROUNDS


def _filled(groups: int, device: DeviceProfile) -> float:
    """The share of a device's units that workgroups keep busy, averaged over all waves."""
    return groups / (-(-groups // device.units) * device.units)


def layouts_of_weights(weights: Weights, layout: WeightLayout) -> dict[WeightLayout, Matrices]:
    """The layouts from which the tile `shared` can read right matrices that lie BY_K or BY_OUTPUTS; that one first."""
    parts, outputs, depth = weights.parts, weights.outputs, weights.channels
    by_k = Matrices(parts, depth, outputs, is_transposed=layout is WeightLayout.BY_OUTPUTS)
    by_outputs = Matrices(parts, outputs, depth, is_transposed=layout is WeightLayout.BY_K)
    if layout is WeightLayout.BY_K:
        return {WeightLayout.BY_K: by_k, WeightLayout.BY_OUTPUTS: by_outputs}
    return {WeightLayout.BY_OUTPUTS: by_outputs, WeightLayout.BY_K: by_k}
