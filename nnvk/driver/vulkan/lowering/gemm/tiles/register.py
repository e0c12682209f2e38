"""The tiles `register` and `quads`: sums in registers, without shared memory. Invocations of a quad exchange loads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nnvk.driver.vulkan.lowering.costs import NEAR, Costs, Run
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, GemmProblem, Split, Work
from nnvk.driver.vulkan.lowering.gemm.tiles.strategy import Strategy, Vectors, takes_texels
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

_MOST_LINE_TAPS = 8
"""The most taps of a line of a window that are unrolled. Sums of bytes of 8 x 8 taps of 4 channels are exact."""
_NARROW = 16
"""Output channels of a part up to which weights in order are thought of, where they have to be put so."""


@dataclass(frozen=True, slots=True)
class Quads(Strategy):
    """Each invocation of a quad loads a quarter of the pixels, and takes the others' by swaps."""

    tile: ClassVar[str] = "quads"
    share: ClassVar[int] = 4

    @property
    def _sizes(self) -> str:
        return f"{self.rows}x{4 * self.vec4s}"

    def widest(self, work: Work, device: DeviceProfile) -> int:
        """See `Strategy`."""
        return 16 if takes_texels(work, device) else 4

    def run(self, work: Work, costs: Costs, vectors: Vectors, arithmetic: str, lanes: int) -> Run:
        """See `Strategy`."""
        local_x, local_y = self.local
        share = self.share
        across = -(-work.vec4s // (local_x * self.vec4s))
        # Lines of invocations that have rows: those of a workgroup take turns, by as many rows as they share.
        whole, left = divmod(work.rows, self.rows * local_y)
        lines = whole * local_y + min(local_y, -(-left // share))
        pixels, weights = self.rows // share, self.vec4s * (vectors.weights if self.packed else 4)
        sums = self.sums
        words = {"dot": 1, "wide dot": 2}.get(arithmetic, 4)
        step = weights * costs.load + pixels * vectors.load
        step += sums * vectors.products * (1 if sums <= costs.sums else 2)
        step += self.rows * (share - 1) / share * words * costs.swap
        step += (self.vec4s + pixels) * vectors.convert
        return Run(
            self.tiles(work),
            work.parts * across * -(-lines // max(1, lanes // local_x)) * -(-local_x // lanes),
            rounds=work.vec4s_of_k,
            step=step,
            end=sums * vectors.stored + self.vec4s * vectors.ending,
            wait=costs.latency,
            moved=(work.vec4s_of_k * (pixels + weights) + sums) / NEAR,
        )

    def constants(self, problem: GemmProblem, device: DeviceProfile) -> dict[str, int | bool]:
        """See `Strategy`."""
        local_x, local_y = self.local
        return {"local_x": local_x * local_y, "ACROSS": local_x, "VEC4S": self.vec4s, "PACKED": self.packed}


@dataclass(frozen=True, slots=True)
class Register(Quads):
    """Each invocation loads for itself. With few registers it takes weights element by element."""

    tile: ClassVar[str] = "register"
    share: ClassVar[int] = 1
    spills_sums: ClassVar[bool] = True
    spills_bytes: ClassVar[bool] = False

    def by_elements(self, work: Work, device: DeviceProfile) -> bool:
        """See `Strategy`. Floats are loaded so, and bytes converted to floats."""
        if self.converts_bytes(work, device):
            return True
        return device.has_small_subgroups and work.kind in ("f32", "f16", "i32") and self.arithmetic == "none"

    def widest(self, work: Work, device: DeviceProfile) -> int:
        """See `Strategy`."""
        wide = Quads.widest(self, work, device)
        if wide == 4 and self.takes_half_weights(work, device):
            wide = 8 if work.depth % 16 else 16
        elif work.kind != "q8":
            wide = 8 if self.arithmetic == "half" else 4
            # VideoCore's compiler computes the addresses of all weights of a round first, and spills those of 8.
            if device.has_small_integers and self.by_elements(work, device):
                wide = 8 if work.depth % 16 else 16
        return wide

    def constants(self, problem: GemmProblem, device: DeviceProfile) -> dict[str, int | bool]:
        """See `Strategy`."""
        gemm, spec = problem.gemm, Quads.constants(self, problem, device)
        spec["WHOLE_COLUMNS"] = gemm.columns % (4 * self.vec4s) == 0
        if self.by_elements(problem.work, device):
            spec |= {"BY_ELEMENTS": True, "LINE_TAPS": _line_taps(self, gemm)}
        return spec


def _line_taps(strategy: Register, gemm: Gemm) -> int:
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


def candidates(work: Work, device: DeviceProfile, arithmetic: str) -> Iterator[Strategy]:
    """The strategies of both tiles for a GEMM with an arithmetic."""
    orders = [False] if work.in_order or work.columns <= _NARROW else []
    if arithmetic in ("dot", "int8"):
        orders = []  # dot products take four elements of K of one channel, which lie apart
    count = 16 if device.is_cpu else 64
    for packed in (True, *orders):
        if _can_swap(arithmetic, device) and work.vec4s > 1:
            for rows, vec4s in itertools.product((4, 8, 12, 16), (1, 2) if work.vec4s > 4 else (1,)):
                yield Quads(rows, (4, count // 4), vec4s, arithmetic, packed)
        across = min(8, 1 << (work.vec4s - 1).bit_length())
        for rows, vec4s in ((1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (4, 2), (8, 2)):
            if vec4s == 1 or across > 1:
                local = max(across // vec4s, 1)
                yield Register(rows, (local, count // local), vec4s, arithmetic, packed)


def _can_swap(arithmetic: str, device: DeviceProfile) -> bool:
    """Whether the tile `quads` is for a device and an arithmetic.

    It is not for packed arithmetic on GPUs. Mesa's compiler for AMD GPUs, up to version 22, merges a swap and a packed
    product into one instruction that the GPU does not have, so that the result is wrong.
    """
    if arithmetic == "half" or (arithmetic == "dot" and not device.is_cpu):
        return False
    return device.subgroup_size >= 4 and "subgroupQuad" in device.features
