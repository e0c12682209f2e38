"""``nnvk run`` on a folder of inputs: a row for each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tflite_net import Net, T, write

from nnvk.demo.assets import DATA

FLOAT, INT8 = DATA / "digits_float.tflite", DATA / "digits_int8.tflite"
LABELS = DATA / "labels.txt"
CPU = ["--device", "nnapi-reference"]
PICTURES = ["0007_label7.png", "0015_label5.png", "0041_label4.png"]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "below").mkdir(parents=True)
    for name in PICTURES[:2]:
        shutil.copy(DATA / name, folder)
    shutil.copy(DATA / PICTURES[2], folder / "below")
    (folder / "notes.txt").write_text("no input")
    return folder


def test_each_picture_is_a_row(nnvk_command: Any, pictures: Path) -> None:
    result = nnvk_command("run", INT8, "--input", pictures, "--labels", LABELS, *CPU)
    assert (result.exit_code, result.stderr) == (0, "")
    placed, count, header, *rows = result.stdout.splitlines()
    assert placed == "digits_int8.tflite: 11 operations on nnapi-reference, in 1 partition"
    assert count.startswith("3 inputs in ")
    assert header.split() == ["input", "score", "class", "label"]
    assert [[row.split()[place] for place in (0, 2, 3)] for row in rows] == [
        ["0007_label7.png", "7", "seven"],
        ["0015_label5.png", "5", "five"],
        ["below/0041_label4.png", "4", "four"],
    ]


def test_the_best_classes_of_each(nnvk_command: Any, pictures: Path) -> None:
    content = json.loads(nnvk_command("run", INT8, "--input", pictures, "--top", 3, *CPU, "--json").stdout)
    assert [one["input"] for one in content["inputs"]] == [
        "0007_label7.png",
        "0015_label5.png",
        "below/0041_label4.png",
    ]
    for one in content["inputs"]:
        assert one["scores"] == "output", "a softmax is in the model"
        assert len(one["classes"]) == 3
        assert f"label{one['classes'][0]['number']}" in one["input"]
    # Without options, too, where the only output is a row of classes.
    plain = json.loads(nnvk_command("run", INT8, "--input", pictures, *CPU, "--json").stdout)
    assert [one["classes"] for one in plain["inputs"]] == [one["classes"][:1] for one in content["inputs"]]


def test_one_that_fails_leaves_the_others(nnvk_command: Any, pictures: Path) -> None:
    (pictures / "0001.png").write_bytes(b"no image")
    result = nnvk_command("run", INT8, "--input", pictures, *CPU)
    assert (result.exit_code, result.stderr) == (2, f"nnvk: not an image: {pictures}/0001.png\n")
    assert result.stdout.splitlines()[1].endswith(" s, 1 failed")
    assert len(result.stdout.splitlines()) == 6
    failed = json.loads(nnvk_command("run", INT8, "--input", pictures, *CPU, "--json").stdout)["failed"]
    assert failed == [{"input": "0001.png", "why": f"not an image: {pictures}/0001.png"}]


def test_outputs_that_are_no_classes_have_limits(nnvk_command: Any, tmp_path: Path) -> None:
    source, result = T("FLOAT32", (1, 2, 2, 3)), T("FLOAT32", (1, 2, 2, 3))
    net = Net([source], [result])
    net.op("NEG", [source], result)
    model, folder = tmp_path / "model.tflite", tmp_path / "in"
    model.write_bytes(write(net))
    folder.mkdir()
    Image.new("RGB", (2, 2), (0, 255, 51)).save(folder / "a.png")
    np.save(folder / "b.npy", np.full((1, 2, 2, 3), 3, np.float32))
    said = nnvk_command("run", model, "--input", folder, *CPU)
    assert said.exit_code == 0, said.output
    assert [line.split() for line in said.stdout.splitlines()[-3:]] == [
        ["input", "output", "type", "min", "max"],
        ["a.png", "t1", "float32", "1x2x2x3", "-1", "-0"],
        ["b.npy", "t1", "float32", "1x2x2x3", "-3", "-3"],
    ]


def test_logits_have_their_softmax_as_scores(nnvk_command: Any, tmp_path: Path) -> None:
    source, result = T("FLOAT32", (1, 3)), T("FLOAT32", (1, 3))
    net = Net([source], [result])
    net.op("FULLY_CONNECTED", [source, T("FLOAT32", data=np.eye(3, dtype=np.float32)), None], result)
    model, folder = tmp_path / "model.tflite", tmp_path / "in"
    model.write_bytes(write(net))
    folder.mkdir()
    np.save(folder / "a.npy", np.array([[0, np.log(3), -50]], np.float32))
    said = nnvk_command("run", model, "--input", folder, "--top", 2, *CPU)
    assert said.exit_code == 0, said.output
    assert [line.split() for line in said.stdout.splitlines()[2:5]] == [
        ["input", "score", "output", "class"],
        ["a.npy", "0.75", "1.09861", "1"],
        ["0.25", "0", "0"],
    ]
    assert said.stdout.endswith("\nscore: softmax of the output, which has logits\n")
    one = json.loads(nnvk_command("run", model, "--input", folder / "a.npy", "--top", 1, *CPU, "--json").stdout)
    assert one["scores"] == "softmax"
    assert one["classes"] == [
        {"score": pytest.approx(0.75), "number": 1, "label": None, "output": pytest.approx(np.log(3))}
    ]


def test_numbers_of_torchvision(nnvk_command: Any) -> None:
    given = ["--input", DATA / PICTURES[0], "--top", 10, *CPU]
    shares = nnvk_command("run", FLOAT, *given, "--mean", 0.5, "--std", 0.5)
    pixels = nnvk_command("run", FLOAT, *given, "--mean", 127.5, "--std", 127.5)
    assert shares.stdout.split("Best classes")[1] == pixels.stdout.split("Best classes")[1]
    assert shares.stderr == (
        "nnvk: note: input 'image': mean 0.5 and std 0.5 are taken as shares of 255, because pixels are 0 to 255: mean "
        "127.5 and std 127.5; --mean, --std or --scale change it\n"
    )
    assert pixels.stderr == ""
