"""``nnvk bench`` and ``nnvk demo``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tflite_net import Net, T, write

from nnvk import Device, Model, get_device, get_devices
from nnvk.cli import bench, demo
from nnvk.cli.importing import Importing
from nnvk.demo import run
from nnvk.demo.assets import DATA
from nnvk.insight import limits
from nnvk.insight.limits import Limits
from nnvk.insight.measuring import Measurement, measure

FLOAT, INT8 = DATA / "digits_float.tflite", DATA / "digits_int8.tflite"
CPU = "nnapi-reference"
AFTER = bench.LEGEND
"""The lines below a table."""


def table(result: Any, written: int = 0) -> list[str]:
    """The lines of the table, without what is below it and the names of ``written`` files."""
    lines = result.stdout.splitlines()
    end = len(lines) - written - len(AFTER)
    assert all(line.startswith(start) for line, start in zip(lines[end:], AFTER, strict=False))
    return lines[:end]


def test_a_row_for_each_model_and_device(nnvk_command: Any, tmp_path: Path) -> None:
    result = nnvk_command("bench", FLOAT, INT8, "--runs", 3, "--json", tmp_path / "bench.json")
    assert result.exit_code == 0, result.output
    header, *rows = result.stdout.splitlines()[: -len(AFTER) - 1]
    assert header.split("  ")[0] == "model"
    expected = [(model.name, device.name) for model in (FLOAT, INT8) for device in get_devices()]
    assert [tuple(row.split()[:2]) for row in rows] == expected
    written = json.loads((tmp_path / "bench.json").read_text())["measurements"]
    assert [(one["model"], one["device"]) for one in written] == expected
    for one in written:
        assert one["runs"] == 3
        assert 0 < one["min_ns"] <= one["median_ns"] <= one["p90_ns"]
        assert one["operations_on_device"] <= one["operations"]
        if one["device"] == CPU:
            assert one["operations_on_device"] == one["operations"]
            assert one["hardware_ns"] > 0


def test_named_devices_only(nnvk_command: Any) -> None:
    result = nnvk_command("bench", FLOAT, "--runs", 1, "--device", CPU)
    assert [line.split()[1] for line in table(result)] == ["device", CPU]


def test_models_of_one_name_are_told_apart(nnvk_command: Any, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        shutil.copy(FLOAT, tmp_path / folder / "model.tflite")
    models = [tmp_path / folder / "model.tflite" for folder in ("one", "two")]
    result = nnvk_command("bench", *models, "--runs", 1, "--device", CPU)
    assert [line.split()[0] for line in table(result)[1:]] == ["one/model.tflite", "two/model.tflite"]


def test_without_runs_it_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DEFAULT_SECONDS", 0.0)
    measurement = measure("model", Importing().load(FLOAT).model, get_device(CPU), Limits.of(None, None))
    assert measurement.runs == limits.LEAST_RUNS


def test_errors_are_one_line(nnvk_command: Any) -> None:
    for arguments in (
        ["absent.tflite"],
        [FLOAT, "--device", "abacus"],
        [FLOAT, "--json", "/absent/bench.json"],
        [FLOAT, "--json=/"],
    ):
        result = nnvk_command("bench", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("nnvk: ")
        assert result.stderr.count("\n") == 1


def test_a_bad_model_leaves_the_others_to_be_measured(nnvk_command: Any, tmp_path: Path) -> None:
    bad, out = tmp_path / "bad\x1b[31m.tflite", tmp_path / "bench.json"
    bad.write_bytes(b"no model")
    result = nnvk_command("bench", FLOAT, bad, INT8, "absent", "--runs", 1, "--device", CPU, "--json", out)
    assert result.exit_code == 2
    assert [line.split()[0] for line in table(result, 1)] == ["model", FLOAT.name, INT8.name]
    assert [one["model"] for one in json.loads(out.read_text())["measurements"]] == [FLOAT.name, INT8.name]
    first, second = result.stderr.splitlines()
    assert first.startswith(f"nnvk: not a .tflite file: {tmp_path}/bad\\x1b[31m.tflite (")
    assert second == "nnvk: no such file: absent"
    result = nnvk_command("bench", bad, FLOAT, "--profile", "--runs", 1, "--device", CPU)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stdout.startswith(f"{FLOAT.name} on {CPU}: ")
    result = nnvk_command("--traceback", "bench", bad, FLOAT, "--runs", 1, "--device", CPU)
    assert result.exit_code == 2
    assert "TfliteImportError" in result.stderr
    assert FLOAT.name in result.stdout, "the others are measured all the same"


def test_a_shape_applies_to_the_models_that_have_the_input(nnvk_command: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.tflite"
    net = Net([T("FLOAT32", (1, 2), name="numbers")], [T("FLOAT32", (1, 2), name="out")])
    net.op("NEG", net.inputs, net.outputs)
    other.write_bytes(write(net))
    arguments = ["--runs", 1, "--device", CPU]
    result = nnvk_command("bench", FLOAT, other, "--shape", "numbers=4x2", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split()[0] for line in table(result)] == ["model", FLOAT.name, other.name]
    for command in (["bench", FLOAT, other, *arguments], ["report", FLOAT, other], ["tune", FLOAT, other]):
        wrong = nnvk_command(*command, "--shape", "numbesr=4x2")
        assert (wrong.exit_code, wrong.stdout) == (2, "")
        assert wrong.stderr.startswith("nnvk: no input of the model")
        assert wrong.stderr.endswith("; did you mean 'numbers'?\n")


def test_profiles_as_json(nnvk_command: Any) -> None:
    result = nnvk_command("bench", FLOAT, "--profile", "--runs", 2, "--json")
    assert result.exit_code == 0
    profiles = json.loads(result.stdout)["profiles"]
    assert [one["device"] for one in profiles] == [device.name for device in get_devices()]
    for one in profiles:
        assert one["runs"] == 2
        assert sum(part["share"] for part in one["parts"]) == pytest.approx(1)
        operations = {(part["number"], part["operation"], tuple(part["dimensions"])) for part in one["parts"]}
        assert {(0, "CONV_2D", (1, 16, 16, 16)), (10, "SOFTMAX", (1, 10))} <= operations


@pytest.mark.parametrize(
    ("runs", "seconds", "made"), [(3, None, 3), (2, 0.0, 2), (None, 0.0, 5), (7, 0.0, 5), (7, 60.0, 7)]
)
def test_limits(runs: int | None, seconds: float | None, made: int) -> None:
    assert len(Limits.of(runs, seconds).repeat(lambda: 0)) == made


def test_a_device_that_fails_leaves_the_others(nnvk_command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is short, say."""

    def fail(title: str, model: Model, device: Device, runs: Limits, inputs: Sequence[np.ndarray]) -> Measurement:
        if title == INT8.name:
            raise MemoryError("3 GiB")
        return measure(title, model, device, runs, inputs)

    monkeypatch.setattr("nnvk.insight.measuring.measure", fail)
    result = nnvk_command("bench", INT8, FLOAT, "--runs", 1, "--device", CPU)
    assert (result.exit_code, len(table(result))) == (2, 2)
    assert result.stderr == f"nnvk: {INT8.name} on {CPU}: not enough memory: 3 GiB\n"


def test_targets_are_checked_before_the_work(
    nnvk_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Importing, "open", lambda *_: pytest.fail("it loads"))
    result = nnvk_command("bench", FLOAT, "--json", tmp_path / "absent" / "x.json")
    reason = f"can't write x.json there (there is no such folder): {tmp_path}/absent"
    assert (result.exit_code, result.stderr) == (2, f"nnvk: {reason}\n")
    result = nnvk_command("bench", FLOAT, "--json", tmp_path / "x.json", "--device", "abacus")
    assert result.exit_code == 2
    assert not list(tmp_path.iterdir()), "the check leaves nothing behind"


@pytest.mark.parametrize("name", ["folder/below", "sheet.png", "below/sheet.PNG"])
def test_demo_writes_its_sheet(nnvk_command: Any, tmp_path: Path, name: str) -> None:
    result = nnvk_command("demo", "--out", tmp_path / name, "--device", CPU)
    assert result.exit_code == 0, result.output
    sheet = tmp_path / name if name.lower().endswith(".png") else tmp_path / name / demo.SHEET
    assert [" right, " in line for line in result.stdout.splitlines()[:3]] == [True, True, False]
    assert result.stdout.splitlines()[-1] == f"contact sheet: {sheet}"
    assert not set("│┃─━") & set(result.stdout)
    with Image.open(sheet) as image:
        assert image.format == "PNG"


def test_demo_passes_its_status_on(nnvk_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LEAST_ACCURACY", 1.01)
    assert nnvk_command("demo", "--out", tmp_path).exit_code == 1


def test_demo_on_an_unknown_device(nnvk_command: Any, tmp_path: Path) -> None:
    for name in ("abacus", "numpy", "REFERENCE"):  # other commands know no parts of names either
        result = nnvk_command("demo", "--out", tmp_path / "sheets", "--device", name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"nnvk: there is no device {name!r}; the devices are ")
    assert not list(tmp_path.iterdir())


def test_demo_says_that_a_png_is_a_file(nnvk_command: Any) -> None:
    assert "ends in .png" in " ".join(nnvk_command("demo", "--help").stdout.split())
