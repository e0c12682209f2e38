"""The manifests of drivers (ICDs) that the Vulkan loader looks for, one file each, and their faults.

The loader does not report a driver that it cannot load. One manifest that is not JSON keeps it from all drivers, and so
does one driver that fails to list its devices.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

_LISTS = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
"""Variables that name manifests, and folders of manifests, instead of the searched ones.

The first variable that is set applies, even if it is empty.
"""
_MORE = "VK_ADD_DRIVER_FILES"
"""The variable that names manifests, and folders of manifests, in addition to the searched ones."""
_FILTERS = ("VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE")
"""Variables with patterns for the names of manifests whose drivers are the only ones loaded, or are not loaded."""
_OF_SYSTEM = ("/usr/local/etc", "/etc")
_FOLDER = "vulkan/icd.d"
_SUFFIX = ".json"
_ENTRY_POINTS = ("vk_icdGetInstanceProcAddr", "vk_icdNegotiateLoaderICDInterfaceVersion", "vkGetInstanceProcAddr")
_WRONG_ARCHITECTURE = "wrong ELF class"
"""The message of dlopen for drivers of 32-bit programs, which lie in the same folders."""
_OTHER_PROGRAMS = "it is for programs of another architecture"
_LARGEST_MANIFEST = 1 << 20

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Alone(Generic[Made]):
    """The result of starting the driver of a manifest without the others."""

    manifest: Path
    made: Made | None
    """None if it does not start."""
    failure: str
    """The reason why it does not start; empty if it does."""


def start(create: Callable[[], Made], is_useful: Callable[[Made], bool]) -> tuple[Made, str]:
    """The result of ``create`` with all drivers, and the faults of unusable drivers.

    If ``create`` fails, or its result is not useful, it is called again with only the drivers that are useful alone.
    RuntimeError: ``create`` fails with all of them.
    """
    made, error = _attempt(create)
    if made is not None and is_useful(made):
        return made, _problems(_broken())
    each = start_each(create)
    useful = [one.manifest for one in each if one.made is not None and is_useful(one.made)]
    if 0 < len(useful) < len(each):
        with _drivers(useful):
            again, _ = _attempt(create)
        if again is not None:
            failing = {one.manifest: one.failure for one in each if one.failure not in ("", _OTHER_PROGRAMS)}
            return again, _problems(failing)
    problems = _problems(_broken())
    if made is None:
        raise RuntimeError("; ".join(filter(None, (str(error), problems)))) from error
    return made, problems


def _attempt(create: Callable[[], Made]) -> tuple[Made | None, Exception | None]:
    """The result, or the error instead."""
    try:
        return create(), None
    except (RuntimeError, MemoryError) as error:
        return None, error


def start_each(create: Callable[[], Made]) -> list[Alone[Made]]:
    """The result of ``create`` with each of the drivers alone."""
    return [_alone(create, path) for path in manifests()]


def listed_by() -> str:
    """The environment variable that names the drivers; empty if they are searched."""
    return next((variable for variable in _LISTS if variable in os.environ), "")


def manifests() -> list[Path]:
    """The manifests that the loader reads. Unreadable folders have none."""
    if variable := listed_by():
        return _named(os.environ[variable])
    folders = (
        _of_user("XDG_CONFIG_HOME", ".config"),
        *(os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep),
        *_OF_SYSTEM,
        _of_user("XDG_DATA_HOME", ".local/share"),
        *(os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(os.pathsep),
    )
    searched = [path for folder in folders if folder for path in _inside(Path(folder) / _FOLDER)]
    return [*_named(os.environ.get(_MORE, "")), *searched]


def _of_user(variable: str, otherwise: str) -> str:
    """A folder of the user; empty if neither the variable nor HOME is set."""
    home = os.environ.get("HOME")
    return os.environ.get(variable) or (f"{home}/{otherwise}" if home else "")


def _named(listed: str) -> list[Path]:
    paths = [Path(name) for name in listed.split(os.pathsep) if name]
    return [each for path in paths for each in (_inside(path) if os.path.isdir(path) else [path])]


def _inside(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)
    except OSError:  # it is not there, or nobody may read it: the loader doesn't either
        return []
    return [folder / name for name in sorted(names) if name.endswith(_SUFFIX)]


def _alone(create: Callable[[], Made], path: Path) -> Alone[Made]:
    if problem := _problem(path):
        return Alone(path, None, problem)
    with _drivers([path]):
        made, error = _attempt(create)
    if error is None:
        return Alone(path, made, "")
    filters = [f"{variable}={os.environ[variable]}" for variable in _FILTERS if os.environ.get(variable)]
    return Alone(path, None, f"{error} ({', '.join(filters)})" if filters else str(error))


def _broken() -> dict[Path, str]:
    """The faults of manifests, or of the drivers that they name."""
    problems = {path: _problem(path) for path in manifests()}
    return {path: problem for path, problem in problems.items() if problem not in ("", _OTHER_PROGRAMS)}


def _problems(broken: Mapping[Path, str]) -> str:
    return "; ".join(f"the Vulkan driver of {path} can't be used: {problem}" for path, problem in broken.items())


def _problem(path: Path) -> str:
    """The fault of the driver; empty if it can be loaded."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return "it is no file"
        with path.open("rb") as file:
            content = file.read(_LARGEST_MANIFEST)
        if not content.strip():
            return "the file is empty"
        library = json.loads(content)["ICD"]["library_path"]
    except FileNotFoundError:
        return "there is no such file"
    except OSError as error:
        return error.strerror or str(error)
    except (ValueError, RecursionError) as error:
        return f"the file is no JSON: {error}"
    except (LookupError, TypeError):
        return "the file names no library ('ICD', 'library_path')"
    if path.suffix != _SUFFIX:
        return f"the loader reads no manifest whose name does not end in {_SUFFIX}"
    if not isinstance(library, str) or not library:
        return f"the file names no library, but {library!r}"
    return _library_problem(str(path.parent / library) if "/" in library else library)


def _library_problem(library: str) -> str:
    try:
        loaded = ctypes.CDLL(library)  # the loader has loaded it, if that is possible
    except (OSError, ValueError) as error:
        return _OTHER_PROGRAMS if _WRONG_ARCHITECTURE in str(error) else str(error)
    return "" if any(hasattr(loaded, name) for name in _ENTRY_POINTS) else f"{library} is no Vulkan driver"


@contextmanager
def _drivers(paths: Iterable[Path]) -> Iterator[None]:
    """Restrict the loader to these drivers inside a with statement."""
    before = {name: os.environ.get(name) for name in _LISTS}
    os.environ.update(dict.fromkeys(_LISTS, os.pathsep.join(map(str, paths))))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
