"""The devices that users name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnvk.api import Device, get_device, get_devices
from nnvk.base.checks import instance
from nnvk.base.errors import bad_data
from nnvk.base.settings import settings
from nnvk.driver.vulkan import VulkanDevice
from nnvk.insight.placement import with_fallback

AUTO = "auto"
"""In the place of a device's name: the preferred one, or a library beside nnvk where that is faster."""


def is_auto(name: object) -> bool:
    """Whether this is `AUTO`, in upper or lower case; for None, whether ``NNVK_DEVICE`` is."""
    return settings().device == AUTO if name is None else isinstance(name, str) and name.lower() == AUTO


def find_device(name: str) -> Device:
    """The device of a name, or else the first of a type (``cpu``, ``gpu``), in upper or lower case.

    Raises BAD_DATA that names the devices there are.
    """
    ways: Sequence[Callable[[Device], bool]] = (
        lambda device: device.name == name,
        lambda device: device.name.lower() == name.lower(),
        lambda device: device.type.name.lower() == name.lower(),
    )
    found = (device for is_meant in ways for device in get_devices() if is_meant(device))
    return next(found, None) or get_device(name)  # which says what there is


def find_vulkan_device(name: str | None) -> VulkanDevice:
    """The Vulkan device of a name, or the first one.

    Raises BAD_DATA if there is none, or if the device of that name is another one.
    """
    chosen = [find_device(name)] if name is not None else get_devices()
    for device in chosen:
        if isinstance(device.driver, VulkanDevice):
            return device.driver
    raise bad_data("there is no Vulkan device" if name is None else f"{chosen[0].name} is no Vulkan device")


def choose_devices(name: str | Device | None, fallback: bool) -> list[Device] | None:
    """The devices to compile for; None leaves the choice to nnvk.

    The named device (by default, and for `AUTO`, the preferred one) and, with ``fallback``, the CPU devices behind it.
    """
    if name is None or is_auto(name):
        return None if fallback else get_devices()[:1]
    device = name if isinstance(name, Device) else find_device(instance("the device", name, str))
    return with_fallback(device) if fallback else [device]
