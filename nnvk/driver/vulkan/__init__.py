"""The Vulkan driver: every operation a compute shader, a model one recorded command buffer."""

from __future__ import annotations

import importlib
from types import ModuleType

from nnvk.base.settings import settings
from nnvk.driver.vulkan import kernels as kernels  # registers every kernel
from nnvk.driver.vulkan.device import VulkanDevice
from nnvk.driver.vulkan.profile import constrain, profile_of
from nnvk.driver.vulkan.shader_library import FOLDER, ShaderLibrary

__all__ = ["VulkanDevice", "find_devices"]

_RANK = ("discrete_gpu", "integrated_gpu", "virtual_gpu", "other", "cpu")

_native: ModuleType | None
try:
    _native = importlib.import_module("nnvk._native")
    _missing = ""
except ImportError as error:  # not built, or the Vulkan loader (libvulkan.so.1) is not installed
    _native = None
    _missing = f"the native module can't be loaded: {error}"


def find_devices() -> tuple[list[VulkanDevice], str]:
    """One device per Vulkan physical device, the most capable first, or the reason why there is none."""
    if _native is None:
        return [], _missing
    try:
        library = ShaderLibrary()
    except FileNotFoundError:
        return [], f"there are no compiled shaders in {FOLDER}"
    try:
        instance = _native.Instance(validation=settings().validation)
        physical = instance.physical_devices()
    except RuntimeError as error:
        return [], f"Vulkan does not start: {error}"
    if not physical:
        return [], "Vulkan has no device; a software one is Debian's package mesa-vulkan-drivers"
    ranked = sorted(physical, key=lambda device: (_RANK.index(device.type), device.index))
    devices = []
    for number, device in enumerate(ranked):
        found = profile_of(device.name, device.type, device.limits, frozenset(device.features))
        profile = constrain(found, settings().device_profile)
        devices.append(VulkanDevice(f"vulkan-{number}", device, profile, library))
    return devices, ""
