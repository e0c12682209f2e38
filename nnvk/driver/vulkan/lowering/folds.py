"""The invocations that fold elements into a vec4 of results: one alone, or several (`shaders/include/fold.glsl`)."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

_LOCAL = 64
"""The invocations of a workgroup if each of them folds alone."""
_SIDE_BY_SIDE = 4
"""The least vec4s of a workgroup, so that neighbouring invocations read neighbouring elements."""
_SHARED_FROM = 32
"""The number of elements from which several invocations share them."""
_LEAST = 8
"""The elements of each share."""


def lanes_of(device: DeviceProfile, vec4s: int, folded: int, most: int) -> int:
    """The number of invocations that share each vec4: as many as keep the device busy, a power of two.

    ``folded``: elements that go into a result; an invocation takes ``most`` of them at most.
    """
    busy = -(-_LOCAL * device.units // vec4s)
    # Where a subgroup is a SIMD vector of the CPU, its lanes have vec4s of their own, or wait.
    is_shared = folded >= _SHARED_FROM and not device.is_cpu
    sharing = min(busy, folded // _LEAST, device.team) if is_shared else 1
    wanted = max(sharing, -(-folded // most), device.team if folded > most else 1)
    return 1 << max(wanted - 1, 0).bit_length()


def shared_out(g: Lowering, vec4s: int, folded: int, most: int) -> tuple[tuple[int, int, int], dict[str, int | bool]]:
    """The workgroups, and specialisation constants that assign elements to invocations. Arguments: see `lanes_of`."""
    device = g.device
    lanes = lanes_of(device, vec4s, folded, most)
    local = _LOCAL
    while local < _SIDE_BY_SIDE * lanes and 2 * local <= device.max_invocations:
        local *= 2
    return g.flat(vec4s, local // lanes), {"local_x": local, "LOCAL": local, "LANES": lanes}
