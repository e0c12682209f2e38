"""The tile `depthwise`: as `shared`, with a left operand that a depthwise convolution gives (`separable.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy, sums_are_short
from nnvk.driver.vulkan.lowering.gemm.tiles.shared import Shared, of_sizes
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

_WIDE = (((32, 4), 1, (4,)),)
"""Those for dot products on GPUs behind a depthwise convolution, which each block of output channels computes again."""
_WINDOWS = 2
"""The most windows that an invocation of the tile `depthwise` loads at once. Each has up to nine vectors, and it takes
conditions for what is in the padding, of which AMD's compiler spills more. Adreno's spills with two, and
with one for floats; Intel's always. NVIDIA's keeps 56 to 84 bytes of two windows of 32-bit floats in memory."""
_WIDE_SUBGROUP = 64
"""The largest subgroups of AMD's GPUs, and not of NVIDIA's."""


@dataclass(frozen=True, slots=True)
class Depthwise(Shared):
    """Workgroups compute the left operand of some vec4s of K at once."""

    tile: ClassVar[str] = "depthwise"
    has_one_sum: ClassVar[bool] = False
    dtypes: ClassVar[tuple[str, ...]] = ("f32", "f16", "q8")
    arithmetics: ClassVar[tuple[str, ...]] = ("none", "float", "dot", "half")
    follows_depthwise: ClassVar[bool] = True
    spills_sums: ClassVar[bool] = False

    @classmethod
    def candidates(cls, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
        """See `Strategy`."""
        if device.has_few_registers and (work.kind != "q8" or device.has_subgroups_of_eight):
            return
        is_large = work.kind == "f32" and device.largest_subgroup < _WIDE_SUBGROUP
        most = 1 if device.has_few_registers or is_large else _WINDOWS
        for arithmetic in cls.ways_to_multiply(work, device):
            if sums_are_short(work, arithmetic):
                for strategy in of_sizes(cls, device, arithmetic, packed=True, more=_WIDE):
                    if strategy.windows <= most and strategy.is_busy(work):
                        yield strategy
                        yield from strategy.split(work, device)
