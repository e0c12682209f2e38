"""The Vulkan driver: every operation a compute shader, a model one recorded command buffer."""

from __future__ import annotations

import atexit
import importlib
from contextlib import suppress
from dataclasses import replace
from types import ModuleType

from nnvk.base.settings import settings
from nnvk.driver.vulkan import kernels as kernels  # registers every kernel
from nnvk.driver.vulkan.device import VulkanDevice
from nnvk.driver.vulkan.planning.outline import outline
from nnvk.driver.vulkan.running import enumeration
from nnvk.driver.vulkan.running.enumeration import Enumeration
from nnvk.driver.vulkan.running.instance import Instance
from nnvk.driver.vulkan.running.tiered_compilation import is_compiling
from nnvk.driver.vulkan.shaders.library import FOLDER, ShaderLibrary
from nnvk.driver.vulkan.shaders.passes import DISABLE_PASSES, parse_passes
from nnvk.driver.vulkan.shaders.profile import AVOID_SHADERS, constrain, profile_of

__all__ = [
    "Enumeration",
    "VulkanDevice",
    "check_settings",
    "enumerate_all",
    "find_devices",
    "is_compiling",
    "longest_call_s",
    "outline",
    "take_validation_messages",
]

_native: ModuleType | None
try:
    _native = importlib.import_module("nnvk._native")
    _missing = ""
except ImportError as error:  # not built
    _native = None
    _missing = f"the native module can't be loaded: {error}"

_validated: list[Instance] = []
"""Instances under the validation layer, which collect its messages."""


def check_settings() -> None:
    """Raise ValueError where a variable names shader variants or passes that do not exist."""
    _disabled()
    if settings().avoid_shaders and _native is not None:
        with suppress(OSError):
            _avoided(ShaderLibrary())


def _disabled() -> frozenset[str]:
    """The names of the passes that plans do without. ValueError: there is none of such a name."""
    try:
        return parse_passes(settings().disable_passes)
    except ValueError as error:
        raise ValueError(f"{DISABLE_PASSES} {error}") from None


def _avoided(library: ShaderLibrary) -> frozenset[str]:
    """The shader variants that plans do without. ValueError: there is none of such a name."""
    try:
        return library.names(settings().avoid_shaders)
    except ValueError as error:
        raise ValueError(f"{AVOID_SHADERS} {error}") from None


def find_devices() -> tuple[list[VulkanDevice], str]:
    """One device per Vulkan physical device, the most capable first, and why there is none, or not all.

    ValueError: a variable names shader variants or passes that do not exist.
    """
    if _native is None:
        return [], _missing
    library, reason = _shaders()
    if library is None:
        return [], reason
    avoided = _avoided(library)
    validation = settings().validation
    try:
        instance = Instance(_native, validation=validation)
        usable, absences = instance.usable(), instance.absences()
    except (RuntimeError, MemoryError) as error:
        return [], f"Vulkan does not start: {error}"
    if validation and usable:
        if not _validated:
            atexit.register(take_validation_messages)
        _validated.append(instance)
    devices = []
    for name, device in usable.items():
        wanted = settings().cooperative_matrices
        features, matrices = frozenset(device.features), [] if wanted == "0" else device.cooperative_matrices
        found = profile_of(device.name, device.type, device.limits, features, matrices)
        found = replace(found, prefers_matrices=wanted == "1")
        believed = constrain(found, settings().device_profile)
        profile = replace(believed, barriers_by_buffer=validation, disabled_passes=_disabled(), avoided=avoided)
        devices.append(VulkanDevice(name, instance, device, profile, library))
    return devices, absences


def longest_call_s() -> float:
    """The seconds since a call of a driver began that has not returned; of several, the first. 0: there is none."""
    return 0.0 if _native is None else float(_native.longest_call_s())


def enumerate_all(hidden: str = "") -> Enumeration:
    """Everything that Vulkan has. ``hidden``: why no device is used; empty where those are that can be."""
    if _native is None:
        return Enumeration(_missing)
    _, unusable = _shaders()
    return enumeration.enumerate_all(Instance(_native, validation=False), hidden or unusable)


def _shaders() -> tuple[ShaderLibrary | None, str]:
    """The compiled shaders, or why they can't be used."""
    try:
        return ShaderLibrary(), ""
    except (OSError, ValueError) as error:
        return None, f"the compiled shaders in {FOLDER} can't be used: {error}"


def take_validation_messages() -> list[str]:
    """The validation layer's messages since the last call (``NNVK_VALIDATION=1``), which are logged as warnings too."""
    return [message for instance in _validated for message in instance.take_messages()]
