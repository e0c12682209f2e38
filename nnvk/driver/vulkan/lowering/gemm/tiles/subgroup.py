"""The tile `subgroup`: subgroups of eight of a CPU, whose invocations exchange inputs by shuffles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nnvk.base.extents import is_extent
from nnvk.driver.vulkan.lowering.costs import Costs, Run
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy, Vectors
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

LANES = 8
"""Invocations of a subgroup that the tile is made for."""


@dataclass(frozen=True, slots=True)
class Subgroup(Strategy):
    """A block of output channels of some pixels."""

    tile: ClassVar[str] = "subgroup"
    arithmetics: ClassVar[tuple[str, ...]] = ("none", "dot", "int8")
    splits_k: ClassVar[bool] = False

    @classmethod
    def candidates(cls, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
        """See `Strategy`."""
        if uses_subgroups(device):
            for arithmetic in cls.ways_to_multiply(work, device):
                for rows in (8, 16, 24, 28, 32) if work.rows >= LANES else (_few(work.rows),):
                    yield cls(rows, (LANES, 1), arithmetic=arithmetic)

    @property
    def size(self) -> tuple[int, int]:
        """See `Strategy`."""
        return self.rows, BLOCK

    def widest(self, work: Work, device: DeviceProfile) -> int:
        """See `Strategy`."""
        return {"q8": 16, "f32": 8, "i32": 8, "f16": 8 if device.has_native_16 else 4}.get(work.kind, 4)

    def run(self, work: Work, costs: Costs, vectors: Vectors, arithmetic: str, lanes: int) -> Run:
        """See `Strategy`."""
        groups = self.tiles(work)
        products = costs.products_by_subgroups.get(arithmetic, vectors.products) * (1 if self.rows <= costs.sums else 2)
        read = vectors.weights * costs.load + -(-self.rows // LANES) * vectors.load
        return Run(
            groups,
            groups,
            rounds=work.vec4s_of_k,
            step=read + self.rows * products + vectors.convert,
            end=self.rows * vectors.stored + vectors.ending,
            wait=costs.latency,
        )


def _few(rows: int) -> int:
    """The rows of a tile that takes all of a few rows: a power of two if their number is open, to serve for others."""
    return next(most for most in (1, 2, 4, LANES) if rows <= most) if is_extent(rows) else rows


def uses_subgroups(device: DeviceProfile) -> bool:
    """Whether subgroups are vectors of eight of a CPU, as the tile `subgroup` is made for."""
    return "subgroupShuffle" in device.features and device.is_cpu and device.subgroup_size == LANES
