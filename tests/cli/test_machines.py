"""nnvk where users have no home, and where nothing can be written: it works, and keeps what it can."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from machines import ENVIRONMENTS, NOWHERE, absent_beside, locked_folder, on_disk, run
from terminal import SEPARATOR, apart, together

from nnvk import get_devices
from nnvk.demo.assets import DATA

__all__ = ["locked_folder"]

MODEL = str(DATA / "digits_int8.tflite")
NAMES = [device.name for device in get_devices()]
PATHS = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
NNVK = [sys.executable, "-m", "nnvk.cli"]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_devices_are_listed_and_models_run(name: str, locked_folder: str) -> None:
    calls = [["devices"], ["devices", "--all"], ["run", MODEL, "--json"]]
    done = run(together(calls), {**PATHS, **ENVIRONMENTS[name](locked_folder)})
    assert (done.returncode, done.stderr) == (0, "")
    *listed, printed = apart(done.stdout)
    assert all(name in text for name in NAMES for text in listed)
    assert [device["name"] for device in json.loads(printed)["devices"]] == NAMES
    assert not Path(absent_beside(locked_folder)).exists()


@pytest.mark.parametrize("name", ["a home that is locked", "no folder for temporary files"])
def test_a_driver_in_a_process_of_its_own(name: str, locked_folder: str) -> None:
    changes = {**PATHS, "NNVK_DRIVER_PROCESS": "1", **ENVIRONMENTS[name](locked_folder)}
    done = run([*NNVK, "run", MODEL, "--json"], changes)
    assert (done.returncode, done.stderr) == (0, "")
    assert [device["name"] for device in json.loads(done.stdout)["devices"]] == NAMES


def test_a_current_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    calls = together([["devices"], ["run", MODEL], ["info", MODEL]])
    done = run(["sh", "-c", script, tmp_path / "gone", *calls], {**PATHS, "HOME": str(tmp_path)})
    assert (done.returncode, done.stderr, len(apart(done.stdout))) == (0, "", 3)


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
    ("kind", "reason", "changes"),
    [
        ("full", "No space left on device", {"HOME": "{}"}),
        ("read-only", "Read-only file system", {"HOME": NOWHERE, "NNVK_CACHE_DIR": "{}"}),
    ],
    ids=["full", "read-only"],
)
def test_disks(kind: str, reason: str, changes: Mapping[str, str], tmp_path: Path) -> None:
    place = str(tmp_path)
    environment = {**PATHS, "TMPDIR": place, **{name: value.format(place) for name, value in changes.items()}}
    done = run(on_disk(kind, tmp_path, [sys.executable, "-c", KEEP]), {"NNVK_VLOG": "driver", **environment})
    assert done.returncode == 0, done.stderr
    assert f"{WARNING}can't be kept in {place}/" in done.stderr
    assert f"nnvk.driver: the pipelines can't be kept in {place}/" in done.stderr
    assert done.stderr.count(reason) == 2
    done = run(on_disk(kind, tmp_path, [*NNVK, "run", MODEL]), environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("kind", "error", "of_map"),
    [
        ("full", "no space left on device", "x/map.json"),
        ("read-only", "can't be written (read-only file system)", "x"),
    ],
    ids=["full", "read-only"],
)
def test_what_was_asked_for_is_an_error(kind: str, error: str, of_map: str, tmp_path: Path) -> None:
    calls = [
        ["run", MODEL, "--out", f"{tmp_path}/x.npz", "--device", "cpu"],
        ["info", MODEL, f"--json={tmp_path}/x.json", "--device", "cpu"],
        ["map", MODEL, DATA, "--out", f"{tmp_path}/x", "--device", "cpu"],
    ]
    done = run(on_disk(kind, tmp_path, together(calls)), {**PATHS, "HOME": NOWHERE})
    assert done.stdout.count(f"{SEPARATOR}2\n") == len(calls)
    # ONNX Runtime, which `map` imports, may warn that it has no home folder either.
    errors = [line for line in done.stderr.splitlines() if line.startswith("nnvk: ")]
    assert errors == [f"nnvk: {error}: {tmp_path}/{name}" for name in ("x.npz", "x.json", of_map)]


def test_folders_that_this_user_may_not_write(locked_folder: str) -> None:
    names = [f"{locked_folder}/{name}" for name in ("x.npz", "y/x.npz", "x")]
    calls = [*(["run", MODEL, "--out", name] for name in names[:2]), ["info", MODEL, f"--json={names[2]}"]]
    done = run(together(calls), {**PATHS, "HOME": NOWHERE})
    assert done.stdout == f"{SEPARATOR}2\n" * 3
    assert done.stderr.splitlines() == [f"nnvk: permission denied: {name}" for name in names]


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
