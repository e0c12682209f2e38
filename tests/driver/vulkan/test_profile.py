"""Profiles of devices, and what the driver can be made to take a device for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnvk.base.errors import NnapiError
from nnvk.driver.vulkan.shaders.profile import ACCELERATED_DOTS, DeviceProfile, constrain, profile_of

LIMITS = {
    "subgroupSize": 32,
    "maxStorageBufferRange": 2**32 - 1,
    "maxTexelBufferElements": 2**27,
    "maxComputeWorkGroupCount0": 2**31 - 1,
    "maxComputeWorkGroupCount1": 65535,
    "maxComputeWorkGroupCount2": 65535,
    "maxComputeWorkGroupInvocations": 1024,
    "maxComputeSharedMemorySize": 49152,
    "timestampValidBits": 64,
    "shaderUnits": 0,
    "hostVisibleDeviceMemory": 80 << 30,
}


@pytest.fixture
def large() -> DeviceProfile:
    return profile_of("large", "discrete_gpu", LIMITS, frozenset({"shaderInt64"}))


def test_limits_of_a_large_device(large: DeviceProfile) -> None:
    assert not large.is_cpu
    assert not large.unified_memory
    assert large.max_groups == 65535
    assert large.max_buffer == 2**32 - 256
    assert large.timestamps


def test_units_are_guessed_where_the_driver_does_not_say() -> None:
    assert profile_of("", "discrete_gpu", LIMITS | {"shaderUnits": 80}, frozenset()).units == 80
    assert profile_of("", "discrete_gpu", LIMITS, frozenset()).units == 32
    assert profile_of("", "integrated_gpu", LIMITS, frozenset()).units == 8


def test_kinds_of_devices() -> None:
    def kind(name: str) -> tuple[bool, bool]:
        profile = profile_of("", name, LIMITS, frozenset())
        return profile.is_cpu, profile.unified_memory

    assert kind("cpu") == (True, True)
    assert kind("integrated_gpu") == (False, True)
    assert kind("discrete_gpu") == kind("virtual_gpu") == kind("other") == (False, False)


@pytest.mark.parametrize(
    ("least", "own", "most", "few", "no_high_products"),
    [
        (32, 64, 64, False, False),  # AMD
        (32, 32, 32, False, False),  # NVIDIA
        (8, 32, 32, True, False),  # Intel
        (64, 64, 128, True, True),  # Adreno
        (16, 16, 16, False, True),  # Mali, VideoCore
    ],
)
def test_registers_and_products_by_the_sizes_of_subgroups(
    least: int, own: int, most: int, few: bool, no_high_products: bool
) -> None:
    limits = LIMITS | {"minSubgroupSize": least, "subgroupSize": own, "maxSubgroupSize": most}
    profile = profile_of("", "integrated_gpu", limits, frozenset())
    assert (profile.has_few_registers, profile.lacks_high_products) == (few, no_high_products)
    assert profile.has_small_subgroups == (own == 16)
    assert profile.has_subgroups_of_eight == (least == 8)
    software = profile_of("", "cpu", limits, frozenset())
    for other in (software, constrain(software, "gpu")):
        assert not (other.has_few_registers or other.lacks_high_products)


def test_whether_the_host_writes_to_all_device_memory() -> None:
    """Without a resizable BAR the host sees 256 MiB of a discrete GPU's memory, or nothing."""

    def direct(kind: str, nbytes: int) -> bool:
        limits = LIMITS | {"hostVisibleDeviceMemory": nbytes}
        return profile_of("", kind, limits, frozenset()).host_writes_device_memory

    assert direct("discrete_gpu", 8 << 30)
    assert not direct("discrete_gpu", 256 << 20)
    assert not direct("discrete_gpu", 0)
    assert not direct("integrated_gpu", 8 << 30)
    assert not direct("cpu", 8 << 30)


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        ("cpu", {"maxStorageBufferRange": 2**31 - 1}, True),
        ("cpu", {"maxStorageBufferRange": 2**31 - 1, "subgroupSize": 4}, False),
        ("cpu", {"maxStorageBufferRange": 2**31 - 1, "maxTexelBufferElements": 2**16}, False),
        ("cpu", {}, False),
        ("discrete_gpu", {"maxStorageBufferRange": 2**31 - 1}, False),
    ],
)
def test_vectors_of_a_cpu_load_texels_where_these_cover_a_buffer(
    kind: str, changes: dict[str, int], expected: bool
) -> None:
    assert profile_of("", kind, LIMITS | changes, frozenset()).texel_loads is expected


@pytest.mark.parametrize("range_", [1 << 27, (1 << 27) + 255, 2**31 - 1])
def test_bindings_are_whole_steps_of_the_native_buffers(range_: int) -> None:
    profile = profile_of("", "cpu", LIMITS | {"maxStorageBufferRange": range_}, frozenset())
    assert profile.max_buffer == range_ // 256 * 256


def test_devices_without_timestamps() -> None:
    assert not profile_of("", "cpu", LIMITS | {"timestampValidBits": 0}, frozenset()).timestamps


def test_no_constraint_changes_nothing(large: DeviceProfile) -> None:
    assert constrain(large, "") is large


def test_mobile_min(large: DeviceProfile) -> None:
    assert constrain(large, "mobile-min") == DeviceProfile(
        name="large",
        is_cpu=False,
        unified_memory=False,
        subgroup_size=1,
        smallest_subgroup=1,
        largest_subgroup=1,
        max_buffer=128 << 20,
        max_groups=65535,
        max_invocations=128,
        max_shared_memory=16 << 10,
        features=frozenset(),
        units=4,
        timestamps=False,
    )


def test_mobile_min_never_promises_more_than_the_device_has(large: DeviceProfile) -> None:
    tiny = replace(large, max_buffer=1 << 20, max_groups=8, max_invocations=64, max_shared_memory=64)
    small = constrain(tiny, "mobile-min")
    assert (small.max_buffer, small.max_groups, small.max_invocations, small.max_shared_memory) == (1 << 20, 8, 64, 64)


def test_gpu() -> None:
    """Limits and features stay the device's own, as of llvmpipe here."""
    limits = LIMITS | {"subgroupSize": 8, "maxStorageBufferRange": 2**31 - 1}
    cpu = profile_of("llvmpipe", "cpu", limits, frozenset({"shaderFloat16", "subgroupQuad"}))
    assert (cpu.is_cpu, cpu.unified_memory, cpu.texel_loads, cpu.team) == (True, True, True, 8)
    gpu = constrain(cpu, "gpu")
    assert gpu == DeviceProfile(
        name="llvmpipe",
        is_cpu=False,
        unified_memory=False,
        subgroup_size=32,
        max_buffer=2**31 - 256,
        max_groups=65535,
        max_invocations=1024,
        max_shared_memory=49152,
        features=frozenset({"shaderFloat16", "subgroupQuad", ACCELERATED_DOTS}),
        units=32,
        host_writes_device_memory=True,
        matrix_subgroup=8,
    )
    assert gpu.team == 64


def test_a_gpu_as_a_gpu_is_a_discrete_one(large: DeviceProfile) -> None:
    integrated = profile_of("large", "integrated_gpu", LIMITS, large.features)
    assert constrain(integrated, "gpu") == constrain(large, "gpu") == large


def test_unknown_constraints_are_named(large: DeviceProfile) -> None:
    with pytest.raises(NnapiError, match="NNVK_DEVICE_PROFILE must be mobile-min or gpu, or empty, got 'tiny'"):
        constrain(large, "tiny")
