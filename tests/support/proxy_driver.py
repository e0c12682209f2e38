"""A Vulkan driver that is another one with wrong answers: `proxy_driver.c`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from nnvk import _native
from nnvk.driver.vulkan.running import loader

_SOURCE = Path(__file__).with_suffix(".c")
_HEADER = "#include <vulkan/vk_icd.h>\n"


def working_driver() -> Path:
    """The manifest of a driver of this machine that has a device. Skips where there is none."""
    for one in loader.start_each(lambda: _native.Instance().physical_devices()):
        if one.made:
            return one.manifest
    pytest.skip("there is no Vulkan driver that has a device")


def build_proxy(folder: Path) -> Path:
    """Compile the proxy of a driver that works here, and return its manifest.

    It does what variables of the environment say (`PROXY_DRIVER` must be set by `proxy_environment`). Skips as
    `build_driver`.
    """
    return build_driver(_SOURCE, folder, "cc", "-std=c11", "-D_GNU_SOURCE")


def build_driver(source: Path, folder: Path, compiler: str, *options: str) -> Path:
    """Compile a driver, and return its manifest, which is in the folder of its library.

    Skips where there is no compiler, no header of Vulkan's drivers, or no driver.
    """
    if shutil.which(compiler) is None:
        pytest.skip("there is no compiler")
    probe = subprocess.run([compiler, "-x", "c", "-fsyntax-only", "-"], input=_HEADER, text=True, capture_output=True)
    if probe.returncode:
        pytest.skip("there are no headers of Vulkan (libvulkan-dev)")
    library = folder / f"lib{source.stem}.so"
    common = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden"]
    built = subprocess.run([compiler, *options, *common, "-o", library, source], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    manifest = folder / f"{source.stem}.json"
    icd = {"library_path": str(library), "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))
    return manifest


def library_of(driver: Path) -> str:
    """The library that a manifest names."""
    library = str(json.loads(driver.read_text())["ICD"]["library_path"])
    return str(driver.parent / library) if "/" in library else library


def proxy_environment(proxy: Path, driver: Path, **answers: object) -> dict[str, str]:
    """The variables for a machine with the drivers of two manifests: the proxy, and the driver that it stands for.

    ``answers`` are variables of `proxy_driver.c`, without their prefix and in lower case.
    """
    settings = {"driver": library_of(driver), **answers}
    return {
        "VK_DRIVER_FILES": f"{proxy}:{driver}",
        "VK_ICD_FILENAMES": f"{proxy}:{driver}",
        **{f"PROXY_{name.upper()}": str(value) for name, value in settings.items()},
    }
