"""The registry of kernels: how the Vulkan driver runs an operation, and when it can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperandCode, OperationCode

Lower = Callable[[Call, "Lowering"], None]
Refuse = Callable[[Call], str]
"""Says why a call can't run on the GPU; empty where it can. It may look at anything that must be known early."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One operation on the GPU."""

    lower: Lower
    types: frozenset[OperandCode]
    """Types that tensors of the call may have; optional INT32 parameters (axes, shapes) need not be listed."""
    shaders: tuple[Shader, ...]
    refuse: Refuse | None


_kernels: dict[OperationCode, Kernel] = {}

FLOAT_AND_QUANT8 = (
    OperandCode.TENSOR_FLOAT32,
    OperandCode.TENSOR_QUANT8_ASYMM,
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
)


def kernel(
    *codes: OperationCode,
    shaders: Sequence[Shader] = (),
    types: Sequence[OperandCode] = FLOAT_AND_QUANT8,
    refuse: Refuse | None = None,
) -> Callable[[Lower], Lower]:
    """Register ``lower`` for operations. ``types`` are those of the first input and the first output."""

    def register(lower: Lower) -> Lower:
        for code in codes:
            if code in _kernels:
                raise ValueError(f"{code.name} has two kernels")
            _kernels[code] = Kernel(lower, frozenset(types), tuple(shaders), refuse)
        return lower

    return register


def kernels() -> Mapping[OperationCode, Kernel]:
    """All kernels, by operation."""
    return _kernels
