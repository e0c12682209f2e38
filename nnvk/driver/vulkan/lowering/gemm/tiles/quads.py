"""The tile `quads`: sums in registers, without shared memory. The invocations of a quad exchange loads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nnvk.driver.vulkan.lowering.costs import NEAR, Costs, Run
from nnvk.driver.vulkan.lowering.gemm.problem import GemmProblem, Work
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy, Vectors, sums_are_short, takes_texels
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

_NARROW = 16
"""Output channels of a part up to which weights in order are thought of, where they have to be put so."""


@dataclass(frozen=True, slots=True)
class Quads(Strategy):
    """Each invocation of a quad loads a quarter of the pixels, and takes the others' by swaps."""

    tile: ClassVar[str] = "quads"
    arithmetics: ClassVar[tuple[str, ...]] = ("none", "float", "dot", "int8")
    share: ClassVar[int] = 4

    @classmethod
    def candidates(cls, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
        """See `Strategy`."""
        size = 4, invocations(device) // 4
        for arithmetic in cls.ways_to_multiply(work, device):
            if work.vec4s == 1 or not (_can_swap(arithmetic, device) and sums_are_short(work, arithmetic)):
                continue
            for packed in orders(work, arithmetic):
                for rows, vec4s in itertools.product((4, 8, 12, 16), (1, 2) if work.vec4s > 4 else (1,)):
                    yield from cls(rows, size, vec4s, arithmetic, packed).whole_and_split(work, device)

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


def orders(work: Work, arithmetic: str) -> tuple[bool, ...]:
    """Whether weights are packed: always, or also in order."""
    # Dot products take four elements of K of one channel, which lie apart.
    may_be_in_order = arithmetic not in ("dot", "int8") and (work.in_order or work.columns <= _NARROW)
    return (True, False) if may_be_in_order else (True,)


def invocations(device: DeviceProfile) -> int:
    """Those of a workgroup."""
    return 16 if device.is_cpu else 64


def _can_swap(arithmetic: str, device: DeviceProfile) -> bool:
    """Whether the tile `quads` is for a device and an arithmetic.

    It is not for packed arithmetic on GPUs. Mesa's compiler for AMD GPUs, up to version 22, merges a swap and a packed
    product into one instruction that the GPU does not have, so that the result is wrong.
    """
    if arithmetic == "dot" and not device.is_cpu:
        return False
    return device.subgroup_size >= 4 and "subgroupQuad" in device.features
