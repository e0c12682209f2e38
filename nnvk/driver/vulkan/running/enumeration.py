"""All Vulkan drivers and devices of a machine, and the reasons why nnvk does not use some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnvk.driver.vulkan.running import loader, requirements
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
    """The Vulkan version of the device."""
    driver: str
    """The driver's name and version; empty if the device is too old to report them."""
    device: str | None
    """The name of nnvk's device; None if there is none."""
    problem: str
    """The reason why the device is not used; empty if it can be used."""


@dataclass(frozen=True, slots=True)
class FoundDriver:
    """A driver, by its manifest."""

    manifest: str
    devices: tuple[str, ...]
    """Names of the driver's physical devices."""
    problem: str
    """The reason why the driver has no device; empty if it has one."""


@dataclass(frozen=True, slots=True)
class Enumeration:
    """All drivers and physical devices."""

    failure: str = ""
    """The reason why Vulkan does not start; empty if it does."""
    devices: tuple[FoundDevice, ...] = ()
    drivers: tuple[FoundDriver, ...] = ()
    listed_by: str = ""
    """The environment variable that names the drivers; empty if folders are searched for them."""


def enumerate_all(instance: Instance, hidden: str) -> Enumeration:
    """All drivers and devices. ``hidden``: the reason why no device is used; empty if usable devices are used."""
    drivers: tuple[FoundDriver, ...] = ()
    try:
        drivers = tuple(_driver(one) for one in instance.drivers_alone())
        names = {} if hidden else {physical.index: name for name, physical in instance.usable().items()}
        devices = tuple(_device(each, names.get(each.index), hidden) for each in instance.physical_devices())
    except (RuntimeError, MemoryError) as error:
        return Enumeration(str(error), (), drivers, loader.listed_by())
    return Enumeration("", devices, drivers, loader.listed_by())


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
    problem = "" if names else requirements.why_no_gpu([alone.manifest]) or "it finds no device"
    return FoundDriver(str(alone.manifest), names, problem)
