"""The first Vulkan device as itself, as the smallest that Vulkan allows, and as a GPU.

"As itself" is as ``NNVK_DEVICE_PROFILE`` says, so that all of these tests can be run on another profile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rewritten import library, native

from nnvk.base.settings import override
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategies import ranked
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.shaders.profile import DeviceProfile, constrain


@cache
def _shared(device_profile: str = "") -> VulkanDevice:
    """A device that tests share, and what they compile: a session comes back to a parameter of a fixture."""
    return _first(device_profile)


def _first(device_profile: str = "") -> VulkanDevice:
    with override(device_profile=device_profile) if device_profile else nullcontext():
        found, reason = find_devices()
    if not found:
        pytest.skip(reason)
    return found[0]


@pytest.fixture(scope="session")
def own() -> VulkanDevice:
    """The device as itself."""
    return _shared()


@pytest.fixture(scope="session", params=["", "mobile-min"], ids=["own", "smallest"])
def vulkan(request: pytest.FixtureRequest) -> VulkanDevice:
    """The device as itself and as the smallest."""
    return _shared(request.param)


@pytest.fixture(scope="session", params=["gpu", "mobile-min"], ids=["gpu", "smallest"])
def as_gpu(request: pytest.FixtureRequest) -> VulkanDevice:
    """The device as a GPU, for which plans differ from those for a CPU: as a large one and as the smallest."""
    return _shared(request.param)


@pytest.fixture(scope="session", params=["", "gpu", "mobile-min"], ids=["own", "gpu", "smallest"])
def device(request: pytest.FixtureRequest) -> VulkanDevice:
    """The device as itself, as a GPU and as the smallest."""
    return _shared(request.param)


@pytest.fixture
def planner(tmp_path: Path) -> Iterator[Planner]:
    """A planner for a GPU that is not there, without autotune results."""
    with override(cache_dir=str(tmp_path)):
        yield Planner(native(), library(), "version")


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


@pytest.fixture
def in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """GEMMs of floats are added up one by one as 32-bit floats, whatever the size of a product: to the same bits."""

    def alike(work: Work, device: DeviceProfile) -> list[Strategy]:
        is_exact = work.kind == "q8"
        ways = [way for way in ranked(work, device) if way.split_k == 1 and (is_exact or way.arithmetic == "none")]
        return [way for way in ways if way.tile in ("register", "shared")]

    monkeypatch.setattr(gemm, "ranked", alike)


@pytest.fixture(scope="module", params=["Mali", "VideoCore", "Adreno"])
def small_gpu(request: pytest.FixtureRequest) -> VulkanDevice:
    """A GPU with few registers, which computes with integers of 16 bits unless it is VideoCore."""
    device = find_devices()[0][0]
    features = frozenset({"shaderInt16"} if request.param != "VideoCore" else ())
    least, most = (64, 128) if request.param == "Adreno" else (16, 16)
    profile = replace(constrain(device.profile, "mobile-min"), subgroup_size=least, features=features, units=8)
    profile = replace(profile, smallest_subgroup=least, largest_subgroup=most)
    device.gpu.profile = device.planner.profile = profile
    return device
