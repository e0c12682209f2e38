"""nnvk where users have no home, and where nothing can be written: it works, and keeps what it can."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from machines import ENVIRONMENTS, NOWHERE, absent_beside, locked_folder, on_disk, run

from nnvk import get_devices
from nnvk.demo.assets import DATA

__all__ = ["locked_folder"]

MODEL = str(DATA / "digits_int8.tflite")
NAMES = [device.name for device in get_devices()]
PATHS = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
NNVK = [sys.executable, "-m", "nnvk.cli"]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_models_run(name: str, locked_folder: str) -> None:
    """Also in the environments in which `nnvk devices` is tested: the document has the devices."""
    done = run([*NNVK, "run", MODEL, "--json"], {**PATHS, **ENVIRONMENTS[name](locked_folder)})
    assert (done.returncode, done.stderr) == (0, "")
    assert [device["name"] for device in json.loads(done.stdout)["devices"]] == NAMES
    assert not Path(absent_beside(locked_folder)).exists()


@pytest.mark.parametrize("name", ["a home that is locked", "no home", "XDG folders that are locked"])
def test_devices_are_listed(name: str, locked_folder: str) -> None:
    for words in (["devices"], ["devices", "--all"]):
        done = run([*NNVK, *words], {**PATHS, **ENVIRONMENTS[name](locked_folder)})
        assert (done.returncode, done.stderr) == (0, "")
        assert all(name in done.stdout for name in NAMES)


@pytest.mark.parametrize("name", ["a home that is locked", "no folder for temporary files"])
def test_a_driver_in_a_process_of_its_own(name: str, locked_folder: str) -> None:
    changes = {**PATHS, "NNVK_DRIVER_PROCESS": "1", **ENVIRONMENTS[name](locked_folder)}
    done = run([*NNVK, "run", MODEL, "--json"], changes)
    assert (done.returncode, done.stderr) == (0, "")
    assert [device["name"] for device in json.loads(done.stdout)["devices"]] == NAMES


@pytest.mark.parametrize("words", [["devices"], ["run", MODEL], ["info", MODEL]], ids=lambda words: words[0])
def test_a_current_folder_that_is_gone(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    program = [sys.executable, "-c", "from nnvk.cli.main import app; app()"]
    done = run(["sh", "-c", script, tmp_path / "gone", *program, *words], {**PATHS, "HOME": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")


KEEP = """
import numpy as np
from nnvk.driver.vulkan import find_devices
from nnvk.driver.vulkan.running.pipeline_cache import PipelineCache

class Device:
    pipelines_compiled = 1
    def pipeline_cache_data(self, others):
        return bytes(100)

device = find_devices()[0][0]
device.planner.autotune_results.add({"question": "answer"})
assert device.planner.autotune_results.known == {"question": "answer"}
cache = PipelineCache(device.gpu._described)
cache.keep(Device())
assert cache.load() == b""
"""
"""This script keeps an autotune result, as `nnvk tune` does, and a pipeline cache, as a driver that has one does."""
WARNING = "nnvk.driver: what was measured "
needs_vulkan = pytest.mark.skipif(NAMES[0] != "vulkan-0", reason="there is no Vulkan device")


@needs_vulkan
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"HOME": "{}"}, "can't be kept in {}/.cache/nnvk/"),
        ({"HOME": "{}.absent"}, "is not kept: there is no home folder, and NNVK_CACHE_DIR names none"),
        ({"HOME": NOWHERE, "XDG_CACHE_HOME": "{}"}, "can't be kept in {}/nnvk/"),
        ({"HOME": NOWHERE, "NNVK_CACHE_DIR": "{}"}, "can't be kept in {}/"),
        ({"HOME": NOWHERE, "NNVK_CACHE_DIR": "/proc/nnvk"}, "can't be kept in /proc/nnvk/"),
    ],
    ids=["a locked home", "no home", "a locked XDG folder", "a locked folder", "no folder"],
)
def test_what_can_not_be_kept_is_logged(changes: Mapping[str, str], reason: str, locked_folder: str) -> None:
    environment = {name: value.format(locked_folder) for name, value in changes.items()}
    done = run([sys.executable, "-c", KEEP], {**PATHS, "NNVK_VLOG": "driver", **environment})
    assert done.returncode == 0, done.stderr
    assert f"{WARNING}{reason.format(locked_folder)}" in done.stderr
    assert ("nnvk.driver: the pipelines can't be kept in " in done.stderr) == ("can't" in reason)


@needs_vulkan
@pytest.mark.parametrize(
    ("kind", "reason"), [("full", "No space left on device"), ("read-only", "Read-only file system")]
)
def test_disks(kind: str, reason: str, tmp_path: Path) -> None:
    place = str(tmp_path)
    for changes in ({"HOME": place, "TMPDIR": place}, {"HOME": NOWHERE, "NNVK_CACHE_DIR": place, "TMPDIR": place}):
        done = run(on_disk(kind, tmp_path, [sys.executable, "-c", KEEP]), {**PATHS, "NNVK_VLOG": "driver", **changes})
        assert done.returncode == 0, done.stderr
        assert f"{WARNING}can't be kept in {place}/" in done.stderr
        assert f"nnvk.driver: the pipelines can't be kept in {place}/" in done.stderr
        assert done.stderr.count(reason) == 2
        done = run(on_disk(kind, tmp_path, [*NNVK, "run", MODEL]), {**PATHS, **changes})
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("kind", "words", "error"),
    [
        ("full", ["run", MODEL, "--out", "{}/x.npz"], "no space left on device: {}/x.npz"),
        ("full", ["info", MODEL, "--json={}/x"], "no space left on device: {}/x"),
        ("full", ["map", MODEL, str(DATA), "--out", "{}/x"], "no space left on device: {}/x/map.json"),
        ("read-only", ["run", MODEL, "--out", "{}/x.npz"], "can't be written (read-only file system): {}/x.npz"),
        ("read-only", ["info", MODEL, "--json={}/x"], "can't be written (read-only file system): {}/x"),
        ("read-only", ["map", MODEL, str(DATA), "--out", "{}/x"], "can't be written (read-only file system): {}/x"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_what_was_asked_for_is_an_error(kind: str, words: list[str], error: str, tmp_path: Path) -> None:
    command = on_disk(kind, tmp_path, [*NNVK, *(word.format(tmp_path) for word in words), "--device", "cpu"])
    done = run(command, {**PATHS, "HOME": NOWHERE})
    assert done.returncode == 2
    # ONNX Runtime, which `map` imports, may warn that it has no home folder either.
    assert done.stderr.splitlines()[-1] == f"nnvk: {error.format(tmp_path)}"


@pytest.mark.parametrize(
    "words",
    [
        ["run", MODEL, "--out", "{}/x.npz"],
        ["run", MODEL, "--out", "{}/y/x.npz"],
        ["info", MODEL, "--json={}/x"],
    ],
    ids=["output", "output in a folder", "json"],
)
def test_folders_that_this_user_may_not_write(words: list[str], locked_folder: str) -> None:
    named = words[-1].format(locked_folder).rpartition("=")[2]
    done = run([*NNVK, *(word.format(locked_folder) for word in words)], {**PATHS, "HOME": NOWHERE})
    assert (done.returncode, done.stderr) == (2, f"nnvk: permission denied: {named}\n")


def test_a_user_without_an_entry(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As in containers that run as a number that their system does not know."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    changer = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--"]
    command = [*changer, *NNVK, "run", MODEL, "--json"]
    if run([*changer, sys.executable, "-c", "import nnvk"], PATHS).returncode:
        pytest.skip("this user can't read the interpreter or nnvk")
    changes: Mapping[str, str]
    for changes in ({}, {"HOME": ""}, {"HOME": NOWHERE}):
        done = run(command, {**PATHS, **changes})
        assert (done.returncode, done.stderr) == (0, "")
        assert [device["name"] for device in json.loads(done.stdout)["devices"]] == NAMES
