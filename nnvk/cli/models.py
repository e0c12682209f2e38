"""Finding the models and devices that the command line names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from nnvk.api import Device, get_device, get_devices
from nnvk.base.errors import bad_data
from nnvk.driver.vulkan import VulkanDevice
from nnvk.importers import formats
from nnvk.insight.placement import with_fallback

Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of random inputs.")]


def find_models(paths: Sequence[Path]) -> list[Path]:
    """The files among these paths, and the models in those that are folders, also deeper down, each once.

    Raises ValueError for a folder that has none.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            found[path] = None
            continue
        inside = sorted(each for each in path.rglob("*") if each.suffix.lower() in formats.SUFFIXES and each.is_file())
        if not inside:
            raise ValueError(f"there are no {' or '.join(formats.SUFFIXES)} files in {path}")
        found.update(dict.fromkeys(inside))
    return list(found)


def title(path: Path, among: Sequence[Path]) -> str:
    """A model's name: its file's, with its folder's where another is called the same."""
    same = sum(other.name == path.name for other in among)
    return path.name if same == 1 else f"{path.resolve().parent.name}/{path.name}"


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


def choose_devices(name: str | None, fallback: bool) -> list[Device] | None:
    """The devices to compile for; None leaves the choice to nnvk.

    The named device (by default the preferred one) and, with ``fallback``, the CPU devices behind it.
    """
    if name is None:
        return None if fallback else get_devices()[:1]
    device = find_device(name)
    return with_fallback(device) if fallback else [device]
