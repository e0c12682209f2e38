"""Mesa's driver RADV with a GPU that the machine does not have, and the program that compiles pipelines with it.

Mesa has two ways to offer such a GPU. One is RADV's null device (RADV_FORCE_FAMILY), which Mesa 26.2 no longer has.
The other is the drm shim: a library to preload that stands for the kernel's driver (AMDGPU_GPU_ID).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpus import Gpu

SHIM = "libamdgpu_noop_drm_shim.so"
"""Mesa's drm shim for AMD. Commands that are sent to its GPU do nothing."""
_FOLDERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
_OLDEST = "vega10"
"""A GPU that the null device of every Mesa has."""


class Missing(Exception):
    """Something has to be installed, or is too old."""


@dataclass(frozen=True)
class Driver:
    """RADV with one device: a GPU that the machine does not have."""

    manifest: Path
    variables: Mapping[str, str]
    """Environment variables that make RADV offer the GPU."""
    version: str
    """Mesa's."""

    @property
    def environment(self) -> dict[str, str]:
        """All environment variables of a process that has this Vulkan device and no other."""
        return _environment(self.manifest, self.variables)


def _environment(manifest: Path, variables: Mapping[str, str]) -> dict[str, str]:
    # Debian 12's loader reads both variables, older ones VK_ICD_FILENAMES alone, and VK_DRIVER_FILES comes first.
    own = {"VK_ICD_FILENAMES": str(manifest), "VK_DRIVER_FILES": str(manifest), "NNVK_DEVICE_PROFILE": ""}
    return {**os.environ, **own, **variables}


def manifest(given: Path | None = None) -> Path:
    """RADV's manifest: the given file, or that of Debian's package.

    Its name has the machine's architecture in it on Debian 12, and no longer on Debian 13.
    """
    names = (f"radeon_icd.{platform.machine()}.json", "radeon_icd.json")
    places = [given] if given else [Path(folder) / name for folder in _FOLDERS for name in names]
    found = next((place for place in places if place.exists()), None)
    if found is None:
        where = given or f"{_FOLDERS[0]}/{{{','.join(names)}}}"
        raise Missing(f"RADV's manifest is not there: {where} (Debian's package mesa-vulkan-drivers has it)")
    return found


def compiler(folder: Path) -> Path:
    """The program that compiles pipelines. It is built if the folder does not have it."""
    source = Path(__file__).with_name("radv_isa.c")
    program = folder / f"radv_isa-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if not program.exists():
        cc = shutil.which("cc")
        if cc is None:
            raise Missing("there is no C compiler, cc (Debian's package gcc has one)")
        folder.mkdir(parents=True, exist_ok=True)
        command = [cc, "-O1", "-o", str(program), str(source), "-lvulkan"]
        done = subprocess.run(command, capture_output=True, text=True)
        if "vulkan/vulkan.h" in done.stderr or "-lvulkan" in done.stderr:
            raise Missing("Vulkan's headers are not there (Debian's package libvulkan-dev has them)")
        _check(command, done)
    return program


def find(gpu: Gpu, program: Path, file: Path) -> Driver:
    """RADV with a GPU: the null device if this Mesa has one, else the drm shim.

    ``program`` is what `compiler` built, ``file`` is RADV's manifest. `Missing` says which Mesa or package is needed.
    """
    errors = ""
    for name in gpu.names:
        variables = {"RADV_FORCE_FAMILY": name}
        device, version, errors = _ask(program, file, variables)
        if device.startswith("Null hardware"):  # any other device is a GPU that the machine has
            return Driver(file, variables, version)
    if "Unknown family" in errors:
        _, version, _ = _ask(program, file, {"RADV_FORCE_FAMILY": _OLDEST})
        raise Missing(f"{version} does not compile for {gpu.name}: Mesa {gpu.mesa} or later does")
    variables = {"AMDGPU_GPU_ID": gpu.name, "LD_PRELOAD": f"{SHIM} {os.environ.get('LD_PRELOAD', '')}".strip()}
    device, version, errors = _ask(program, file, variables)
    if any(device.endswith(f"(RADV {name.upper()})") for name in gpu.names):
        return Driver(file, variables, version)
    if "cannot be preloaded" in errors:
        raise Missing(f"this Mesa has no null device and needs {SHIM} (Debian's package mesa-drm-shim has it)")
    if "Failed to find amdgpu GPU" in errors:
        raise Missing(f"{SHIM} of this Mesa does not have {gpu.name}; Mesa 25.0 compiles for it and needs no shim")
    raise Missing(f"RADV with {SHIM} does not offer {gpu.name} but {device or errors.strip() or 'nothing'}: {file}")


def _ask(program: Path, file: Path, variables: Mapping[str, str]) -> tuple[str, str, str]:
    """The name of RADV's first device, the driver's version, and what was written to standard error."""
    command = [str(program), os.devnull]  # without jobs the program writes no files
    done = subprocess.run(command, env=_environment(file, variables), input="", capture_output=True, text=True)
    if done.returncode != 0:
        return "", "", done.stderr
    said = json.loads(done.stdout.splitlines()[0])
    return said["device"], said["driver"], done.stderr


def call(command: Sequence[str], variables: Mapping[str, str], text: str | None = None) -> str:
    """Run a command and return its standard output. If it fails, this process ends with its error."""
    done = subprocess.run(command, env=variables, input=text, capture_output=True, text=True)
    _check(command, done)
    return done.stdout


def _check(command: Sequence[str], done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0:
        sys.exit(f"{command[0]} {' '.join(command[1:4])}: {done.stderr.strip() or done.stdout.strip()}")
