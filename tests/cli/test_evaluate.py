"""``nnvk evaluate``, and its part of ``nnvk report``."""

from __future__ import annotations

import json
import re
import shutil
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tflite_net import Net, T, write

import nnvk
from nnvk.batch import evaluate
from nnvk.demo.assets import DATA
from nnvk.insight.evaluation import Answers, Evaluation

FLOAT, INT8 = DATA / "digits_float.tflite", DATA / "digits_int8.tflite"
LABELS = DATA / "labels.txt"
CPU = ["--device", "nnapi-reference"]
PICTURES = sorted(DATA.glob("*.png"))[:12]
EVIL = '"><script>alert(1)<img src=x onerror=alert(2)>\x1b[2J\u202e.png'


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Pictures in folders that are named by class; a 7 lies among the ones."""
    root = tmp_path / "photos"
    for number, path in enumerate(PICTURES):
        digit = "1" if number == 0 else path.stem[-1]
        (root / digit).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / digit / path.name)
    return root


def test_all_figures(nnvk_command: Any, folders: Path) -> None:
    result = nnvk_command("evaluate", FLOAT, INT8, "--inputs", folders, "--labels", LABELS, *CPU)
    assert (result.exit_code, result.stderr.count("\n")) == (0, 1), "a note on the normalisation"
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == "12 inputs of 10 classes"
    assert [line.split() for line in lines[3:7]] == [
        ["Right", "answers"],
        ["model", "top-1", "top-5"],
        ["digits_float.tflite", "11", "(91.7", "%)", *lines[5].split()[4:]],
        ["digits_int8.tflite", "11", "(91.7", "%)", *lines[6].split()[4:]],
    ]
    assert lines[7] == (
        "digits_int8.tflite against digits_float.tflite: the same class for 12 of 12 inputs (100.0 %), top-1 +0.0 "
        "points (0 gained, 0 lost)"
    )
    assert lines[8:11] == [
        "Confusions",
        "model                is     taken for  inputs",
        "digits_float.tflite  1 one  7 seven         1",
    ]
    assert lines[12] == "Worst answers"
    assert lines[14].split()[:4] == ["digits_float.tflite", "1/0007_label7.png", "1", "one"]


def test_models_that_get_other_pixels(nnvk_command: Any, folders: Path) -> None:
    """The int8 model has no numbers above 1."""
    result = nnvk_command("evaluate", FLOAT, INT8, "--inputs", folders, *CPU, "--mean", 0, "--std", 1)
    told = f"nnvk: note: {INT8.name} gets pixels as 0 to 1, {FLOAT.name} as 0 to 255; --mean and --std are for both\n"
    assert told in result.stderr


def test_json_and_the_class_of_each_file(nnvk_command: Any, tmp_path: Path) -> None:
    folder, truth = tmp_path / "photos", tmp_path / "truth.csv"
    folder.mkdir()
    for path in PICTURES:
        shutil.copy(path, folder)
    truth.write_text("file,class\n" + "".join(f"{path.name},{path.stem[-1]}\n" for path in PICTURES))
    (folder / "broken.png").write_bytes(b"no image")
    with truth.open("a") as file:
        file.write("broken.png,3\n")
    result = nnvk_command("evaluate", INT8, "--inputs", folder, "--labels", truth, *CPU, "--json")
    assert (result.exit_code, result.stderr) == (2, f"nnvk: broken.png: not an image: {folder}/broken.png\n")
    content = json.loads(result.stdout)
    assert (content["inputs"], content["agreements"]) == (12, [])
    assert content["labels"] == [str(digit) for digit in range(10)]
    (model,) = content["models"]
    assert model == {
        "model": INT8.name,
        "top": {"1": 12, "5": 12},
        "scores": "output",
        "confusions": [],
        "wrong": [],
    }
    assert content["failed"] == [{"name": "broken.png", "reason": f"not an image: {folder}/broken.png"}]


def test_a_page_with_pictures(nnvk_command: Any, folders: Path, tmp_path: Path) -> None:
    Image.effect_noise((200, 100), 64).save(folders / "8" / EVIL)  # its PNG has more characters than a page's texts
    out = tmp_path / "page.html"
    result = nnvk_command("evaluate", FLOAT, INT8, "--inputs", folders, *CPU, "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(f"wrote {out}\n")
    text = out.read_text(encoding="utf-8")
    assert "img-src data:" in text
    found = re.findall(r'src="data:image/png;base64,([^"]*)"', text)
    pictures = [Image.open(BytesIO(b64decode(one, validate=True))) for one in found]
    assert sorted(one.size for one in pictures) == [(16, 16), (16, 16), (112, 56), (112, 56)]
    assert "digits_int8.tflite against digits_float.tflite: the same class for 13 of 13 inputs (100.0 %)" in text
    assert "<script>alert" not in text and "<img src=x" not in text and "\x1b" not in text and "\u202e" not in text
    sources = re.findall(r'(?:src|href)="([^"#]*)', text)
    assert all(source.startswith("data:image/png;base64,") for source in sources if source)
    ids = re.findall(r'id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert {"accuracies", "confusions-0", "matrix-0", "confusions-1", "matrix-1"} <= set(ids)


def test_the_report_has_it_too(nnvk_command: Any, folders: Path, tmp_path: Path) -> None:
    out, data = tmp_path / "page.html", tmp_path / "x.json"
    arguments = ["report", INT8, *CPU, "--runs", 2, "--out", out]
    result = nnvk_command(*arguments, "--inputs", folders, "--labels", LABELS, "--json", data)
    assert result.exit_code == 0, result.output
    assert "Right answers\n" in result.stdout
    assert json.loads(data.read_text())["evaluation"]["models"][0]["top"]["1"] == 11
    assert '<h2 id="accuracy">Accuracy</h2>' in out.read_text()
    plain = nnvk_command(*arguments)
    assert plain.exit_code == 0
    assert "accuracy" not in out.read_text() and "img-src" not in out.read_text()
    wrong = nnvk_command(*arguments, "--labels", LABELS)
    said = "nnvk: --labels and the options for images are for the files of --inputs FOLDER, which is not given\n"
    assert (wrong.exit_code, wrong.stderr) == (2, said)


def _of_classes(path: Path, count: int) -> Path:
    """A model that returns the first pixels of a picture as scores."""
    source, result = T("FLOAT32", (1, 1, count, 1)), T("FLOAT32", (1, count))
    net = Net([source], [result])
    net.op("RESHAPE", [source, T("INT32", data=[1, count])], result)
    path.write_bytes(write(net))
    return path


def test_wrong_use(nnvk_command: Any, folders: Path, tmp_path: Path) -> None:
    other = _of_classes(tmp_path / "other.tflite", 4)
    (tmp_path / "empty").mkdir()
    for arguments, said in (
        (["--inputs", tmp_path / "absent"], f"no such folder: {tmp_path}/absent"),
        (["--inputs", LABELS], f"--inputs must be a folder: {LABELS}"),
        (["--inputs", tmp_path / "empty"], "there are no images, .npy, .npz or .parquet files in "),
        (["--inputs", DATA], "the class of 0007_label7.png is unknown: give --labels FILE"),
        (["--inputs", folders, "--device", "abacus"], "there is no device 'abacus'"),
        (["--inputs", folders, other], "models of different numbers of classes can't be compared: digits_int8.tflite "),
        (["--inputs", folders, "--out", tmp_path / "absent" / "x.html"], "can't write x.html there"),
    ):
        result = nnvk_command("evaluate", INT8, *arguments)
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert result.stderr.startswith(f"nnvk: {said}"), result.stderr
        assert result.stderr.count("\n") == 1


def test_two_models_are_not_compared_by_compare(nnvk_command: Any) -> None:
    result = nnvk_command("compare", FLOAT, INT8)
    assert (result.exit_code, result.stderr) == (
        2,
        "nnvk: compare runs one model on two devices; to compare models, give them photos: nnvk evaluate "
        f"{FLOAT} {INT8} --inputs FOLDER --labels FILE\n",
    )
    assert "Usage: nnvk compare [OPTIONS] MODEL\n" in nnvk_command("compare", "-h").stdout


def test_in_python(tmp_path: Path) -> None:
    """Few classes have no top-5, and the numbers of logits become probabilities."""
    folder = tmp_path / "photos"
    for name, pixels in (("1/a.png", [0, 255, 0]), ("2/b.png", [255, 0, 0])):
        (folder / name).parent.mkdir(parents=True)
        Image.fromarray(np.array([pixels], np.uint8)).save(folder / name)
    images = nnvk.ImageOptions(nnvk.Normalization((0.0,), (1.0,)))
    model = nnvk.load(_of_classes(tmp_path / "m.tflite", 3), device="cpu", images=images)
    evaluation, failures = evaluate([model], folder)
    assert not failures
    assert evaluation.names == ["1/a.png", "2/b.png"]
    assert evaluation.tops == [1]
    (answers,) = evaluation.models
    assert evaluation.right(answers, 1) == 1
    assert evaluation.worst(answers, 5) == [1]
    assert answers.is_softmax
    assert answers.score.tolist() == pytest.approx([1, 1])
    assert answers.score_of_truth.tolist() == pytest.approx([1, 0])


def test_figures_of_two_models() -> None:
    """The figures of five inputs and three classes, which are counted by hand."""
    truth = np.array([0, 1, 2, 1, 0])

    def answers(name: str, best: list[int], score: list[float], of_truth: list[float]) -> Answers:
        return Answers(name, np.array(best)[:, np.newaxis], np.array(score), np.array(of_truth), False)

    one = answers("one", [0, 1, 1, 0, 0], [0.9, 0.9, 0.6, 0.8, 0.9], [0.9, 0.9, 0.3, 0.1, 0.9])
    other = answers("other", [0, 0, 2, 0, 2], [0.5, 0.6, 0.6, 0.9, 0.6], [0.5, 0.3, 0.6, 0.1, 0.2])
    names = [f"{number}.png" for number in range(5)]
    evaluation = Evaluation(names, [Path(name) for name in names], truth, ["a", "b", "2"], [one, other])
    assert [evaluation.right(each, 1) for each in (one, other)] == [3, 2]
    (agreement,) = evaluation.agreements()
    assert (agreement.same, agreement.gained, agreement.lost) == (2, 1, 2)
    assert agreement.line == (
        "other against one: the same class for 2 of 5 inputs (40.0 %), top-1 -20.0 points (1 gained, 2 lost)"
    )
    assert evaluation.worst(one, 5) == [3, 2]
    assert evaluation.worst(other, 2) == [3, 4]
    assert [(each.truth, each.answer, each.count) for each in evaluation.confusions(other)] == [(1, 0, 2), (0, 2, 1)]
    assert evaluation.matrix(other).tolist() == [[1, 0, 1], [2, 0, 0], [0, 0, 1]]
    assert [evaluation.label_of(number) for number in range(3)] == ["0 a", "1 b", "2"]
