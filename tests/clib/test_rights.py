"""Programs with more rights than their caller (set-user-ID): what the caller says counts for nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from c_library import build

from nnvk.serve.installed import LIBRARY

NOBODY = 65534
PROGRAM = """
#include <android/NeuralNetworks.h>
#include <stdio.h>
int main(void) {
  uint32_t count = 0;
  const int code = ANeuralNetworks_getDeviceCount(&count);
  printf("%d %u\\n", code, count);
  return 0;
}
"""
NOTES_ITS_ENVIRONMENT = (
    '#!/bin/sh\nenv > "${0%/bin/nnvk}/environment"\n'  # with the caller's rights: sh drops the others
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make set-user-ID programs of another user")


@pytest.fixture
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with lib/, a copy of the library, and bin/, a set-user-ID program of root's that uses it."""
    if os.statvfs("/tmp").f_flag & os.ST_NOSUID:
        pytest.skip("there are no set-user-ID programs in /tmp")
    source = tmp_path_factory.mktemp("source") / "count.c"
    source.write_text(PROGRAM)
    folder = Path("/tmp") / f"nnvk-rights-{os.getpid()}"  # pytest's own folders can't be entered by others
    for each in (folder, folder / "lib", folder / "bin"):
        each.mkdir()
        each.chmod(0o755)
    try:
        shutil.copy(LIBRARY, folder / "lib")
        program = build(source, folder / "bin" / "count", folder=folder / "lib")
        program.chmod(0o4755)
        (folder / "environment").touch()
        (folder / "environment").chmod(0o666)
        yield folder
    finally:
        shutil.rmtree(folder)


def write_command(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def run(prefix: Path, folder: Path) -> tuple[int, str]:
    """The result code, and what is logged, where the caller has a server in its folder, and says so in every way."""
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    write_command(folder / "nnvk", f'#!/bin/sh\nid -u > "{folder}/ran"\n')
    os.chown(folder / "nnvk", NOBODY, NOBODY)
    environment = {
        "NNVK_SERVER": str(folder / "nnvk"),
        "PATH": f"{folder}:/usr/bin:/bin",
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder),
        "NNVK_CACHE_DIR": str(folder),
        "VK_DRIVER_FILES": str(folder / "driver.json"),
        "VK_ADD_LAYER_PATH": str(folder),
        "PYTHONPATH": str(folder),
    }
    done = subprocess.run(
        [prefix / "bin" / "count"], env=environment, capture_output=True, text=True, timeout=100, user=NOBODY
    )
    assert not (folder / "ran").exists()
    assert os.listdir(folder) == ["nnvk"]
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[0]), done.stderr


def test_the_callers_server_is_not_run(prefix: Path) -> None:
    code, log = run(prefix, prefix / "caller")
    assert code != 0
    assert "NNVK_SERVER and PATH don't count in a program with more rights than its caller" in log


def test_the_server_beside_the_library_is_told_nothing_of_the_callers(prefix: Path) -> None:
    write_command(prefix / "bin" / "nnvk", NOTES_ITS_ENVIRONMENT)
    run(prefix, prefix / "caller")
    told = dict(line.split("=", 1) for line in (prefix / "environment").read_text().splitlines())
    told = {name: value for name, value in told.items() if name not in ("PWD", "SHLVL", "_", "OLDPWD")}  # the shell's
    assert told == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "NNVK_CACHE_DIR": "0",
    }


@pytest.mark.parametrize("change", ["the file is another's", "the folder is another's", "others write", "a link"])
def test_a_server_that_others_can_replace_is_not_run(prefix: Path, change: str) -> None:
    command = prefix / "bin" / "nnvk"
    write_command(command, NOTES_ITS_ENVIRONMENT)
    if change == "the file is another's":
        os.chown(command, NOBODY, NOBODY)
    elif change == "the folder is another's":
        os.chown(command.parent, NOBODY, NOBODY)
    elif change == "others write":
        command.parent.chmod(0o777)
    else:
        command.rename(prefix / "elsewhere")
        command.symlink_to(prefix / "elsewhere")
    code, _ = run(prefix, prefix / "caller")
    assert code != 0
    assert not (prefix / "environment").read_text()


@pytest.mark.skipif(
    not any((folder / "bin" / "nnvk").exists() for folder in LIBRARY.parents),
    reason="the library is in a source tree, without a command beside it",
)
def test_the_installed_server_works(prefix: Path) -> None:
    """As far as the folders it lies in are root's alone."""
    program = build_installed(prefix)
    done = subprocess.run([program], capture_output=True, text=True, timeout=100, user=NOBODY, env={})
    assert done.returncode == 0, done.stderr
    code, count = map(int, done.stdout.split())
    assert (code == 0 and count >= 1) or "that only root can change" in done.stderr


def build_installed(prefix: Path) -> Path:
    """The program, linked with the library that is installed."""
    source = prefix / "count.c"
    source.write_text(PROGRAM)
    program = build(source, prefix / "bin" / "installed")
    program.chmod(0o4755)
    return program
