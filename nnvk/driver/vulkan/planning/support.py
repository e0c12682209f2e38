"""Which operations the GPU runs, and why not the others."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.kernel import Kernel, kernels
from nnvk.driver.vulkan.shaders.commands import padded
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor, Unknown, UnknownShape, UnknownValue


def refuse(call: Call, profile: DeviceProfile, library: ShaderLibrary) -> str:
    """Why no shader can run a call; empty where one can, and where that follows from shapes yet to come."""
    kernel = kernels().get(call.code)
    if kernel is None:
        return f"{call.code.name} has no shader"
    late = [value.name for value in call.values() if isinstance(value, Unknown)]
    if late:
        return f"{late[0]} is known only at execution; shaders are chosen before"
    if call.unknown is not None and not isinstance(call.unknown, UnknownShape):
        return f"{call.unknown}; shaders are chosen before"
    try:
        return _refuse_features(kernel, profile, library) or (kernel.refuse(call) if kernel.refuse else "")
    except UnknownShape:
        return ""  # they come with the execution, and when they have the planner asks again
    except UnknownValue as unknown:
        return f"{unknown}; shaders are chosen before"


def refuse_sizes(call: Call, profile: DeviceProfile) -> str:
    """Why a tensor of a call is too large for the device; empty where none is, and where sizes are yet to come."""
    for tensor in _tensors(call):
        try:
            nbytes = padded(math.prod(tensor.shape) * tensor.dtype.itemsize)
        except UnknownShape:
            continue  # the lowering refuses what turns out too large
        if nbytes > profile.max_buffer:
            return f"{tensor.name} takes {nbytes} bytes, the device binds at most {profile.max_buffer}"
    return ""


def _refuse_features(kernel: Kernel, profile: DeviceProfile, library: ShaderLibrary) -> str:
    for shader in kernel.shaders:
        reason = library.refuse(shader, profile.features)
        if reason:
            return reason
    return ""


def _tensors(call: Call) -> list[Tensor]:
    """All tensors of a call, inputs first."""
    found: list[Tensor] = []
    for value in call.values():
        found += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, Tensor)]
    return found
