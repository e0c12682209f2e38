"""``nnvk plan``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nnvk import get_devices
from nnvk.demo.assets import DATA
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import constrain, described, parse_profile, profile_of

MODEL = DATA / "digits_int8.tflite"
LIMITS = {
    "subgroupSize": 64,
    "maxStorageBufferRange": 2**32 - 1,
    "maxComputeWorkGroupInvocations": 1024,
    "maxComputeSharedMemorySize": 65536,
    "timestampValidBits": 64,
    "shaderUnits": 80,
    **{f"maxComputeWorkGroupCount{axis}": 65535 for axis in range(3)},
}
BIG = profile_of("a large GPU", "discrete_gpu", LIMITS, ShaderLibrary().features)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """The profile of a GPU that is not there."""
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps(described(BIG)))
    return path


def test_a_device_that_is_not_there_gets_commands(nnvk_command: Any, profile: Path) -> None:
    result = nnvk_command("plan", MODEL, "--profile", profile, "--json")
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)
    assert parse_profile(plan["profile"]) == BIG
    dispatches = [command for command in plan["commands"] if command["kind"] == "dispatch"]
    assert {"CONV_2D", "FULLY_CONNECTED", "SOFTMAX"} <= {dispatch["code"] for dispatch in dispatches}
    for dispatch in dispatches:
        assert Path(dispatch["spirv"]).read_bytes()[:4] == b"\x03\x02\x23\x07"
        assert all(size >= 1 for size in (*dispatch["groups"], *dispatch["local"]))
        assert set(dispatch["constants"].values()) <= set(dispatch["specialization"])
    assert not plan["commands"][0]["barrier"]
    assert sum(plan["memory"]["arena"]) > 0


def test_what_it_writes_can_be_changed_and_given_back(nnvk_command: Any, profile: Path, tmp_path: Path) -> None:
    written = tmp_path / "plan.json"
    assert nnvk_command("plan", MODEL, "--profile", profile, "--json", written).exit_code == 0
    document = json.loads(written.read_bytes())
    document["profile"] |= described(constrain(BIG, "mobile-min"))
    written.write_text(json.dumps(document))
    small = json.loads(nnvk_command("plan", MODEL, "--profile", written, "--json").stdout)
    assert small["profile"]["max_invocations"] == 128
    assert not any("subgroup" in command.get("shader", "") for command in small["commands"])


def test_the_first_gpu_is_planned_for(nnvk_command: Any) -> None:
    if not get_devices()[0].name.startswith("vulkan"):
        pytest.skip("there is no Vulkan device")
    result = nnvk_command("plan", MODEL)
    assert result.exit_code == 0, result.output
    assert "CONV_2D" in result.stdout and "gemm.q8" in result.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON file"),
        ("[]", "a device profile is a JSON object, got list"),
        ("{}", "missing: ['name', 'is_cpu'"),
        (json.dumps({**described(BIG), "unit": 3}), "unknown: ['unit']"),
        (json.dumps({**described(BIG), "units": 0}), "units of a device profile must be a number above 0, got 0"),
        (json.dumps({**described(BIG), "is_cpu": 1}), "is_cpu of a device profile must be true or false, got 1"),
        (json.dumps({**described(BIG), "features": "all"}), "features of a device profile must be a list of texts"),
    ],
)
def test_a_wrong_profile_is_an_error(nnvk_command: Any, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    result = nnvk_command("plan", MODEL, "--profile", path)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_to_plan_for_is_said_once(nnvk_command: Any, profile: Path) -> None:
    result = nnvk_command("plan", MODEL, "--profile", profile, "--device", "gpu")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "give one" in result.stderr


def test_a_cpu_device_has_no_plan(nnvk_command: Any) -> None:
    result = nnvk_command("plan", MODEL, "--device", "cpu")
    assert result.exit_code == 2
    assert "nnapi-reference is no Vulkan device" in result.stderr


def test_passes_show_what_they_change(nnvk_command: Any, profile: Path) -> None:
    result = nnvk_command("plan", MODEL, "--profile", profile, "--passes")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "build:"
    assert any("CONV_2D(input=%" in line for line in lines)
    assert "pad: nothing changes" in lines
    changes = lines[lines.index("epilogue:") + 1 :] if "epilogue:" in lines else []
    assert "lower:" in lines
    assert all(line.strip()[0] in "+-" for line in changes if line.startswith("  ") and not line.startswith("   "))


def test_passes_as_json(nnvk_command: Any, profile: Path) -> None:
    content = json.loads(nnvk_command("plan", MODEL, "--profile", profile, "--passes", "--json").stdout)
    names = [stage["pass"] for stage in content["stages"]]
    assert names[0] == "build"
    assert names.index("constants") < names.index("pad") < names.index("lower") < names.index("coalesce")
    last = [line for line in content["stages"][-1]["lines"] if "(" in line]
    assert len(last) == len(content["commands"])
    assert "stages" not in json.loads(nnvk_command("plan", MODEL, "--profile", profile, "--json").stdout)


def test_a_verified_plan_has_its_verifications(nnvk_command: Any, profile: Path) -> None:
    result = nnvk_command("plan", MODEL, "--profile", profile, "--json", "--verified")
    assert result.exit_code == 0, result.output
    commands = json.loads(result.stdout)["commands"]
    assert {"gemm_checksum", "verification"} <= {command.get("shader", "").split(".")[0] for command in commands}
