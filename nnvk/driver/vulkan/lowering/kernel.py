"""The registry of kernels: how the Vulkan driver runs an operation, and when it can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps

from nnvk.driver.vulkan.lowering.gemm.problem import Fused
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode
from nnvk.types.extension import KnownCode

Lower = Callable[[Call, Lowering], None]
LowerGemm = Callable[[Call, Lowering, Fused], None]
Refuse = Callable[[Call], str | None]
"""Says why a call can't run on the GPU; None where it can. It may look at anything that must be known early."""


TakesView = Callable[[Call, Tensor, Tensor, bool], bool]
"""Says whether a kernel can have a view in the place of a tensor of a call, so that no copy is needed.

The last argument says whether nobody else needs the copy. Only then may the kernel copy a part of it, or all of it.
"""

EpilogueChannels = Callable[[Call, DeviceProfile], int | None]
"""The channels of the pixels that a GEMM stores, if its dispatch can have an epilogue; None if it can't have one."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One operation on the GPU, on all types that the operation has."""

    lower: LowerGemm
    """Only the kernel of a GEMM gets anything that is fused."""
    shaders: tuple[Shader, ...]
    refuse: Refuse | None
    checks_data: bool
    """Whether it may complain of data (`Lowering.flag`), and so runs also where all outputs are empty."""
    channels_last: bool
    """Whether it takes images in NHWC order alone; the pass `layouts` transposes those in NCHW order."""
    takes_view: TakesView | None
    """Says in the place of which tensors of a call it takes views; None if it takes none."""
    epilogue_channels: EpilogueChannels | None = None
    """Says for which calls it takes elementwise operations behind a GEMM (`problem.Epilogue`); None if for none."""
    takes_wide_input: Callable[[Call], bool] | None = None
    """Says for which calls on float16 it reads ``input`` as float32 and converts it; None if for none."""


_kernels: dict[KnownCode | InternalCode, Kernel] = {}


def kernel(
    *codes: KnownCode | InternalCode,
    shaders: Sequence[Shader] = (),
    refuse: Refuse | None = None,
    checks_data: bool = False,
    channels_last: bool = False,
    takes_view: TakesView | None = None,
) -> Callable[[Lower], Lower]:
    """Register ``lower`` for operations. ``shaders`` are all that it may dispatch."""

    def register(lower: Lower) -> Lower:
        @wraps(lower)
        def without_fused(call: Call, g: Lowering, fused: Fused) -> None:
            lower(call, g)

        _register(codes, Kernel(without_fused, tuple(shaders), refuse, checks_data, channels_last, takes_view))
        return lower

    return register


def gemm_kernel(
    *codes: KnownCode | InternalCode,
    shaders: Sequence[Shader],
    epilogue_channels: EpilogueChannels,
    takes_wide_input: Callable[[Call], bool] | None = None,
    refuse: Refuse,
    channels_last: bool = False,
    takes_view: TakesView | None = None,
) -> Callable[[LowerGemm], LowerGemm]:
    """Register ``lower`` for GEMMs, as `kernel` does for other operations."""

    def register(lower: LowerGemm) -> LowerGemm:
        of_gemm = takes_view, epilogue_channels, takes_wide_input
        _register(codes, Kernel(lower, tuple(shaders), refuse, False, channels_last, *of_gemm))
        return lower

    return register


def _register(codes: Sequence[KnownCode | InternalCode], kernel: Kernel) -> None:
    for code in codes:
        if code in _kernels:
            raise ValueError(f"{code.name} has two kernels")
        _kernels[code] = kernel


def kernels() -> Mapping[KnownCode | InternalCode, Kernel]:
    """All kernels, by operation."""
    return _kernels
