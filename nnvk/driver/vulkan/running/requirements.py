"""The requirements of Vulkan that a system lacks: packages, by their names there, and device files of GPUs."""

from __future__ import annotations

import grp
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_DEVICES = Path("/dev/dri")
_RENDER_NODE = "renderD"
_NEED_DEVICES = (
    "amd",
    "asahi",
    "broadcom",
    "freedreno",
    "gfxstream",
    "intel",
    "nouveau",
    "panfrost",
    "powervr",
    "radeon",
    "virtio",
)
"""Prefixes of the manifests of drivers that reach their GPU through `_DEVICES`."""
_SOFTWARE = "lvp"
"""Prefix of the manifest of Mesa's software device."""


@dataclass(frozen=True, slots=True)
class _Distribution:
    """A family of distributions: the command that installs packages, and the packages' names."""

    install: str
    loader: str
    software: str
    """The package with a software device."""
    gpus: str = ""
    """The packages with drivers of GPUs, if the package of the software device has none."""


_APT = _Distribution("apt install", "libvulkan1", "mesa-vulkan-drivers")
_DNF = _Distribution("dnf install", "vulkan-loader", "mesa-vulkan-drivers")
DISTRIBUTIONS = {
    "debian": _APT,
    "ubuntu": _APT,
    "fedora": _DNF,
    "rhel": _DNF,
    "arch": _Distribution("pacman -S", "vulkan-icd-loader", "vulkan-swrast", "vulkan-radeon, vulkan-intel"),
    "suse": _Distribution("zypper install", "libvulkan1", "libvulkan_lvp", "libvulkan_radeon, libvulkan_intel"),
    "alpine": _Distribution("apk add", "vulkan-loader", "mesa-vulkan-swrast", "mesa-vulkan-ati, mesa-vulkan-intel"),
}
"""Families by ID and ID_LIKE in /etc/os-release."""


def how_to_install(*, loader: bool = False, driver: bool = False) -> str:
    """The command that installs the Vulkan loader, a driver, or both, on this system."""
    known = _distribution()
    what = " and ".join(["the Vulkan loader"] * loader + ["a Vulkan driver"] * driver)
    if known is None:
        return f"install {what} with the packages of this system"
    command = " ".join([known.install, *[known.loader] * loader, *[known.software] * driver])
    for_gpus = f" (for a GPU: {known.gpus}, or its vendor's driver)" if driver and known.gpus else ""
    return f"install {what} with: {command}{for_gpus}"


def _distribution() -> _Distribution | None:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return None
    names = [release["ID"], *release.get("ID_LIKE", "").split()]
    return next((DISTRIBUTIONS[name] for name in names if name in DISTRIBUTIONS), None)


def has_software_device(manifests: Iterable[Path]) -> bool:
    """Whether Mesa's software device is among the drivers of these manifests."""
    return any(path.name.startswith(_SOFTWARE) for path in manifests)


def why_no_gpu(manifests: Iterable[Path]) -> str:
    """The reason why the drivers of these manifests do not reach GPUs; empty if none is known."""
    return _why_no_devices() if any(path.name.startswith(_NEED_DEVICES) for path in manifests) else ""


def _why_no_devices() -> str:
    try:
        nodes = sorted(_DEVICES / name for name in os.listdir(_DEVICES) if name.startswith(_RENDER_NODE))
        closed = [f"{node} (group {_group(node)})" for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    except FileNotFoundError:
        return f"there is no {_DEVICES}"
    except OSError as error:
        return f"{_DEVICES} can't be read ({error.strerror})"
    if closed:
        return f"this user may not open {', '.join(closed)}"
    return "" if nodes else f"{_DEVICES} has no render node"


def _group(path: Path) -> str:
    """The name of a file's group, or its number if it has no name."""
    number = path.stat().st_gid
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
