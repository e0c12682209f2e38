"""The invocations that compute a row: one alone, or a workgroup together."""

from __future__ import annotations

from collections.abc import Mapping

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

LOCAL = 64
"""The invocations of a workgroup if each of them computes a row."""
_LONGEST_ALONE = {True: 1 << 12, False: 64}
"""The most elements of a row for one invocation, on CPUs and on GPUs. On GPUs, neighbours then read different rows."""
_MAX_VEC4S = 4
"""The most vec4s of a row that an invocation keeps in registers."""


def shared_out(g: Lowering, rows: int, length: int) -> tuple[tuple[int, int, int], dict[str, int | bool]]:
    """The workgroups, and the specialisation constants that assign rows to invocations."""
    wide = not _take_rows_alone(g.device, rows, length)
    local = _lanes_of_row(g.device, length) if wide else LOCAL
    return g.flat(rows, 1 if wide else LOCAL), {"local_x": local, "LOCAL": local, "WIDE": wide}


def own_vec4s(shares: Mapping[str, int | bool], length: int, *, in_vec4s: bool) -> int:
    """The specialisation constant OWN_VEC4S: the vec4s of a row that an invocation keeps in registers."""
    own = -(-length // (4 * int(shares["LOCAL"]))) if shares["WIDE"] else length // 4
    return own if in_vec4s and own <= _MAX_VEC4S else _MAX_VEC4S + 1


def _take_rows_alone(device: DeviceProfile, rows: int, length: int) -> bool:
    """Whether one invocation computes a row: there are enough rows to keep the device busy, or rows are short."""
    return length < 8 or (rows >= LOCAL * device.units and length <= _LONGEST_ALONE[device.is_cpu])


def _lanes_of_row(device: DeviceProfile, length: int) -> int:
    """The invocations that share a row: a power of two, with at least four elements each."""
    return min(device.team, 1 << max(1, length // 4).bit_length() - 1)
