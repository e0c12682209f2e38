"""``nnvk run`` on the models of the demo, and on real ones where they lie beside the project."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tflite_metadata import metadata, packed
from tflite_net import Net, T, write

from nnvk import Compilation, get_devices
from nnvk.cli import run as run_module
from nnvk.demo.assets import DATA

FLOAT, INT8 = DATA / "digits_float.tflite", DATA / "digits_int8.tflite"
LABELS = DATA / "labels.txt"
SEVEN = next(DATA.glob("*_label7.png"))
CPU = ["--device", "nnapi-reference"]
DEVICES = [device.name for device in get_devices()]
MODELS = Path(__file__).parents[3] / "shared" / "models"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", [FLOAT, INT8], ids=lambda model: model.stem)
def test_a_digit_is_recognised(nnvk_command: Any, model: Path, device: str, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    arguments = ["--input", SEVEN, "--device", device, "--labels", LABELS, "--top", 3, "--out", out]
    result = nnvk_command("run", model, *arguments)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{model.name}: 11 operations on ")
    assert lines[1].startswith("first execution: ")
    best = lines.index("Best classes")
    assert lines[best + 1].split() == ["score", "class", "label"]
    assert lines[best + 2].split()[1:] == ["7", "seven"]
    scores = [float(line.split()[0]) for line in lines[best + 2 : best + 5]]
    assert scores == sorted(scores, reverse=True)
    assert 0.5 < scores[0] <= 1, "scores are dequantised"
    assert lines[-1] == f"wrote {out}"
    with np.load(out) as written:
        assert list(written) == ["0"]
        assert written["0"].argmax() == 7
        assert written["0"].dtype == (np.float32 if model is FLOAT else np.int8)


def test_an_array_gives_what_the_image_gives(nnvk_command: Any, tmp_path: Path) -> None:
    pixels = np.asarray(Image.open(SEVEN)).reshape(1, 16, 16, 1)
    array = pixels.astype(np.float32) / np.float32(255)
    np.save(tmp_path / "in.npy", array)
    np.savez(tmp_path / "in.npz", **{"0": array})
    outputs = []
    for source in (SEVEN, tmp_path / "in.npy", tmp_path / "in.npz"):
        result = nnvk_command("run", FLOAT, "--input", source, *CPU, "--out", tmp_path / "out.npz")
        assert result.exit_code == 0, result.output
        assert "Best classes" not in result.stdout
        with np.load(tmp_path / "out.npz") as written:
            outputs.append(written["0"])
    assert (outputs[0] == outputs[1]).all()
    assert (outputs[0] == outputs[2]).all()


def test_mean_and_std_change_the_input(nnvk_command: Any) -> None:
    first = nnvk_command("run", FLOAT, "--input", SEVEN, *CPU, "--top", 10)
    same = nnvk_command("run", FLOAT, "--input", SEVEN, *CPU, "--top", 10, "--mean", 0, "--std", 255)
    other = nnvk_command("run", FLOAT, "--input", SEVEN, *CPU, "--top", 10, "--mean", 127.5, "--std", 20)
    tables = [result.stdout.split("Best classes")[1] for result in (first, same, other)]
    assert tables[0] == tables[1] != tables[2]


def _classifier(path: Path, type: str = "FLOAT32", classes: int = 3) -> Path:
    """A model that gives three pixels of an image back as scores, and its own labels and normalisation."""
    scale = None if type == "FLOAT32" else 0.5
    image, scores = T(type, (1, 1, 1, 3), scale=scale), T(type, (1, 3), scale=scale)
    net = Net([image], [scores])
    net.op("RESHAPE", [image, T("INT32", data=[1, 3])], scores)
    described = metadata("Pixels", mean=[100.0], std=[2.0], labels="l.txt")
    labels = "\n".join(["red", "green", "blue", "more"][:classes])
    path.write_bytes(packed(write(net, metadata=described), {"l.txt": labels}))
    return path


def test_labels_and_normalisation_in_the_file(nnvk_command: Any, tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), (50, 120, 90)).save(tmp_path / "in.png")
    given = ["--input", tmp_path / "in.png", *CPU, "--json"]

    def classes(model: Path, *arguments: object) -> list[tuple[float, str | None]]:
        result = nnvk_command("run", model, *arguments, *given)
        assert result.exit_code == 0, result.output
        return [(one["output"], one["label"]) for one in json.loads(result.stdout).get("classes", [])]

    model = _classifier(tmp_path / "float.tflite")
    assert classes(model) == [(10.0, "green"), (-5.0, "blue"), (-25.0, "red")]
    assert classes(model, "--mean", 0, "--top", 1) == [(float(np.float32(120) / np.float32(255)), "green")]
    own = tmp_path / "own.txt"
    own.write_text("a\nb\nc\n")
    assert classes(model, "--labels", own, "--top", 1) == [(10.0, "b")]
    # A quantised input gets the pixels as they are.
    assert classes(_classifier(tmp_path / "int.tflite", "UINT8"), "--top", 1) == [(60.0, "green")]
    # Labels of something else than the classes are none.
    assert classes(_classifier(tmp_path / "more.tflite", classes=4)) == []


def test_a_batch(nnvk_command: Any, tmp_path: Path) -> None:
    pixels = np.asarray(Image.open(SEVEN)).reshape(1, 16, 16, 1)
    np.save(tmp_path / "in.npy", np.repeat(pixels, 3, axis=0).astype(np.float32) / np.float32(255))
    arguments = ["--shape", "image=3x?x16x1", "--input", tmp_path / "in.npy", "--out", tmp_path / "out.npz"]
    result = nnvk_command("run", FLOAT, *arguments, *CPU)
    assert result.exit_code == 0, result.output
    with np.load(tmp_path / "out.npz") as written:
        assert written["0"].shape == (3, 10)
        assert written["0"].argmax(axis=1).tolist() == [7, 7, 7]


_SEVEN = ["{model}", "--input", "{seven}"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.tflite", "--input", "{seven}"], "no such file: absent.tflite"),
        (
            ["{folder}", "--input", "{seven}"],
            "{folder} is a folder, whose models run on random numbers: leave out --input",
        ),
        (["{text}", "--input", "{seven}"], "not a .tflite file: {text} ("),
        (
            [*_SEVEN, "--input", "{seven}"],
            "the model has one input, give --input once (an image, .npy or .npz), got --input 2 times: 0: float32 "
            "1x16x16x1 for 'image'; nnvk run --input FOLDER and nnvk map run many files",
        ),
        (
            ["{model}", "{seven}"],
            "run takes one model, or a folder of models; inputs stand behind --input, many of them in a folder: "
            "--input {seven}",
        ),
        ([*_SEVEN, "--input", "{folder}"], "a folder must be the only --input, without --out and --trace; nnvk map"),
        (["{model}", "--input", "{folder}", "--out", "x.npz"], "a folder must be the only --input, without "),
        (["{model}", "--input", "{empty}"], "there are no images, .npy, .npz or .parquet files in {empty}"),
        (["{model}", "--input", "absent.png"], "no such file: absent.png"),
        (["{model}", "--input", "absent.npy"], "no such file: absent.npy"),
        (["{model}", "--input", "{text}"], "not an image: {text}"),
        ([*_SEVEN, "--device", "abacus"], "there is no device 'abacus'; the devices are "),
        ([*_SEVEN, "--labels", "absent.txt"], "no such file: absent.txt"),
        ([*_SEVEN, "--labels", "{text}"], "there are 2 labels, output "),
        ([*_SEVEN, "--labels", "{one}"], "there is 1 label, output "),
        ([*_SEVEN, "--labels", "{latin}"], "not a text in UTF-8: {latin} ("),
        ([*_SEVEN, "--out", "out.npy"], "the name of --out must end in .npz: out.npy"),
        (
            [*_SEVEN, "--out", "{folder}/absent/x.npz"],
            "can't write x.npz there (there is no such folder): {folder}/absent",
        ),
        ([*_SEVEN, "--out", "{text}/x.npz"], "can't write x.npz there (not a folder): {text}"),
        ([*_SEVEN, "--trace", "{folder}/absent/x"], "can't write x there (there is no such folder): {folder}/absent"),
        ([*_SEVEN, "--trace", "{folder}"], "can't be written (is a directory): {folder}"),
        (
            [*_SEVEN, "--shape", "3x16x16x1"],
            "--shape must be NAME=SHAPE, such as image=4x224x224x3 or batch=4",
        ),
        (
            [*_SEVEN, "--shape", "image=3x-1"],
            "--shape must be NAME=SHAPE, such as image=4x224x224x3 or batch=4",
        ),
        ([*_SEVEN, "--shape", "image=3", "--shape", "image=4"], "--shape is given twice for 'image'"),
        ([*_SEVEN, "--shape", "x=1x2"], "no input of the model is called 'x', there are ['image']"),
        ([*_SEVEN, "--mean", "x"], "mean must be a number"),
        ([*_SEVEN, "--mean", "0.485"], "mean 0.485 and std 255 do not go together: give both for pixels of 0 to 255, "),
        ([*_SEVEN, "--mean", "nan"], "mean must be of finite float32 numbers, not 'nan'"),
    ],
)
def test_errors_are_one_line_and_come_before_the_work(
    nnvk_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.setattr(Compilation, "finish", lambda _: pytest.fail("it compiles"))
    text, one, latin = (tmp_path / name for name in ("text.tflite", "one.txt", "latin.txt"))
    text.write_text("no model\nno image\n")
    one.write_text("one\n")
    latin.write_bytes(b"caf\xe9\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    names = {
        "model": FLOAT,
        "seven": SEVEN,
        "folder": tmp_path,
        "empty": empty,
        "text": text,
        "one": one,
        "latin": latin,
    }
    result = nnvk_command("run", *(argument.format(**names) for argument in arguments))
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"nnvk: {message.format(**names)}")
    assert result.stderr.count("\n") == 1


def test_the_output_is_written_whatever_comes_after(
    nnvk_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(run_module, "_print_outputs", fail)
    result = nnvk_command("run", FLOAT, "--input", SEVEN, *CPU, "--out", tmp_path / "OUT.NPZ")
    assert (result.exit_code, result.stderr.splitlines()[1:]) == (2, ["nnvk: no"]), "behind the note on the image"
    with np.load(tmp_path / "OUT.NPZ") as written:
        assert written["0"].argmax() == 7


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("option", ["--out", "--trace"])
def test_a_full_disk_is_an_error_that_names_the_file(nnvk_command: Any, tmp_path: Path, option: str) -> None:
    full = tmp_path / "full.npz"
    full.symlink_to("/dev/full")
    result = nnvk_command("run", FLOAT, "--input", SEVEN, *CPU, option, full)
    last = result.stderr.splitlines()[-1]
    assert (result.exit_code, last) == (2, f"nnvk: no space left on device: {full}")


@pytest.mark.skipif(not MODELS.is_dir(), reason=f"there are no models in {MODELS}")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("model", "picture", "label"),
    [
        ("mobilenet_v1_0.25_128_quant", "grace_hopper.bmp", "military uniform"),
        ("mobilenet_v2_1.0_224_quant", "cat.bmp", "tabby"),
    ],
)
def test_a_photo_is_recognised(nnvk_command: Any, model: str, picture: str, label: str, device: str) -> None:
    folder = MODELS / model
    arguments = ["--input", folder / picture, "--device", device, "--labels", MODELS / "imagenet_labels.txt"]
    result = nnvk_command("run", folder / "model.tflite", *arguments)
    assert result.exit_code == 0, result.output
    assert label in result.stdout.split("Best classes")[1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_json_has_no_nan(nnvk_command: Any, tmp_path: Path, value: float) -> None:
    np.save(tmp_path / "in.npy", np.full((1, 16, 16, 1), value, np.float32))
    result = nnvk_command("run", FLOAT, "--input", tmp_path / "in.npy", "--top", 1, *CPU, "--json")
    assert result.exit_code == 0, result.output

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    content = json.loads(result.stdout, parse_constant=refuse)
    assert content["outputs"][0]["max"] is None


def test_random_inputs(nnvk_command: Any) -> None:
    first, same, other = (
        json.loads(nnvk_command("run", FLOAT, *CPU, "--seed", seed, "--json").stdout) for seed in (1, 1, 2)
    )
    assert first["outputs"] == same["outputs"] != other["outputs"]
    assert (first["seed"], other["seed"]) == (1, 2)
    assert "on random numbers" in nnvk_command("run", FLOAT, *CPU).stdout


def test_a_folder_of_models(nnvk_command: Any, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    shutil.copy(FLOAT, tmp_path / "below" / "good.tflite")
    (tmp_path / "bad.tflite").write_bytes(b"no model")
    (tmp_path / "other.txt").write_bytes(b"no model")
    result = nnvk_command("run", tmp_path, *CPU)
    assert result.exit_code == 2
    summary, _, *rows = result.stdout.splitlines()
    assert summary == "1 model ran on random numbers, 1 could not"
    assert [row.split()[:4] for row in rows] == [["good.tflite", "11", "on", "nnapi-reference"]]
    assert result.stderr.startswith(f"nnvk: not a .tflite file: {tmp_path}/bad.tflite")
    content = json.loads(nnvk_command("run", tmp_path, *CPU, "--json").stdout)
    assert [one["model"] for one in content["models"]] == ["good.tflite"]
    assert [one["model"] for one in content["failures"]] == ["bad.tflite"]
    assert content["models"][0]["placement"] == {"nnapi-reference": 11}


def test_complex_outputs(nnvk_command: Any, tmp_path: Path) -> None:
    """Their magnitudes have limits, and they are no classes."""
    source, result = T("COMPLEX64", (1, 3)), T("COMPLEX64", (1, 3))
    net = Net([source], [result])
    net.op("RESHAPE", [source, T("INT32", data=[1, 3])], result)
    model, array, output = (tmp_path / name for name in ("model.tflite", "in.npy", "out.npz"))
    model.write_bytes(write(net))
    values = np.array([[3 + 4j, -2j, 0]], np.complex64)
    np.save(array, values)
    said = nnvk_command("run", model, "--input", array, "--out", output, "--json", tmp_path / "said.json")
    assert (said.exit_code, said.stderr) == (0, "")
    assert "complex64 1x3    0    5" in said.stdout
    (about,) = json.loads((tmp_path / "said.json").read_text())["outputs"]
    assert (about["min"], about["max"]) == (0, 5)
    assert (np.load(output)["0"] == values).all()
    ranked = nnvk_command("run", model, "--input", array, "--top", 2)
    assert (ranked.exit_code, ranked.stderr) == (
        2,
        "nnvk: output 't2' has complex numbers: they can't be ranked\n",
    )


def test_a_row_of_classes_among_dimensions_of_1(nnvk_command: Any, tmp_path: Path) -> None:
    """As models have it that end in a global average without a Flatten."""
    source, result = T("FLOAT32", (1, 3, 1, 1)), T("FLOAT32", (1, 3, 1, 1))
    net = Net([source], [result])
    net.op("NEG", [source], result)
    (tmp_path / "model.tflite").write_bytes(write(net))
    np.save(tmp_path / "in.npy", np.array([2, 1, 3], np.float32).reshape(1, 3, 1, 1))
    (tmp_path / "labels.txt").write_text("cat\ndog\nbird\n")
    said = nnvk_command(
        "run", tmp_path / "model.tflite", "--input", tmp_path / "in.npy", "--labels", tmp_path / "labels.txt"
    )
    assert (said.exit_code, said.stderr) == (0, "")
    # Scores below 0 are no probabilities, so that the softmax is.
    assert said.stdout.splitlines()[-5] == "Best classes (score: softmax of the output, which has logits)"
    assert [line.split() for line in said.stdout.splitlines()[-3:]] == [
        ["0.665241", "-1", "1", "dog"],
        ["0.244728", "-2", "0", "cat"],
        ["0.0900306", "-3", "2", "bird"],
    ]
