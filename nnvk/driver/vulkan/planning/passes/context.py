"""The context of passes on the graph: the device that they may ask about, and functions for choices and new tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from nnvk.driver.vulkan.graph.ir import Graph
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor
from nnvk.types.constant import Constant
from nnvk.types.operand import OperandType


class MakeTensor(Protocol):
    """Makes a tensor that is no operand of the model, with a new index below 0."""

    def __call__(self, name: str, type: OperandType, data: Constant | None = None) -> Tensor:
        """The tensor has the type's dimensions; it is a constant if it has data."""


class Choose(Protocol):
    """Chooses between candidates for the whole model, by what was measured or else the first one."""

    def __call__(self, tuning_key: str, ranked: Sequence[str], *, of_all: bool) -> str:
        """``tuning_key`` has all that the times depend on."""


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of a pass. A graph after a pass follows from the graph before it and from these."""

    profile: DeviceProfile
    relaxed: bool
    """Whether 32-bit floats may be computed as if they had 16 bits."""
    tensor: MakeTensor
    choose: Choose
    refuse: Callable[[Call], str | None]
    """Says why no kernel can run a call; None if one can."""
    verifies: bool = False
    """Products are to be verified by checksums or other shaders, where these know all that is fused to them."""


Rewrite = Callable[[Graph, Context], tuple[Graph, int]]
"""A pass: the graph after it, and how often it has found something to rewrite."""
