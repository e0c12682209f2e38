"""Who takes a row: an invocation by itself, or a workgroup together."""

from __future__ import annotations

from nnvk.driver.vulkan.shaders.profile import DeviceProfile

LOCAL = 64
"""Invocations of a workgroup whose invocations take a row each."""
_LONGEST_ALONE = {True: 1 << 12, False: 64}
"""Elements of a row that an invocation takes by itself, on CPUs and on GPUs, where neighbours read different rows."""


def take_rows_alone(device: DeviceProfile, rows: int, length: int) -> bool:
    """Whether rows are so many that an invocation for each keeps a device busy, or too short for more than one."""
    return length < 8 or (rows >= LOCAL * device.units and length <= _LONGEST_ALONE[device.is_cpu])


def lanes_of_row(device: DeviceProfile, length: int) -> int:
    """Invocations that take a row together: a power of two, with four elements each at least."""
    return min(device.team, 1 << max(1, length // 4).bit_length() - 1)
