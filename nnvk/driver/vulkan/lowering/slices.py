"""Slices of a tensor, which are normalised each by itself, as `shaders/include/slices.glsl` sees them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.divide import divisors
from nnvk.types.operand import Shape

_ANYWHERE, _IN_FOUR_SLICES, _IN_ONE_SLICE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Slices:
    """The elements along an axis, or along neighbouring ones."""

    count: int
    length: int
    """Elements of a slice."""
    inner: int
    """Elements from one of a slice to the next."""

    @classmethod
    def along(cls, shape: Shape, first: int, past: int | None = None) -> Slices:
        """Along the dimensions from ``first`` to ``past``, or along one, which may be counted from the end."""
        if past is None:
            first %= len(shape)
            past = first + 1
        inner = math.prod(shape[past:])
        return cls(math.prod(shape[:first]) * inner, math.prod(shape[first:past]), inner)

    @property
    def push(self) -> dict[str, int]:
        """Push constants ``length`` and ``inner``."""
        return {"length": self.length, "inner": self.inner}

    @property
    def divisors(self) -> dict[str, int]:
        """Push constants ``magic_inner`` and ``magic_length``, to find the slice of an element."""
        return divisors(inner=self.inner, length=self.length)

    @property
    def spec(self) -> dict[str, int]:
        """The specialisation constant NEIGHBOURS: where four consecutive elements lie."""
        if self.inner % 4 == 0:
            return {"NEIGHBOURS": _IN_FOUR_SLICES}
        in_one = self.inner == 1 and self.length % 4 == 0
        return {"NEIGHBOURS": _IN_ONE_SLICE if in_one else _ANYWHERE}
