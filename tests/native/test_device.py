from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nnvk import _native


def test_physical_device_describes_itself(physical: _native.PhysicalDevice) -> None:
    assert physical.name
    assert physical.type in {"cpu", "integrated_gpu", "discrete_gpu", "virtual_gpu", "other"}
    assert tuple(int(part) for part in physical.api_version.split(".")) >= (1, 1, 0)
    assert len(physical.uuid) == 16
    assert any(local and size > 0 for size, local in physical.heaps)


@pytest.mark.parametrize(
    ("name", "least"),
    [  # what the specification requires of every device
        ("maxStorageBufferRange", 1 << 27),
        ("maxComputeSharedMemorySize", 16384),
        ("maxComputeWorkGroupInvocations", 128),
        ("maxComputeWorkGroupSize0", 128),
        ("maxComputeWorkGroupSize2", 64),
        ("maxComputeWorkGroupCount1", 65535),
        ("maxPushConstantsSize", 128),
        ("subgroupSize", 1),
        ("maxMemoryAllocationSize", 1 << 30),
    ],
)
def test_limits_reach_the_required_minimum(physical: _native.PhysicalDevice, name: str, least: int) -> None:
    assert physical.limits[name] >= least


def test_cooperative_matrices_are_listed_with_their_extension(physical: _native.PhysicalDevice) -> None:
    if "VK_KHR_cooperative_matrix" not in physical.extensions:
        assert physical.cooperative_matrices == []
        assert "cooperativeMatrix" not in physical.features
    for m, n, k, *types in physical.cooperative_matrices:
        assert min(m, n, k) >= 1
        assert len(types) == 4


def test_subgroup_features_are_listed(physical: _native.PhysicalDevice) -> None:
    assert "subgroupBasic" in physical.features


def test_device_enables_all_features_unless_told(physical: _native.PhysicalDevice) -> None:
    assert physical.create_device().features == physical.features
    assert physical.create_device(features=[]).features == []


def test_unknown_feature_is_refused(physical: _native.PhysicalDevice) -> None:
    with pytest.raises(ValueError, match="no feature shaderMindReading"):
        physical.create_device(features=["shaderMindReading"])


def test_pipeline_cache_is_taken_over(device: _native.Device, make_adder: Callable[..., Any]) -> None:
    make_adder(device)
    data = device.pipeline_cache_data()
    assert data
    for cache in (data, data[:20], b"", b"x" * len(data)):  # what is not the driver's own is ignored
        again = device.physical.create_device(pipeline_cache=cache)
        make_adder(again).program().run([None], [None])


def test_device_keeps_its_instance_alive() -> None:
    device = _native.Instance().physical_devices()[0].create_device()
    assert device.create_buffer(64, host_visible=True).view().sum() == 0
    assert device.lost is False
    device.wait_idle()
