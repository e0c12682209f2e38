"""A file of the cache, good as it is, and what it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cached import MODEL, SHAPES, Load, keyed, parts

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.cache import PlanCache, key_of
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.types.request import PrepareOptions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return keyed(tmp_path) / "entry.nnvk"


@pytest.fixture(scope="module")
def library(own: VulkanDevice) -> ShaderLibrary:
    return own.planner.library


@pytest.fixture(scope="module")
def load(own: VulkanDevice, library: ShaderLibrary, key: dict[str, str]) -> Load:
    """Reads the plan of `MODEL` from a file, whose content may be given."""

    def load_plan(path: Path, content: bytes | None = None, key: dict[str, str] = key) -> Plan | None:
        if content is not None:
            path.write_bytes(content)
        return PlanCache(path, key).load(MODEL, SHAPES, own.planner.profile, library)

    return load_plan


@pytest.fixture(scope="module")
def entry(own: VulkanDevice, library: ShaderLibrary, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A good file."""
    path = keyed(tmp_path_factory.mktemp("cache")) / "entry.nnvk"
    own.prepare_model(MODEL, PrepareOptions(cache=path))
    return path.read_bytes()


@pytest.fixture(scope="module")
def key(own: VulkanDevice, library: ShaderLibrary) -> dict[str, str]:
    return key_of(own.version, own.planner.profile, library, MODEL)


@pytest.fixture(scope="module")
def header(entry: bytes) -> dict[str, Any]:
    return parts(entry)[0]


@pytest.fixture(scope="module")
def constants(entry: bytes) -> bytes:
    return parts(entry)[1]
