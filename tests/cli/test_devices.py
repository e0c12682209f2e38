"""``nnvk devices``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from nnvk import DeviceTypeCode, NnapiError, get_devices, unavailable
from nnvk.api import enumerate_vulkan
from nnvk.base.settings import override
from nnvk.cli.main import app
from nnvk.demo.assets import DATA
from nnvk.driver.cpu import CpuDevice
from nnvk.loading.devices import find_device
from nnvk.runtime.devices import manager


def test_the_table_has_every_device() -> None:
    result = CliRunner().invoke(app, ["devices"])
    assert result.exit_code == 0
    header, *rows = result.stdout.splitlines()
    assert header.split() == ["device", "type", "level", "driver", "and", "version"]
    for device, row in zip(get_devices(), rows, strict=False):
        assert row.startswith(device.name)
        assert device.type.name in row
        assert device.version in row


def test_json() -> None:
    result = CliRunner().invoke(app, ["devices", "--json"])
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert [device["name"] for device in printed["devices"]] == [device.name for device in get_devices()]
    assert printed["devices"][-1]["type"] == "CPU"
    assert printed["devices"][-1]["feature_level"] == 1000008
    assert printed["unavailable"] == unavailable()


@pytest.mark.parametrize("name", ["cpu", "CPU", "Cpu", "nnapi-reference", "NNAPI-Reference"])
def test_the_cpu_device_by_other_names(name: str) -> None:
    assert find_device(name).name == "nnapi-reference"


@pytest.mark.skipif(get_devices()[0].type.name != "GPU", reason="there is no GPU")
@pytest.mark.parametrize("name", ["gpu", "GPU", "Vulkan-0"])
def test_the_first_gpu_by_other_names(name: str) -> None:
    assert find_device(name).name == "vulkan-0"


class Named(CpuDevice):
    """A device of another driver, whose name is that of a type."""

    name = "GPU"
    type = DeviceTypeCode.ACCELERATOR


def test_names_come_before_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "_drivers", [*manager._drivers, lambda: ((Named(),), "")])
    monkeypatch.setattr(manager, "_devices", None)
    for name in ("GPU", "gpu", "accelerator"):
        assert isinstance(find_device(name).driver, Named)
    with pytest.raises(NnapiError, match=r"there is no device 'vulkan'; the devices are .*nnapi-reference, GPU"):
        find_device("vulkan")
    monkeypatch.undo()
    manager._devices = None


@pytest.mark.parametrize("command", ["info", "run", "bench", "demo", "conformance"])
def test_every_command_knows_them(command: str, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((1, 16, 16, 1), np.float32))
    model = str(DATA / "digits_float.tflite")
    arguments = {
        "info": [model],
        "run": [model, "--input", str(tmp_path / "in.npy")],
        "bench": [model, "--runs", "1"],
        "demo": ["--out", str(tmp_path)],
        "conformance": [str(tmp_path / "absent")],
    }[command]
    result = CliRunner().invoke(app, [command, *arguments, "--device", "CPU"])
    if command == "conformance":
        assert result.stderr == f"nnvk: no such file or folder: {tmp_path}/absent\n", "the device was found before"
        return
    assert result.exit_code == 0, result.output
    assert "nnapi-reference" in result.stdout
    assert " on CPU" not in result.stdout


def test_it_says_why_the_gpu_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "_devices", None)
    with override(vulkan=False):
        table = CliRunner().invoke(app, ["devices"])
        printed = json.loads(CliRunner().invoke(app, ["devices", "--json"]).stdout)
    assert table.exit_code == 0
    assert table.stdout.splitlines()[-1] == "not available: Vulkan is switched off by NNVK_VULKAN=0"
    assert [device["name"] for device in printed["devices"]] == ["nnapi-reference"]
    assert printed["unavailable"] == ["Vulkan is switched off by NNVK_VULKAN=0"]


def test_all_that_vulkan_has() -> None:
    found = enumerate_vulkan()
    lines = CliRunner().invoke(app, ["devices", "--all"]).stdout.splitlines()
    printed = json.loads(CliRunner().invoke(app, ["devices", "--all", "--json"]).stdout)
    for device in found.devices:
        assert any(line.startswith(device.device or " ") and f"  {device.name}  " in line for line in lines)
    for driver in found.drivers:
        (line,) = [line for line in lines if line.startswith(driver.manifest)]
        assert line.endswith(driver.problem or driver.devices[-1])
    assert sum(found.failure in line for line in lines) == 1 or not found.failure
    assert printed["vulkan"] == json.loads(json.dumps(asdict(found)))
    assert "vulkan" not in json.loads(CliRunner().invoke(app, ["devices", "--json"]).stdout)


def test_an_enumeration_of_devices_that_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "_devices", None)
    with override(vulkan=False):
        result = CliRunner().invoke(app, ["devices", "--all"])
        found = enumerate_vulkan()
    manager._devices = None
    assert all(device.device is None and device.problem for device in found.devices)
    hidden = [line for line in result.stdout.splitlines() if line.endswith("Vulkan is switched off by NNVK_VULKAN=0")]
    assert len(hidden) == 1 + sum("NNVK_VULKAN=0" in device.problem for device in found.devices)
