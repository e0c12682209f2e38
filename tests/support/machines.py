"""Environments in which users have no home folder, nothing can be written, or folders can't even be read."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from unprivileged import locked, unprivileged

_OF_USER = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
_OF_SYSTEM = {"XDG_CONFIG_DIRS": "/etc/xdg", "XDG_DATA_DIRS": "/usr/local/share:/usr/share"}
_TEMPORARY = ("TMPDIR", "TEMP", "TMP")
NOWHERE = "/proc/nonexistent"
"""A folder that is not there, and that not even root can make."""

Variables = Mapping[str, str]


def absent_beside(folder: str) -> str:
    """A folder that is not there, and that root can make."""
    return f"{folder}.absent"


def _xdg(folder: str) -> Variables:
    """Every folder of XDG is there, those of the system first there."""
    return dict.fromkeys(_OF_USER, folder) | {name: f"{folder}:{others}" for name, others in _OF_SYSTEM.items()}


ENVIRONMENTS: Mapping[str, Callable[[str], Variables]] = {
    "a home that is locked": lambda locked: {"HOME": locked},
    "a home in a locked folder": lambda locked: {"HOME": f"{locked}/home"},
    "a home that is not there": lambda locked: {"HOME": absent_beside(locked)},
    "a home that can't be made": lambda locked: {"HOME": NOWHERE},
    "a home that is a file": lambda locked: {"HOME": "/etc/passwd"},
    "a home that is relative": lambda locked: {"HOME": "home"},
    "an empty home": lambda locked: {"HOME": ""},
    "no home": lambda locked: {},
    "XDG folders that are locked": lambda locked: {"HOME": locked, **_xdg(locked)},
    "XDG folders that are not there": lambda locked: {"HOME": NOWHERE, **_xdg(NOWHERE)},
    "a locked folder for temporary files": lambda locked: {"HOME": locked, **dict.fromkeys(_TEMPORARY, locked)},
    "no folder for temporary files": lambda locked: {"HOME": NOWHERE, **dict.fromkeys(_TEMPORARY, NOWHERE)},
    "a locked folder for caches": lambda locked: {"HOME": NOWHERE, "NNVK_CACHE_DIR": locked},
    "no folder for caches": lambda locked: {"HOME": NOWHERE, "NNVK_CACHE_DIR": f"{NOWHERE}/nnvk"},
}
"""Variables by what they stand for, from the path of a folder that nobody may enter."""

_MOUNT = "mount -t tmpfs -o size=16k,mode=0777"
DISKS = {
    "full": f'{_MOUNT} tmpfs "$0" && {{ dd if=/dev/zero of="$0/all" bs=4k 2>/dev/null; true; }}',
    "read-only": f'{_MOUNT},ro tmpfs "$0"',
}
"""Shell commands that make the folder ``$0`` a disk."""


@pytest.fixture(scope="module")
def locked_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A folder that nobody may enter."""
    with locked(tmp_path_factory.mktemp("machine") / "locked") as folder:
        yield str(folder)


def variables(changes: Variables) -> dict[str, str]:
    """The environment of this process without what says where things are kept, and with these variables."""
    ours = ("HOME", "NNVK_CACHE_DIR", *_OF_USER, *_OF_SYSTEM, *_TEMPORARY)
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    # Mesa says on standard error that it can't keep shaders where it would by itself. That is its own affair.
    return {**kept, "MESA_SHADER_CACHE_DIR": _shaders(), **changes}


@cache
def _shaders() -> str:
    """A folder for the shaders that Mesa compiles, for all users."""
    folder = TemporaryDirectory(prefix="nnvk-shaders-")
    atexit.register(folder.cleanup)
    Path(folder.name).chmod(0o777)
    return folder.name


def run(command: Sequence[str | Path], changes: Variables) -> subprocess.CompletedProcess[str]:
    """Run a command without privileges, with these variables in place of this process's own."""
    words, environment = unprivileged(command), variables(changes)
    return subprocess.run(words, env=environment, cwd="/", capture_output=True, text=True, timeout=200)


def on_disk(kind: str, folder: Path, command: Sequence[str | Path]) -> list[str]:
    """A command for which, and for which alone, the folder is a disk of `DISKS`. Skips where nothing can be mounted."""
    script = f'{DISKS[kind]} && exec "$@"'
    unshare = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    words = [*unshare, "sh", "-c", script, str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    return [*words, *map(str, command)]
