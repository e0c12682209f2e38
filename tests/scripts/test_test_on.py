"""scripts/test_on.sh refuses some arguments and users before it makes a system or mounts anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "test_on.sh"


def run(cache: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PATH": f"{path}:{os.environ['PATH']}"}
    return subprocess.run(["bash", SCRIPT, *arguments], capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.parametrize(
    "arguments", [[], ["sid", "no.whl"], ["sid", "--slow"], ["sid", "README.md", "more"], ["../sid"], [""]], ids=str
)
def test_other_arguments_print_the_usage(tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("bash scripts/test_on.sh SYSTEM ")
    assert list(tmp_path.iterdir()) == []


def test_without_root_nothing_is_tested(tmp_path: Path) -> None:
    programs, cache = tmp_path / "bin", tmp_path / "cache"
    programs.mkdir()
    cache.mkdir()
    (programs / "id").write_text("#!/bin/sh\necho 1000\n")
    (programs / "id").chmod(0o755)
    done = run(cache, "sid", "README.md", path=str(programs))
    assert (done.returncode, done.stderr) == (3, "Not tested on Debian sid: that takes root\n")
    assert list(cache.iterdir()) == []
