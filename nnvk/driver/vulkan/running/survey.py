"""Everything that Vulkan has on a machine, and what keeps parts of it from being used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnvk.driver.vulkan.running import loader, missing
from nnvk.driver.vulkan.running.instance import Created, Instance, why_unusable

if TYPE_CHECKING:
    import nnvk._native as _native


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A physical device."""

    name: str
    type: str
    """``cpu``, ``integrated_gpu``, ``discrete_gpu``, ``virtual_gpu`` or ``other``."""
    vulkan: str
    """The version that it has."""
    driver: str
    """The driver's name and version; empty where the device is too old to say."""
    device: str | None
    """The name of nnvk's device; None where there is none."""
    problem: str
    """The reason why it is not used; empty where it can be."""


@dataclass(frozen=True, slots=True)
class FoundDriver:
    """A driver, by its manifest."""

    manifest: str
    devices: tuple[str, ...]
    """Names of the physical devices that it has."""
    problem: str
    """Why it has none; empty where it has some."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything that Vulkan has."""

    failure: str = ""
    """Why Vulkan does not start; empty where it does."""
    devices: tuple[FoundDevice, ...] = ()
    drivers: tuple[FoundDriver, ...] = ()
    listed_by: str = ""
    """The environment variable that names the drivers; empty where folders are searched for them."""


def take(instance: Instance, hidden: str) -> Survey:
    """All drivers and devices. ``hidden``: why no device is used; empty where the usable ones are."""
    drivers: tuple[FoundDriver, ...] = ()
    try:
        drivers = tuple(_driver(one) for one in instance.drivers_alone())
        names = {} if hidden else {physical.index: name for name, physical in instance.usable().items()}
        devices = tuple(_device(each, names.get(each.index), hidden) for each in instance.physical_devices())
    except (RuntimeError, MemoryError) as error:
        return Survey(str(error), (), drivers, loader.listed_by())
    return Survey("", devices, drivers, loader.listed_by())


def _device(physical: _native.PhysicalDevice, name: str | None, hidden: str) -> FoundDevice:
    driver = f"{physical.driver_name} {physical.driver_info}".strip()
    problem = why_unusable(physical) or hidden or _why_closed(physical)
    return FoundDevice(physical.name, physical.type, physical.api_version, driver, name, problem)


def _why_closed(physical: _native.PhysicalDevice) -> str:
    try:
        physical.create_device([])
    except (RuntimeError, MemoryError) as error:
        return f"it can't be opened: {error}"
    return ""


def _driver(alone: loader.Alone[Created]) -> FoundDriver:
    if alone.made is None:
        return FoundDriver(str(alone.manifest), (), alone.failure)
    names = tuple(physical.name for physical in alone.made[1])
    problem = "" if names else missing.why_no_gpu([alone.manifest]) or "it finds no device"
    return FoundDriver(str(alone.manifest), names, problem)
