"""Slices of a tensor that are normalised separately (`shaders/include/slices.glsl`)."""

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
    """The elements of a slice."""
    inner: int
    """The distance between elements of a slice."""

    @classmethod
    def along(cls, shape: Shape, first: int, past: int | None = None) -> Slices:
        """The slices along dimensions ``first`` to ``past``, or along one, which may be counted from the end."""
        if past is None:
            first %= len(shape)
            past = first + 1
        inner = math.prod(shape[past:])
        return cls(math.prod(shape[:first]) * inner, math.prod(shape[first:past]), inner)

    @property
    def push(self) -> dict[str, int]:
        """The push constants ``length`` and ``inner``."""
        return {"length": self.length, "inner": self.inner}

    @property
    def divisors(self) -> dict[str, int]:
        """The push constants ``magic_inner`` and ``magic_length``, to find the slice of an element."""
        return divisors(inner=self.inner, length=self.length)

    @property
    def spec(self) -> dict[str, int]:
        """The specialisation constant NEIGHBOURS: the relation of four consecutive elements to slices."""
        if self.inner % 4 == 0:
            return {"NEIGHBOURS": _IN_FOUR_SLICES}
        in_one = self.inner == 1 and self.length % 4 == 0
        return {"NEIGHBOURS": _IN_ONE_SLICE if in_one else _ANYWHERE}
