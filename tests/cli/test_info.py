"""``nnvk info``."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from nnvk import get_devices
from nnvk.demo.assets import DATA
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.hal import Support

DEVICES = [device.name for device in get_devices()]


def test_inputs_outputs_and_operations(nnvk_command: Any) -> None:
    result = nnvk_command("info", DATA / "digits_int8.tflite")
    assert result.exit_code == 0, result.output
    summary, *lines = result.stdout.splitlines()
    headings = [lines.index(heading) for heading in ("Inputs", "Outputs", "Operations")]
    assert headings == sorted(headings)
    assert "1x16x16x1" in lines[headings[0] + 2]
    assert "int8 1x16x16x1  0.00392157 * (q + 128)" in lines[headings[0] + 2]
    assert "1x10" in lines[headings[1] + 2]
    assert lines[headings[1] + 1].split() == ["#", "name", "type", "real", "number"]
    end = lines.index("Strategies") if "Strategies" in lines else len(lines)
    operations = [line.split()[1] for line in lines[headings[2] + 2 : end]]
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "SOFTMAX"} <= set(operations)
    assert summary.startswith(f"digits_int8.tflite: {len(operations)} operations: ")


def test_strategies(nnvk_command: Any) -> None:
    """`nnvk info` lists the strategies of GEMMs, and on GPUs those of depthwise convolutions too."""
    if not DEVICES[0].startswith("vulkan"):
        pytest.skip("there is no Vulkan device")
    lines = nnvk_command("info", DATA / "digits_int8.tflite").stdout.splitlines()
    strategies = lines[lines.index("Strategies") + 1 : lines.index("Memory of activations")]
    assert {line.split(" (")[0] for line in strategies} - {"DEPTHWISE_CONV_2D"} == {"CONV_2D", "FULLY_CONNECTED"}
    assert all(
        re.search(r": (register|quads|shared|subgroup|vector|tiles) .* \((by its cost|measured)\)$", line)
        for line in strategies
    )


@pytest.mark.parametrize("options", [[], ["--device", DEVICES[0]]], ids=["shared out", "alone"])
def test_memory(nnvk_command: Any, options: list[str]) -> None:
    """`nnvk info` shows how much memory Vulkan devices allocate for activations, and how much is needed at once."""
    if not DEVICES[0].startswith("vulkan"):
        pytest.skip("there is no Vulkan device")
    result = nnvk_command("info", DATA / "digits_float.tflite", "--json", *options)
    (memory,) = json.loads(result.stdout)["memory"]
    assert memory["device"] == DEVICES[0]
    # The convolutions go from 16 x 16 images of 8 channels to such of 16 and less, two of which are there at once.
    assert 16 * 16 * 8 * 4 < memory["most_alive_bytes"] <= memory["arena_bytes"] <= 1.1 * memory["most_alive_bytes"]
    lines = nnvk_command("info", DATA / "digits_float.tflite", *options).stdout.splitlines()
    sizes = [f"{memory[name]:,}" for name in ("arena_bytes", "most_alive_bytes")]
    assert lines[-2:] == [
        "Memory of activations",
        f"{DEVICES[0]}: {sizes[0]} bytes, of which at most {sizes[1]} are needed at once",
    ]
    assert (
        json.loads(nnvk_command("info", DATA / "digits_float.tflite", "--json", "--device", DEVICES[-1]).stdout)[
            "memory"
        ]
        == []
    )


@pytest.mark.parametrize("device", DEVICES)
def test_each_operation_on_one_device(nnvk_command: Any, device: str) -> None:
    result = nnvk_command("info", DATA / "digits_float.tflite", "--device", device)
    assert result.exit_code == 0, result.output
    assert f" on {device}" in result.stdout.splitlines()[0]


@pytest.fixture
def without_softmax(monkeypatch: pytest.MonkeyPatch) -> str:
    """The preferred device, which now refuses SOFTMAX."""
    device = get_devices()[0]
    support = type(device.driver).get_supported_operations

    def refuse(self: Any, model: Any) -> list[Support]:
        answers = zip(model.operations, support(self, model), strict=True)
        return [Support("it is too soft") if str(operation) == "SOFTMAX" else answer for operation, answer in answers]

    monkeypatch.setattr(type(device.driver), "get_supported_operations", refuse)
    return device.name


def test_it_says_why_an_operation_runs_elsewhere(nnvk_command: Any, without_softmax: str) -> None:
    if len(DEVICES) < 2:
        pytest.skip("there is no device that could take over")
    result = nnvk_command("info", DATA / "digits_float.tflite")
    row, reason = [line for line in result.stdout.splitlines() if "SOFTMAX" in line]
    assert re.split(r" {2,}", row)[-1] == DEVICES[1]
    assert reason == f"SOFTMAX (# 10): {without_softmax}: it is too soft"


def test_it_says_why_a_device_does_not_support_an_operation(nnvk_command: Any, without_softmax: str) -> None:
    result = nnvk_command("info", DATA / "digits_float.tflite", "--device", without_softmax)
    assert result.exit_code == 0
    row, reason = [line for line in result.stdout.splitlines() if "SOFTMAX" in line]
    assert re.split(r" {2,}", row)[-1] == "none"
    assert reason == f"SOFTMAX (# 10): {without_softmax}: it is too soft"
    assert "1 on none" in result.stdout.splitlines()[0]


@pytest.mark.parametrize("named", [True, False])
def test_a_check_fails_where_the_device_does_not_run_it_whole(
    nnvk_command: Any, without_softmax: str, named: bool
) -> None:
    device = ["--device", without_softmax] if named else []
    result = nnvk_command("info", DATA / "digits_float.tflite", *device, "--check", "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    content = json.loads(result.stdout)
    assert (content["device"], content["runs_whole"]) == (without_softmax, False)
    assert content["operations"][10]["reason"] == f"{without_softmax}: it is too soft"


@pytest.mark.parametrize("device", DEVICES)
def test_a_check_that_holds(nnvk_command: Any, device: str) -> None:
    result = nnvk_command("info", DATA / "digits_float.tflite", "--device", device, "--check")
    assert result.exit_code == 0


def test_errors_are_one_line(nnvk_command: Any) -> None:
    model = DATA / "digits_int8.tflite"
    for arguments in (
        ["absent.tflite"],
        [DATA / "labels.txt"],
        [model, "--device", "abacus"],
        [model, "--json", "/absent/model.json"],
    ):
        result = nnvk_command("info", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("nnvk: ")
        assert result.stderr.count("\n") == 1


def test_passes_without_a_model(nnvk_command: Any) -> None:
    result = nnvk_command("info", "--passes")
    assert result.exit_code == 0, result.output
    title, heading, *lines = result.stdout.splitlines()
    assert (title, heading.split()[:2]) == ("Passes", ["pass", "rewrites"])
    assert [line.split()[0] for line in lines] == [each.value for each in Pass]
    assert lines[-1].split(maxsplit=1)[1] == list(Pass)[-1].description


def test_passes_of_a_model(nnvk_command: Any) -> None:
    if not DEVICES[0].startswith("vulkan"):
        pytest.skip("there is no Vulkan device")
    result = nnvk_command("info", "--passes", DATA / "digits_float.tflite", "--device", DEVICES[0], "--json")
    assert result.exit_code == 0, result.output
    passes = json.loads(result.stdout)["passes"]
    plan = json.loads(nnvk_command("plan", DATA / "digits_float.tflite", "--device", DEVICES[0], "--json").stdout)
    assert {each["name"]: each["applied"] for each in passes} == plan["passes"]
    assert any(plan["passes"].values())


def test_passes_are_listed_alone(nnvk_command: Any) -> None:
    assert nnvk_command("info", "--passes", "--check").exit_code != 0
    result = nnvk_command("info")
    assert result.exit_code != 0
    assert "MODEL is missing" in result.output
