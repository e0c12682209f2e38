"""The registry of kernels: how the Vulkan driver runs an operation, and when it can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.internal import InternalCode
from nnvk.types.extension import KnownCode

Lower = Callable[[Call, Lowering], None]
Refuse = Callable[[Call], str | None]
"""Says why a call can't run on the GPU; None where it can. It may look at anything that must be known early."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One operation on the GPU, on all types that the operation has."""

    lower: Lower
    shaders: tuple[Shader, ...]
    refuse: Refuse | None
    checks_data: bool
    """Whether it may complain of data (`Lowering.flag`), and so runs also where all outputs are empty."""
    channels_last: bool
    """Whether it takes images in NHWC order alone; the pass `layouts` transposes those in NCHW order."""


_kernels: dict[KnownCode | InternalCode, Kernel] = {}


def kernel(
    *codes: KnownCode | InternalCode,
    shaders: Sequence[Shader] = (),
    refuse: Refuse | None = None,
    checks_data: bool = False,
    channels_last: bool = False,
) -> Callable[[Lower], Lower]:
    """Register ``lower`` for operations. ``shaders`` are all that it may dispatch."""

    def register(lower: Lower) -> Lower:
        for code in codes:
            if code in _kernels:
                raise ValueError(f"{code.name} has two kernels")
            _kernels[code] = Kernel(lower, tuple(shaders), refuse, checks_data, channels_last)
        return lower

    return register


def kernels() -> Mapping[KnownCode | InternalCode, Kernel]:
    """All kernels, by operation."""
    return _kernels
