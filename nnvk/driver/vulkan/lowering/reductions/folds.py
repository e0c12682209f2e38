"""The invocations that fold elements into a vec4 of results: one alone, or several (`shaders/include/fold.glsl`)."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

_LOCAL = 64
"""The invocations of a workgroup if each of them folds alone."""
SIDE_BY_SIDE = 4
"""The least vec4s of a workgroup, so that neighbouring invocations read neighbouring elements."""
_SHARED_FROM = 32
"""The number of elements from which several invocations share them."""
_LEAST = 8
"""The elements of each share."""


def lanes_of(device: DeviceProfile, vec4s: int, folded: int, most: int, beside: int = SIDE_BY_SIDE) -> int:
    """The number of invocations that share each vec4: as many as keep the device busy, a power of two.

    ``folded``: elements that go into a result; an invocation takes ``most`` of them at most. ``beside``: the least
    vec4s of a workgroup. 1 means that the invocations that share a vec4 read neighbouring elements.
    """
    busy = -(-_LOCAL * device.units // vec4s)
    # Where a subgroup is a SIMD vector of the CPU, its lanes read neighbouring elements, or wait.
    is_shared = folded >= _SHARED_FROM and not (device.is_cpu and beside > 1)
    room = 1 << (device.max_invocations // beside).bit_length() - 1
    together = device.large_team if beside == 1 else min(device.team, room)
    sharing = min(busy, folded // _LEAST, together) if is_shared else 1
    wanted = max(sharing, -(-folded // most), device.team if folded > most else 1)
    lanes = 1 << max(wanted - 1, 0).bit_length()
    while lanes > device.max_invocations:
        lanes //= 2
    return lanes


def shared_out(
    g: Lowering, vec4s: int, folded: int, most: int, beside: int = SIDE_BY_SIDE
) -> tuple[tuple[int, int, int], dict[str, int | bool]]:
    """The workgroups, and specialisation constants that assign elements to invocations. Arguments: see `lanes_of`."""
    device = g.device
    lanes = 1 if g.reproducible else lanes_of(device, vec4s, folded, most, beside)
    local = _LOCAL if lanes == 1 or beside > 1 else device.team
    while local < beside * lanes and 2 * local <= device.max_invocations:
        local *= 2
    return g.flat(vec4s, local // lanes), {"local_x": local, "LOCAL": local, "LANES": lanes}
