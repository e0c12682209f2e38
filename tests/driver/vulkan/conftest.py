"""The first Vulkan device, as it is and as the smallest that Vulkan allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnvk.base.settings import override
from nnvk.driver.vulkan import VulkanDevice, find_devices


def _first(**settings: object) -> VulkanDevice:
    with override(**settings):
        found, reason = find_devices()
    if not found:
        pytest.skip(reason)
    return found[0]


@pytest.fixture(scope="session")
def own() -> VulkanDevice:
    """The device as it is."""
    return _first()


@pytest.fixture(scope="session", params=["", "mobile-min"], ids=["own", "smallest"])
def vulkan(request: pytest.FixtureRequest) -> VulkanDevice:
    """The device under its own profile and under the smallest."""
    return _first(device_profile=request.param)


@pytest.fixture(scope="session", params=["", "mobile-min"], ids=["own", "smallest"])
def as_gpu(request: pytest.FixtureRequest) -> VulkanDevice:
    """The same two as if they were GPUs, which are planned for in other ways than CPUs."""
    device = _first(device_profile=request.param)
    device.gpu.profile = device.planner.profile = replace(device.profile, is_cpu=False)
    return device


@pytest.fixture(scope="session")
def narrow() -> VulkanDevice:
    """The device if it had only a few workgroups in a dimension, so that long dispatches must fold into two."""
    device = _first()
    device.planner.profile = replace(device.profile, max_groups=20)
    return device


@pytest.fixture
def fresh() -> VulkanDevice:
    """A device that no other test has used."""
    return _first()
