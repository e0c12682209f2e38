"""Devices that plans are made for, without one being there."""

from __future__ import annotations

from dataclasses import replace

from nnvk.driver.vulkan.shaders.passes import FUSIONS
from nnvk.driver.vulkan.shaders.profile import ACCELERATED_DOTS, DeviceProfile

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
    disabled_passes=FUSIONS,  # what kernels dispatch is seen as it is
)
UNIFIED = replace(DISCRETE, unified_memory=True)

SUBGROUPS = frozenset({"subgroupShuffle", "subgroupQuad", "shaderInt64", "shaderIntegerDotProduct", ACCELERATED_DOTS})
GPU = DeviceProfile(
    name="",
    is_cpu=False,
    unified_memory=False,
    subgroup_size=32,
    max_buffer=1 << 30,
    max_groups=65535,
    max_invocations=1024,
    max_shared_memory=32768,
    features=SUBGROUPS,
    units=64,
)
EIGHT_LANES = replace(GPU, is_cpu=True, unified_memory=True, subgroup_size=8, units=2, texel_loads=True)
FOUR_LANES = replace(EIGHT_LANES, subgroup_size=4, texel_loads=False)
SMALLEST = replace(GPU, subgroup_size=1, max_invocations=128, max_shared_memory=16 << 10, features=frozenset(), units=4)
DEVICES = {"gpu": GPU, "eight lanes": EIGHT_LANES, "four lanes": FOUR_LANES, "smallest": SMALLEST}
"""Strategies are chosen for these devices: GPUs, and CPUs whose vectors have eight lanes or four."""
