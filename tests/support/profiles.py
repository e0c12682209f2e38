"""Devices that plans are made for, without one being there."""

from __future__ import annotations

from dataclasses import replace

from nnvk.driver.vulkan.shaders.profile import DeviceProfile

DISCRETE = DeviceProfile(
    name="a discrete GPU",
    is_cpu=False,
    unified_memory=False,
    subgroup_size=32,
    max_buffer=1 << 20,
    max_groups=100,
    max_invocations=128,
    max_shared_memory=16384,
    features=frozenset(),
    fusion=False,  # what kernels dispatch is seen as it is
)
UNIFIED = replace(DISCRETE, unified_memory=True)
