"""``nnvk check``."""

from __future__ import annotations

import getpass
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lying import lying_device
from remote import Remote

from nnvk import Device, OperationCode, get_devices
from nnvk.check import device as check_device
from nnvk.check.cases import Case, cases
from nnvk.check.checks import Check, Kind, Outcome, Status
from nnvk.check.device import shaders_of
from nnvk.check.model_rows import parse
from nnvk.cli import check as command
from nnvk.driver.process import RemoteDevice
from nnvk.driver.vulkan import VulkanDevice
from nnvk.hal import IPreparedModel
from nnvk.types.model import Model
from nnvk.types.request import PrepareOptions

FEW = [
    "ADD f32[2,3,5,7] f32[2,3,5,7] NONE -> f32",
    "MUL f32[2,3,5,7] f32[2,3,5,7] NONE -> f32",
    "FULLY_CONNECTED f32[3,7]~30 #f32[5,7]~3 #f32[5]~9 RELU -> f32",
]
"""Cases that take no time."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """The command knows a few cases."""
    some = [case for case in cases() if case.text in FEW]
    assert [case.text for case in some] == sorted(FEW, key=[case.text for case in some].index)
    monkeypatch.setattr(check_device, "cases", lambda: tuple(some))
    return some


@pytest.fixture
def vulkan() -> VulkanDevice:
    """The first device, if it is a Vulkan device."""
    driver = get_devices()[0].driver
    if not isinstance(driver, VulkanDevice):
        pytest.skip("there is no Vulkan device")
    return driver


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Lets the command check a device of which a shader variant lies, without models, whose other shaders are good."""
    monkeypatch.setattr(check_device, "MODELS", ())

    def use(variant: str, **settings: object) -> None:
        device = lying_device(monkeypatch, tmp_path / "shaders", variant, **settings)
        monkeypatch.setattr(command, "get_devices", lambda: [device])

    return use


def _variant(device: VulkanDevice, text: str) -> str:
    """The shader variant of a case that has one dispatch."""
    (name,) = shaders_of(device.planner, parse(text))
    return name


def test_a_good_device_passes(nnvk_command: Any, vulkan: VulkanDevice, few: list[Case]) -> None:
    result = nnvk_command("check")
    assert result.exit_code == 0, result.output
    assert f"{vulkan.name}  {vulkan.version}" in result.stdout
    assert " passed, 0 failed, 0 unsupported, 0 not run\n" in result.stdout
    for name in ("assumptions.order.f32", "FULLY_CONNECTED", "digits_float.tflite", "digits_int8.tflite"):
        assert f"\n{name} " in result.stdout


@pytest.mark.parametrize("text", [FEW[0], FEW[2]])
def test_a_variant_that_lies_is_named(
    nnvk_command: Any, vulkan: VulkanDevice, few: list[Case], use: Callable[..., None], text: str
) -> None:
    variant = _variant(vulkan, text)
    use(variant)
    result = nnvk_command("check", "--in-process")
    assert result.exit_code == 1, result.output
    operation, _, details = text.partition(" ")
    cells = [re.split("  +", line) for line in result.stdout.splitlines()]
    (found,) = (row for row in cells if row[:3] == [operation, variant, details])
    line = found[3]
    assert "element [0" in line and ": expected " in line and "the largest difference is " in line
    assert f"NNVK_AVOID_SHADERS={variant}" in result.stdout.splitlines()[-1]


def test_another_variant_takes_the_place_of_one_that_is_avoided(
    nnvk_command: Any, vulkan: VulkanDevice, few: list[Case], use: Callable[..., None]
) -> None:
    variant = _variant(vulkan, FEW[2])
    use(variant, avoid_shaders=variant)
    result = nnvk_command("check", "--in-process", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["avoided_shaders"] == [variant]
    assert report["counts"]["unsupported"] == 0
    (found,) = (check for check in report["checks"] if check["name"] == "FULLY_CONNECTED")
    assert found["status"] == "passed"
    assert variant not in found["shaders"] and found["shaders"][0].partition(".")[0] in ("gemm", "fully_connected")


def test_without_another_variant_an_operation_is_left_to_the_cpu(
    nnvk_command: Any, vulkan: VulkanDevice, few: list[Case], use: Callable[..., None]
) -> None:
    use("binary.add.f32", avoid_shaders="binary.add.f32")
    result = nnvk_command("check", "--in-process")
    assert result.exit_code == 0, result.output
    assert "unsupported: ADD: shader binary.add.f32 is avoided (NNVK_AVOID_SHADERS)" in result.stdout
    assert "avoided (NNVK_AVOID_SHADERS): binary.add.f32" in result.stdout


def test_the_report_names_no_user(
    nnvk_command: Any, vulkan: VulkanDevice, few: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(2, "no such file", "/home/somebody/lib/shaders/x.spv")

    monkeypatch.setattr(check_device, "execute", fail)
    path = tmp_path / "report.json"
    result = nnvk_command("check", "--in-process", "--json", path)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == f"wrote {path}"
    text = path.read_text()
    report = json.loads(text)
    for private in (str(Path.home()), str(tmp_path), os.getcwd(), "somebody"):
        assert private not in text
    assert not {"user", "home", "path", "hostname"} & {key for key in _keys(report)}
    assert getpass.getuser() not in list(_texts(report))
    assert report["device"]["limits"]["maxStorageBufferRange"] > 0
    assert {"driver_name", "driver_info", "api_version", "profile", "features"} <= report["device"].keys()
    assert {"python", "numpy", "release"} <= report["system"].keys()
    assert report["version"] and report["device_lost"] is False
    failed = [check for check in report["checks"] if check["status"] == "failed"]
    assert [check["reason"] for check in failed] == ["FileNotFoundError: [Errno 2] no such file: 'x.spv'"] * len(few)


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for each in value.values() for key in _keys(each))]
    return [key for each in value for key in _keys(each)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


def test_a_case_that_crashes_the_driver_fails(
    nnvk_command: Any, vulkan: VulkanDevice, few: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = RemoteDevice.prepare_model

    def crash(driver: RemoteDevice, model: Model, options: PrepareOptions) -> IPreparedModel:
        prepared = prepare(driver, model, options)
        if model.operations[0].code is OperationCode.MUL:
            Remote(Device(driver)).kill()
        return prepared

    monkeypatch.setattr(RemoteDevice, "prepare_model", crash)
    result = nnvk_command("check", "--json")
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout)
    failed = {check["name"]: check["reason"] for check in report["checks"] if check["status"] == "failed"}
    assert list(failed) == ["MUL"] and failed["MUL"].startswith("DEAD_OBJECT: ")
    assert report["counts"]["not run"] == 0 and report["device_lost"] is False
    assert report["suspected_shaders"] == [_variant(vulkan, FEW[1])]


def test_a_case_that_hangs_in_the_driver_fails(
    nnvk_command: Any, vulkan: VulkanDevice, few: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = RemoteDevice.prepare_model

    def hang(driver: RemoteDevice, model: Model, options: PrepareOptions) -> IPreparedModel:
        if model.operations[0].code is OperationCode.ADD:
            os.kill(Remote(Device(driver)).pid, signal.SIGSTOP)
        return prepare(driver, model, options)

    monkeypatch.setattr(RemoteDevice, "prepare_model", hang)
    monkeypatch.setattr(check_device, "MODELS", ())  # they may take longer on a busy machine
    result = nnvk_command("check", "--case-seconds", 5, "--json")
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout)
    failed = {check["name"]: check["reason"] for check in report["checks"] if check["status"] == "failed"}
    assert failed == {
        "ADD": "DEAD_OBJECT: the driver's process has died: a check took longer than 5 seconds of --case-seconds, "
        "and the process was ended"
    }
    assert report["counts"]["not run"] == 0 and report["device_lost"] is False


def test_no_time_is_no_failure(nnvk_command: Any, vulkan: VulkanDevice, few: list[Case]) -> None:
    result = nnvk_command("check", "--in-process", "--minutes", 0)
    assert result.exit_code == 0, result.output
    assert f"{len(few)} checks not run for lack of time: --minutes gives more" in result.stdout


def test_the_reference_agrees_with_itself(nnvk_command: Any, few: list[Case]) -> None:
    result = nnvk_command("check", "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["counts"] == {"passed": len(few) + 2, "failed": 0, "unsupported": 0, "not run": 0}
    assert report["shaders"] == {}


def test_an_unknown_device_is_an_error(nnvk_command: Any) -> None:
    result = nnvk_command("check", "--device", "vulkan-99")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no device 'vulkan-99'" in result.stderr


def test_a_reason_for_not_running_is_not_lack_of_time(nnvk_command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "the driver runs in a process of its own"
    skipped = Check(Kind.ASSUMPTION, "order", "", lambda: Outcome(Status.NOT_RUN, reason))
    monkeypatch.setattr(check_device.Checked, "checks", lambda self: [skipped])
    result = nnvk_command("check", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert f"not run: order: {reason}\n" in result.stdout
    assert "lack of time" not in result.stdout
