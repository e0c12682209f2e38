"""Broken manifests of Vulkan drivers: the other devices are there, and it is said which manifest is broken."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from proxy_driver import working_driver
from typer.testing import CliRunner

from nnvk import get_devices, unavailable
from nnvk.base.settings import override
from nnvk.cli.main import app
from nnvk.driver.vulkan import find_devices
from nnvk.driver.vulkan.running import loader
from nnvk.runtime.devices import manager

BROKEN = {
    "garbage": (b"garbage", "the file is no JSON: "),
    "cut": (b'{"ICD": {"library_path": "x"', "the file is no JSON: "),
    "binary": (bytes(range(256)), "the file is no JSON: "),
    "nested": (b"[" * 100_000, "the file is no JSON: "),
    "empty": (b"", "the file is empty"),
    "a list": (b"[]", "the file names no library"),
    "no library": (b'{"ICD": {}}', "the file names no library"),
    "a number": (b'{"ICD": {"library_path": 3}}', "the file names no library, but 3"),
    "a missing library": (
        b'{"ICD": {"library_path": "/absent/libvulkan_x.so"}}',
        "/absent/libvulkan_x.so: cannot open",
    ),
    "a missing library by name": (b'{"ICD": {"library_path": "libvulkan_x.so"}}', "libvulkan_x.so: cannot open"),
    "a missing library beside": (b'{"ICD": {"library_path": "./libx.so"}}', "libx.so: cannot open"),
    "no library but a text": (b'{"ICD": {"library_path": "/etc/passwd"}}', "/etc/passwd: "),
    "another library": (b'{"ICD": {"library_path": "libm.so.6"}}', "libm.so.6 is no Vulkan driver"),
    "none": (None, "there is no such file"),
}


@pytest.fixture
def found() -> list[str]:
    """The Vulkan devices of this machine, which its environment names."""
    return [device.version for device in find_devices()[0]]


@pytest.fixture
def manifest(tmp_path: Path) -> Callable[[str], Path]:
    """Writes one of `BROKEN`."""

    def write(what: str) -> Path:
        content, _ = BROKEN[what]
        path = tmp_path / "broken.json"
        if content is not None:
            path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("variable", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])
@pytest.mark.parametrize("what", BROKEN)
def test_the_other_drivers_are_there(
    monkeypatch: pytest.MonkeyPatch,
    found: list[str],
    manifest: Callable[[str], Path],
    what: str,
    variable: str,
    is_first: bool,
) -> None:
    paths = [str(path) for path in loader.manifests()]
    paths.insert(0 if is_first else len(paths), str(manifest(what)))
    monkeypatch.delenv("VK_DRIVER_FILES", raising=False)
    monkeypatch.setenv(variable, ":".join(paths))
    environment = dict(os.environ)
    devices, reason = find_devices()
    assert [device.version for device in devices] == found
    assert reason.startswith(f"the Vulkan driver of {manifest(what)} can't be used: ")
    assert BROKEN[what][1] in reason
    assert dict(os.environ) == environment


@pytest.mark.parametrize("what", BROKEN)
def test_the_cpu_is_there(monkeypatch: pytest.MonkeyPatch, manifest: Callable[[str], Path], what: str) -> None:
    monkeypatch.setattr(manager, "_devices", None)
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.setenv(variable, str(manifest(what)))
    assert [device.name for device in get_devices()] == ["nnapi-reference"]
    (reason,) = unavailable()
    assert reason.startswith("Vulkan does not start: ")
    assert f"the Vulkan driver of {manifest(what)} can't be used: " in reason
    assert BROKEN[what][1] in reason
    result = CliRunner().invoke(app, ["devices"])
    assert result.exit_code == 0
    assert f"not available: {reason}"[:1000] in result.stdout


def test_a_broken_manifest_in_a_folder_that_is_searched(
    monkeypatch: pytest.MonkeyPatch, found: list[str], tmp_path: Path
) -> None:
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.delenv(variable, raising=False)
    expected = [device.version for device in find_devices()[0]]
    folder = tmp_path / "vulkan" / "icd.d"
    folder.mkdir(parents=True)
    (folder / "broken.json").write_text("garbage")
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, str(tmp_path))
            devices, reason = find_devices()
        assert [device.version for device in devices] == expected
        assert f"{folder / 'broken.json'} can't be used: the file is no JSON" in reason


def test_a_manifest_for_other_programs_is_not_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Drivers for 32-bit programs lie in the same folders."""
    program = bytearray(Path("/proc/self/exe").read_bytes()[:4096])
    program[4] = 1  # EI_CLASS: 32 bits
    (tmp_path / "lib32.so").write_bytes(program)
    (tmp_path / "other.json").write_text(json.dumps({"ICD": {"library_path": "./lib32.so"}}))
    monkeypatch.setenv("VK_DRIVER_FILES", f"{tmp_path / 'other.json'}")
    assert loader._broken() == {}


def test_nothing_is_wrong_here(found: list[str]) -> None:
    assert "can't be used" not in find_devices()[1]


def test_an_error_without_a_broken_manifest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise MemoryError("vkCreateInstance: VK_ERROR_OUT_OF_HOST_MEMORY")

    monkeypatch.setattr(loader, "_broken", dict)
    with pytest.raises(RuntimeError, match=r"^vkCreateInstance: VK_ERROR_OUT_OF_HOST_MEMORY$"):
        loader.start(fail, bool)


# --- which manifests there are -----------------------------------------------------------------------------------


@pytest.fixture
def drivers(tmp_path: Path) -> Path:
    """A folder with two manifests, and a file that is none."""
    for name in ("b.json", "a.json", "notes.txt"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only folder in which manifests are searched; it is not there yet."""
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("XDG_CONFIG_DIRS", "XDG_DATA_DIRS"):
        monkeypatch.setenv(variable, str(tmp_path / "absent"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(loader, "_OF_SYSTEM", ())
    return tmp_path / "data" / "vulkan" / "icd.d"


@pytest.mark.parametrize("variable", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"])
def test_files_and_folders_that_variables_name(
    monkeypatch: pytest.MonkeyPatch, searched: Path, drivers: Path, variable: str
) -> None:
    monkeypatch.setenv(variable, f"{drivers / 'x.json'}::{drivers}")
    assert [path.name for path in loader.manifests()] == ["x.json", "a.json", "b.json"]


def test_variables_come_before_searched_folders(monkeypatch: pytest.MonkeyPatch, searched: Path, drivers: Path) -> None:
    searched.mkdir(parents=True)
    (searched / "found.json").touch()
    assert loader.manifests() == [searched / "found.json"]
    monkeypatch.setenv("VK_ADD_DRIVER_FILES", str(drivers))
    assert [path.name for path in loader.manifests()] == ["a.json", "b.json", "found.json"]
    monkeypatch.setenv("VK_ICD_FILENAMES", "/named.json")
    assert loader.manifests() == [Path("/named.json")]
    monkeypatch.setenv("VK_DRIVER_FILES", "")
    assert loader.manifests() == [], "the loader takes an empty variable for a list of no drivers"


@pytest.mark.parametrize("home", [None, "", "/nonexistent", "/etc/passwd", "x" * 5000])
def test_homes_that_have_no_drivers(monkeypatch: pytest.MonkeyPatch, searched: Path, home: str | None) -> None:
    monkeypatch.delenv("XDG_DATA_HOME")
    if home is not None:
        monkeypatch.setenv("HOME", home)
    assert loader.manifests() == []


def test_no_driver_is_installed(searched: Path) -> None:
    if any(list(Path(folder, "vulkan/icd.d").glob("*.json")) for folder in ("/usr/local/etc", "/etc")):
        pytest.skip("the loader finds drivers in a folder that no variable hides")
    with override(validation=False):  # the layer's manifest is hidden too
        devices, reason = find_devices()
    assert not devices
    assert reason.startswith("Vulkan does not start: vkCreateInstance: VK_ERROR_INCOMPATIBLE_DRIVER; install a Vulkan ")


@pytest.mark.parametrize("variable", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])
def test_a_variable_that_names_no_driver(monkeypatch: pytest.MonkeyPatch, found: list[str], variable: str) -> None:
    monkeypatch.delenv("VK_DRIVER_FILES", raising=False)
    monkeypatch.setenv(variable, "")
    devices, reason = find_devices()
    assert not devices
    assert reason.endswith(f"; {variable} names no driver")


def test_a_file_that_the_loader_does_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copied = tmp_path / "driver.txt"
    copied.write_bytes(working_driver().read_bytes())
    monkeypatch.setenv("VK_DRIVER_FILES", str(copied))
    devices, reason = find_devices()
    assert not devices
    assert f"{copied} can't be used: the loader reads no manifest whose name does not end in .json" in reason
