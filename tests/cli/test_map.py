"""``nnvk map``."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnvk.batch import read_results, threads
from nnvk.demo.assets import DATA

INT8 = DATA / "digits_int8.tflite"
CPU = ["--device", "nnapi-reference"]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for path in sorted(DATA.glob("*.png"))[:6]:
        shutil.copy(path, folder)
    return folder


def test_all_then_nothing(nnvk_command: Any, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = nnvk_command("map", INT8, pictures, "--out", out, "--batch", 4, *CPU)
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout.startswith("6 rows done in ")
    assert first.stdout.endswith(f"\nwrote {out}\n")
    labels = {Path(name).stem.partition("label")[2]: scores[0].argmax() for name, scores in read_results(out)}
    assert all(int(label) == best for label, best in labels.items())
    again = nnvk_command("map", INT8, pictures, "--out", out, *CPU, "--json")
    content = json.loads(again.stdout)
    assert (content["done"], content["before"], content["failures"]) == (0, 6, [])


def test_classes_of_each_row(nnvk_command: Any, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["map", INT8, pictures, "--out", out, "--labels", DATA / "labels.txt", *CPU]
    result = nnvk_command(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    _, header, *rows, last, _ = result.stdout.splitlines()
    assert header.split() == ["row", "score", "class", "label"]
    assert len(rows) == 6
    assert all(f"label{row.split()[2]}.png" in row for row in rows)
    assert last == f"all classes are in {out}/classes.csv"
    with (out / "classes.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [one["row"] for one in table] == [row.split()[0] for row in rows]
    assert [one["label"] for one in table] == [row.split()[3] for row in rows]
    # Rows that were done before are ranked, too.
    content = json.loads(nnvk_command(*arguments, "--top", 2, "--json").stdout)
    assert (content["done"], content["before"]) == (0, 6)
    assert [len(one["classes"]) for one in content["classes"]] == [2] * 6
    assert len((out / "classes.csv").read_text().splitlines()) == 13


def test_labels_are_checked_before_the_work(
    nnvk_command: Any, pictures: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(threads, "run", None)
    (tmp_path / "labels.txt").write_text("one\ntwo\n")
    result = nnvk_command("map", INT8, pictures, "--out", tmp_path / "out", "--labels", tmp_path / "labels.txt")
    assert (result.exit_code, result.stderr) == (
        2,
        "nnvk: there are 2 labels, output 'probabilities' has 10 classes\n",
    )


def test_normalisation_without_an_image(nnvk_command: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((3, 1, 16, 16, 1), np.int8))
    result = nnvk_command(
        "map", INT8, tmp_path / "rows.npy", "--out", tmp_path / "out", "--mean", "0.5", "--std", "0.5"
    )
    assert (result.exit_code, result.stderr) == (2, "nnvk: mean, std and scale are for images, and no input is one\n")


def test_errors_by_row(nnvk_command: Any, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for number in range(25):
        (pictures / f"bad{number:02}.png").write_bytes(b"no image")
    (pictures / "evil\x1b[2J\n.png").write_bytes(b"no image")
    result = nnvk_command("map", INT8, pictures, "--out", out, *CPU, "--json", tmp_path / "x.json")
    assert (result.exit_code, result.stderr) == (1, "")
    summary, header, *rows, more, _, wrote = result.stdout.splitlines()
    assert summary.startswith("6 rows done in ") and summary.endswith(", 26 failed")
    assert header.split() == ["row", "error"]
    assert [row.split()[0] for row in rows] == [str(pictures / f"bad{number:02}.png") for number in range(20)]
    assert more == f"and 6 more; all errors are in {out}/errors.csv"
    assert wrote == f"wrote {tmp_path}/x.json"
    content = json.loads((tmp_path / "x.json").read_text())
    assert content["failed"] == 26
    assert [one["row"] for one in content["failures"]][-1] == str(pictures / "evil\x1b[2J\n.png")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--device", "abacus"], "there is no device 'abacus'"),
        (["--engine", "rya"], "there is no engine 'rya'; there are threads, ray; did you mean 'ray'?"),
        (["--engine", "abacus"], "there is no engine 'abacus'; there are threads, ray"),
        (["--engine", "ray", "--device", "cpu", "--device", "vulkan-0"], "give --device once"),
        (["--mean", "x"], "mean must be a number"),
        (["--shape", "image=4"], "image"),
        (["--batch", "0"], "batch"),
    ],
)
def test_wrong_use(nnvk_command: Any, pictures: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    result = nnvk_command("map", INT8, pictures, "--out", tmp_path / "out", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.glob("out/*"))


def test_nothing_is_compiled_for_an_empty_folder(nnvk_command: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(threads, "run", None)
    (tmp_path / "empty").mkdir()
    result = nnvk_command("map", INT8, tmp_path / "empty", "--out", tmp_path / "out")
    expected = f"nnvk: there are no images, .npy, .npz or .parquet files in {tmp_path / 'empty'}\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", expected)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_can_not_be_written(nnvk_command: Any, pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out, reason in ((tmp_path / "file", "file exists"), (tmp_path / "file" / "out", "not a directory")):
        for command in (["map", INT8, pictures, "--out", out], ["quickstart", "--out", out], ["demo", "--out", out]):
            result = nnvk_command(*command)
            assert (result.exit_code, result.stdout) == (2, "")
            assert result.stderr == f"nnvk: can't be written ({reason}): {out}\n"


def test_other_files(nnvk_command: Any, pictures: Path, tmp_path: Path) -> None:
    result = nnvk_command("map", INT8, tmp_path / "absent", "--out", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (2, f"nnvk: no such file or folder: {tmp_path}/absent\n")
    result = nnvk_command("map", INT8, pictures, "--out", pictures)
    assert (result.exit_code, result.stderr) == (2, f"nnvk: the results need a folder without inputs: {pictures}\n")
    result = nnvk_command("map", INT8, pictures, "--out", tmp_path)
    assert (result.exit_code, result.stderr) == (2, f"nnvk: the results need a folder without inputs: {tmp_path}\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "text").touch()
    result = nnvk_command("map", INT8, pictures, "--out", tmp_path / "other")
    assert result.exit_code == 2
    assert "is not empty, and not one of results" in result.stderr
    result = nnvk_command("map", pictures / "none.tflite", pictures, "--out", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (2, f"nnvk: no such file: {pictures}/none.tflite\n")
