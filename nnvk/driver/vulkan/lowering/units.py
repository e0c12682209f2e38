"""Rows of a tensor that are moved as a whole, in the largest units that they are made of."""

from __future__ import annotations

from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Tensor

_CHUNK = 8
"""The most units that an invocation copies on a CPU. On a GPU each copies one, so that neighbours' lie side by side."""


@dataclass(frozen=True, slots=True)
class Units:
    """The units that a row is made of."""

    dtype: str
    """The value of the axis DTYPE: whole words where they are some."""
    inner: int
    """Units of a row."""

    @property
    def are_vec4s(self) -> bool:
        """Whether they are whole vec4s."""
        return self.inner % 4 == 0

    @property
    def are_quads(self) -> bool:
        """Whether they are whole quads of words."""
        return self.are_vec4s and self.dtype == "b32"

    def chunk(self, device: DeviceProfile) -> int:
        """How many units, or vec4s of them, an invocation copies."""
        count = self.inner // 4 if self.are_vec4s else self.inner
        most = _CHUNK if device.is_cpu else 1
        return max(chunk for chunk in range(1, most + 1) if count % chunk == 0)


def units_of(tensor: Tensor, inner: int) -> Units:
    """The units of rows of ``inner`` elements of a tensor's."""
    words, rest = divmod(inner * tensor.dtype.itemsize, 4)
    return Units(moved(tensor), inner) if rest else Units("b32", words)
