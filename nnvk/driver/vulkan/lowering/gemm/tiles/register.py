"""The tile `register`: sums in registers, without shared memory. Each invocation loads for itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, GemmProblem, Split, Work
from nnvk.driver.vulkan.lowering.gemm.strategy import ARITHMETICS, Strategy, sums_are_short
from nnvk.driver.vulkan.lowering.gemm.tiles.quads import Quads, invocations, orders
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

_MOST_LINE_TAPS = 8
"""The most taps of a line of a window that are unrolled. Sums of bytes of 8 x 8 taps of 4 channels are exact."""
_SIZES = (1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (4, 2), (8, 2)
"""Pixels and vec4s of output channels of an invocation."""


@dataclass(frozen=True, slots=True)
class Register(Quads):
    """Each invocation loads for itself. With few registers it takes weights element by element."""

    tile: ClassVar[str] = "register"
    arithmetics: ClassVar[tuple[str, ...]] = ARITHMETICS
    share: ClassVar[int] = 1
    spills_sums: ClassVar[bool] = True
    spills_bytes: ClassVar[bool] = False

    @classmethod
    def candidates(cls, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
        """See `Strategy`."""
        across = min(8, 1 << (work.vec4s - 1).bit_length())
        for arithmetic in cls.ways_to_multiply(work, device):
            if not sums_are_short(work, arithmetic):
                continue
            for packed, (rows, vec4s) in itertools.product(orders(work, arithmetic), _SIZES):
                if vec4s == 1 or across > 1:
                    local = max(across // vec4s, 1)
                    size = local, invocations(device) // local
                    yield from cls(rows, size, vec4s, arithmetic, packed).whole_and_split(work, device)

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
