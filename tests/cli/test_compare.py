"""``nnvk compare``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import nnvk
from nnvk.cli import compare as module
from nnvk.demo.assets import DATA
from nnvk.insight.comparison import compare as compare_engines
from nnvk.insight.difference import Tolerance

FLOAT, INT8 = DATA / "digits_float.tflite", DATA / "digits_int8.tflite"
CPU = "nnapi-reference"


def test_equal(nnvk_command: Any) -> None:
    result = nnvk_command("compare", INT8)
    assert result.exit_code == 0, result.output
    summary, header, *rows = result.stdout.splitlines()
    first = nnvk.get_devices()[0].name
    assert summary == f"digits_int8.tflite on {first} against {CPU}: 11 results agree exactly"
    assert header.split() == ["#", "operation", "layer", "output", "largest", "of", "range", "steps"]
    assert rows[0].split() == ["0", "CONV_2D", "stem", "1x16x16x16", "0", "0", "0"]
    assert rows[-1].split() == ["0", "probabilities", "0", "0", "0"]


def test_what_is_off(nnvk_command: Any, tmp_path: Path) -> None:
    """No difference at all is tolerated, so that two devices that agree do not."""
    limits = ["--tolerance", 0, "--floor", 0, "--devices", nnvk.get_devices()[0].name, CPU]
    if nnvk.get_devices()[0].name == CPU:
        pytest.skip("there is one device")
    result = nnvk_command("compare", FLOAT, *limits, "--plot", tmp_path / "x.svg", f"--json={tmp_path / 'x.json'}")
    assert result.exit_code == 1
    found = json.loads((tmp_path / "x.json").read_text())
    wrong = [each for each in found["inside"] if each["is_off"]]
    assert found["is_off"]
    assert found["begins"] == wrong[0]["number"]
    number, operation, layer = wrong[0]["number"], wrong[0]["operation"], wrong[0]["layer"]["name"]
    assert f"operation {number} ({operation}, {layer}) is where it begins: " in result.stdout
    marked = [line.split()[0] for line in result.stdout.splitlines()[2:-4] if "!" in line]
    assert marked == [str(each["number"]) for each in wrong]
    svg = ElementTree.parse(tmp_path / "x.svg").getroot()
    texts = [element.text for element in svg.iter() if element.tag.endswith("text")]
    expected = [(f"{each['of_range']:.2g}", f"{each['number']} {each['operation']}") for each in found["inside"]]
    assert [text for text in texts if text in sum(expected, ())] == list(sum(expected, ()))
    assert "share of the reference's range (logarithmic axis)" in texts
    assert {each["tolerated"] for each in found["inside"]} == {0}
    alone = nnvk_command("compare", FLOAT, *limits, "--bisect")
    assert alone.exit_code == 1
    assert f"operation {number} ({operation}, {layer}) is the first that is off by itself: " in alone.stdout


def test_a_picture(nnvk_command: Any, tmp_path: Path) -> None:
    assert nnvk_command("compare", FLOAT, "--plot", tmp_path / "x.PNG").exit_code == 0
    with Image.open(tmp_path / "x.PNG") as image:
        assert image.format == "PNG"
        assert len(image.getcolors(1 << 16) or []) > 2
    result = nnvk_command("compare", FLOAT, "--plot", tmp_path / "x.txt")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "must end in .svg or .png" in result.stderr


def test_json_is_what_python_gives(nnvk_command: Any) -> None:
    content = json.loads(nnvk_command("compare", FLOAT, "--devices", CPU, CPU, "--json").stdout)
    device = nnvk.get_device(CPU)
    imported = module.Importing().load(FLOAT)
    inside = compare_engines(imported, device, device, tolerance=Tolerance()).inside
    assert [each["number"] for each in content["inside"]] == [each.number for each in inside]
    assert [each["layer"]["operator"] for each in content["inside"]] == [each.layer.operator for each in inside]
    assert content["begins"] is None


def test_own_inputs_and_seeds(nnvk_command: Any, tmp_path: Path) -> None:
    array = np.zeros((1, 16, 16, 1), np.float32)
    np.save(tmp_path / "x.npy", array)

    def wanted(*more: object) -> list[float]:
        content = json.loads(nnvk_command("compare", FLOAT, "--devices", CPU, CPU, *more, "--json").stdout)
        return [each["want"] for each in content["inside"]]

    assert wanted() == wanted("--seed", 0) != wanted("--seed", 1)
    assert wanted("--input", tmp_path / "x.npy") != wanted()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--devices", "abacus", CPU], "there is no device 'abacus'"),
        (["--devices", CPU], "--devices"),
        (["--devices", CPU, "onnxruntime"], "onnxruntime runs .onnx files, not .tflite files as "),
        (["--bisect", "--devices", "litert", CPU], "litert"),
        (["--plot", "/absent/x.svg"], "can't write x.svg there (there is no such folder): /absent"),
    ],
)
def test_errors_are_one_line(nnvk_command: Any, arguments: list[str], said: str) -> None:
    result = nnvk_command("compare", FLOAT, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("nnvk: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
