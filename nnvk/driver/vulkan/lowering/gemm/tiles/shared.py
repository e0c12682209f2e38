"""The tile `shared`: both operands are staged in shared memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nnvk.driver.vulkan.lowering.copies.side_by_side import Matrices
from nnvk.driver.vulkan.lowering.costs import NEAR, Costs, Run
from nnvk.driver.vulkan.lowering.gemm.problem import GemmProblem, WeightLayout, Work
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy, Vectors, layouts_of_weights
from nnvk.driver.vulkan.lowering.gemm.tiles.subgroup import LANES
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

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
_UNROLLED = 32
"""Vectors of sums by vec4s of K of a stage, of the tile `shared` on CPUs: drivers take gigabytes to compile more."""
_BETWEEN = {"f32": 2, "f16": 4, "q8": 12}
"""Vector instructions that make depthwise sums results: an activation, and multipliers of bytes."""


@dataclass(frozen=True, slots=True)
class Shared(Strategy):
    """Workgroups stage the operands of some vec4s of K at once."""

    tile: ClassVar[str] = "shared"
    spills_sums: ClassVar[bool] = True
    order: ClassVar[str] = "as they lie"

    @classmethod
    def candidates(cls, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
        """See `Strategy`."""
        more = _FEW_ROWS if work.rows <= LANES else ()
        packed = work.order is WeightLayout.IN_BLOCKS
        for arithmetic in cls.ways_to_multiply(work, device):
            for strategy in of_sizes(cls, device, arithmetic, packed=packed, more=more):
                if strategy.is_busy(work):
                    yield from strategy.whole_and_split(work, device)

    @property
    def windows(self) -> int:
        """Vec4s of the left operand that an invocation stages at once."""
        return -(-self.rows * self.stage // math.prod(self.local))

    @property
    def sums(self) -> int:
        """See `Strategy`."""
        return self.rows // self.local[1] * self.vec4s

    def registers(self, work: Work) -> int:
        """See `Strategy`. Staging takes registers, too."""
        staged = self.windows + -(-self.size[1] * self.stage // math.prod(self.local))
        return Strategy.registers(self, work) + 4 * staged

    @property
    def together(self) -> int:
        """Vec4s of K whose factors are in registers at once, where they are short or few."""
        if self.arithmetic in ("half", "dot") or self.sums <= 2:
            return 4
        return 2 if self.sums <= 4 else 1

    @property
    def size(self) -> tuple[int, int]:
        """See `Strategy`."""
        return self.rows, 4 * self.vec4s * self.local[0]

    def vec4s_of_k_slice(self, work: Work) -> int:
        """See `Strategy`. A slice has whole stages."""
        stages = -(-work.vec4s_of_k // self.stage)
        return -(-stages // self.split_k) * self.stage

    @property
    def _sizes(self) -> str:
        return f"{self.rows}x{self.size[1]}"

    def can_stage(self, device: DeviceProfile) -> bool:
        """Whether a device has room for what the tile asks of invocations and compilers."""
        if self.arithmetic == "half" and self.stage * self.vec4s > 8:
            return False  # invocations would hold all registers that there are
        if device.is_cpu and self.sums * self.stage > _UNROLLED:
            return False
        return math.prod(self.local) <= device.max_invocations

    def run(self, work: Work, costs: Costs, vectors: Vectors, arithmetic: str, lanes: int) -> Run:
        """See `Strategy`."""
        own, stage, vec4s = self.sums, self.stage, self.vec4s
        invocations = math.prod(self.local)
        groups = self.tiles(work)
        rounds = -(-work.vec4s_of_k // stage)
        down, across = self.size
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
        held = own + brought + self.together * factors
        if self.arithmetic == "half":
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

    def constants(self, problem: GemmProblem, device: DeviceProfile) -> dict[str, int | bool]:
        """See `Strategy`."""
        spec, whole = Strategy.constants(self, problem, device), problem.gemm.depth % (4 * self.stage) == 0
        spec |= {"VEC4S": self.vec4s, "STAGE": self.stage, "WHOLE_STAGES": whole, "TOGETHER": self.together}
        if not self.packed:
            spec["WEIGHT_LAYOUT"] = int(problem.work.order)
        return spec

    def takes_weights_as_they_lie(self, work: Work, scale: float = 1.0) -> bool:
        """See `Strategy`."""
        return True

    def layouts(self, problem: GemmProblem) -> dict[WeightLayout, Matrices]:
        """See `Strategy`."""
        every = layouts_of_weights(problem.operands.weights, problem.work.order).items()
        return {each: found for each, found in every if not found.is_transposed or found.columns % 4 == 0}


def of_sizes(
    tile: type[Shared], device: DeviceProfile, arithmetic: str, *, packed: bool, more: tuple[_Size, ...]
) -> Iterator[Shared]:
    """``more``: sizes that are for dot products on GPUs alone."""
    by_dots = arithmetic == "dot" and not device.is_cpu
    sizes = _SHARED + (more if by_dots else ())
    for (local, vec4s, pixels), stage in itertools.product(sizes, _STAGES.get(arithmetic, (4,))):
        for each in pixels:
            strategy = tile(each * local[1], local, vec4s, arithmetic, packed, stage=stage)
            if strategy.can_stage(device):
                yield strategy
