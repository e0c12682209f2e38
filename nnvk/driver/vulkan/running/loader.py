"""What the Vulkan loader looks for: the manifests of drivers (ICDs), one file each, and what is wrong with them.

The loader says nothing of a driver that it can't load, and one manifest that is no JSON keeps it from all drivers.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnvk import _native as native

_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
"""Name the manifests, in place of folders that are searched; the first that is set counts."""
_FOLDER = "vulkan/icd.d"
_ENTRY_POINTS = ("vk_icdGetInstanceProcAddr", "vk_icdNegotiateLoaderICDInterfaceVersion", "vkGetInstanceProcAddr")
_OTHER_ARCHITECTURE = "wrong ELF class"
"""What dlopen says of drivers for 32-bit programs, which lie in the same folders."""
_LARGEST_MANIFEST = 1 << 20


def create_instance(create: Callable[[], native.Instance]) -> tuple[native.Instance, str]:
    """An instance, made without the drivers whose manifests keep the others from starting, and what is wrong with them.

    RuntimeError: it can't be made.
    """
    try:
        return create(), _complaints(_broken())
    except (RuntimeError, MemoryError) as error:
        broken = _broken()
        working = [path for path in _manifests() if path not in broken]
        reason = "; ".join(filter(None, (str(error), _complaints(broken))))
        if not broken or not working:
            raise RuntimeError(reason) from error
        try:
            with _environment(dict.fromkeys(_VARIABLES, os.pathsep.join(map(str, working)))):
                return create(), _complaints(broken)
        except (RuntimeError, MemoryError):
            raise RuntimeError(reason) from error


def _manifests() -> list[Path]:
    """The manifests that the loader reads."""
    for variable in _VARIABLES:
        if listed := os.environ.get(variable):
            return [Path(name) for name in listed.split(os.pathsep) if name]
    home = os.environ.get("HOME", "")
    folders = chain(
        (os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config",),
        (os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep),
        ("/usr/local/etc", "/etc"),
        (os.environ.get("XDG_DATA_HOME") or f"{home}/.local/share",),
        (os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(os.pathsep),
    )
    return [path for folder in folders for path in sorted((Path(folder) / _FOLDER).glob("*.json"))]


def _broken() -> dict[Path, str]:
    """What is wrong with manifests, or the drivers that they name."""
    return {path: complaint for path in _manifests() if (complaint := _complaint(path))}


def _complaints(broken: Mapping[Path, str]) -> str:
    return "; ".join(f"the Vulkan driver of {path} can't be used: {complaint}" for path, complaint in broken.items())


def _complaint(path: Path) -> str:
    """Empty where the driver can be loaded."""
    try:
        if not path.is_file():
            return "there is no such file"
        with path.open("rb") as file:
            content = file.read(_LARGEST_MANIFEST)
        if not content.strip():
            return "the file is empty"
        library = json.loads(content)["ICD"]["library_path"]
    except OSError as error:
        return error.strerror or str(error)
    except (ValueError, RecursionError) as error:
        return f"the file is no JSON: {error}"
    except (LookupError, TypeError):
        return "the file names no library ('ICD', 'library_path')"
    if not isinstance(library, str) or not library:
        return f"the file names no library, but {library!r}"
    return _library_complaint(str(path.parent / library) if "/" in library else library)


def _library_complaint(library: str) -> str:
    try:
        loaded = ctypes.CDLL(library)  # the loader has loaded it, if that is possible
    except (OSError, ValueError) as error:
        return "" if _OTHER_ARCHITECTURE in str(error) else str(error)
    return "" if any(hasattr(loaded, name) for name in _ENTRY_POINTS) else f"{library} is no Vulkan driver"


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for a time."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
