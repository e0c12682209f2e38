"""Fixtures of the runtime's tests, and the helpers beside them on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import nnvk
from nnvk.hal import IDevice
from nnvk.runtime.devices import manager

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=[device.name for device in nnvk.get_devices()])
def device(request: pytest.FixtureRequest) -> nnvk.Device:
    """Each device of this machine in turn."""
    return nnvk.get_device(request.param)


@pytest.fixture
def cpu() -> nnvk.Device:
    """The reference device."""
    return nnvk.get_device("nnapi-reference")


@pytest.fixture
def gpu() -> nnvk.Device:
    """The preferred Vulkan device."""
    return nnvk.get_device("vulkan-0")


@pytest.fixture
def use_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Sequence[IDevice]], list[nnvk.Device]]]:
    """Replaces the devices that nnvk knows, for the test."""

    def install(drivers: Sequence[IDevice]) -> list[nnvk.Device]:
        monkeypatch.setattr(manager, "_drivers", [lambda: (drivers, "")])
        monkeypatch.setattr(manager, "_devices", None)
        return manager.devices()

    yield install
    monkeypatch.undo()
    manager._devices = None
