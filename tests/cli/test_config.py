from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nnvk.serve import installed


def test_flags_for_compilers(nnvk_command: Callable[..., Any]) -> None:
    (line,) = nnvk_command("config", "--includes", "--ldflags").stdout.splitlines()
    include, folder, _, library, _, runpath = line.split()
    assert Path(include.removeprefix("-I"), "android", "NeuralNetworks.h").is_file()
    assert Path(folder.removeprefix("-L"), "libneuralnetworks.so").is_file()
    assert (library, runpath) == ("-lneuralnetworks", "-Wl,-rpath," + folder.removeprefix("-L"))


def test_flags_may_come_before_the_program(nnvk_command: Callable[..., Any], tmp_path: Path) -> None:
    """Also where the linker takes only what is needed by then."""
    if not shutil.which("cc"):
        pytest.skip("there is no compiler")
    source = tmp_path / "program.c"
    source.write_text(
        "#include <android/NeuralNetworks.h>\n"
        "int main(void) { return ANeuralNetworks_getRuntimeFeatureLevel() != ANEURALNETWORKS_FEATURE_LEVEL_8; }\n"
    )
    flags = nnvk_command("config", "--includes", "--ldflags").stdout.split()
    program = tmp_path / "program"
    subprocess.run(["cc", "-Wl,--as-needed", *flags, source, "-o", program], check=True, timeout=100)
    subprocess.run([program], check=True, timeout=100)


def test_the_library(nnvk_command: Callable[..., Any]) -> None:
    assert Path(nnvk_command("config", "--library").stdout.strip()).is_file()


def test_the_delegate(nnvk_command: Callable[..., Any]) -> None:
    assert Path(nnvk_command("config", "--delegate").stdout.strip()).name == "libnnvk_delegate.so"


def test_the_accelerator(nnvk_command: Callable[..., Any]) -> None:
    folder = Path(nnvk_command("config", "--accelerator").stdout.strip())
    assert (folder / "libLiteRtGpuAccelerator.so").is_file()


def test_the_provider(nnvk_command: Callable[..., Any]) -> None:
    provider = Path(nnvk_command("config", "--onnxruntime").stdout.strip())
    assert provider.name == "libnnvk_onnxruntime.so"
    assert provider.is_file()


@pytest.mark.parametrize("chosen", [None, "/elsewhere/nnvk"])
def test_the_server_of_an_environment_that_is_not_activated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    """The libraries of an editable installation do not lie in the environment, which has the command."""
    (tmp_path / "nnvk").touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("NNVK_SERVER", chosen or "")
    if chosen is None:
        monkeypatch.delenv("NNVK_SERVER")
    installed.name_server()
    assert os.environ["NNVK_SERVER"] == (chosen or str(tmp_path / "nnvk"))


def test_pkg_config(nnvk_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = nnvk_command("config", "--pkg-config").stdout.strip()
    assert Path(folder, "neuralnetworks.pc").is_file()
    if shutil.which("pkg-config"):
        monkeypatch.setenv("PKG_CONFIG_PATH", folder)
        asked = ["pkg-config", "--cflags", "--libs", "neuralnetworks"]
        flags = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        includes = next(Path(flag[2:]) for flag in flags if flag.startswith("-I"))
        assert (includes / "android" / "NeuralNetworks.h").is_file()


def test_nothing_asked_for(nnvk_command: Callable[..., Any]) -> None:
    assert nnvk_command("config").exit_code == 2


def test_a_library_that_was_not_built(
    nnvk_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(installed, "LIBRARY", tmp_path / "none.so")
    result = nnvk_command("config", "--library")
    assert result.exit_code == 2 and "was not built" in result.stderr
