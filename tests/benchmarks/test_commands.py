"""No model has more commands than are kept in benchmarks/results/commands.json."""

from __future__ import annotations

import json
from pathlib import Path

import commands
import pytest
from plan_dump import SUFFIXES

from nnvk.demo.assets import DATA

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"


@pytest.mark.parametrize(
    "folder", [DATA, pytest.param(MODELS, marks=pytest.mark.skipif(not MODELS.is_dir(), reason="no models"))]
)
def test_no_model_has_more_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main([str(folder), "--check"]) == 0, capsys.readouterr().out
    files = [file for file in folder.rglob("*") if file.suffix in SUFFIXES]
    assert {f"{file.parent.name}/{file.name}" for file in files} <= json.loads(commands.KEPT.read_text()).keys()


def test_more_commands_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "KEPT", tmp_path / "commands.json")
    commands.KEPT.write_text("{}")
    assert commands.main([str(DATA / "digits_int8.tflite"), "--save"]) == 0
    count = json.loads(commands.KEPT.read_text())["data/digits_int8.tflite"]
    commands.KEPT.write_text(json.dumps({"data/digits_int8.tflite": count - 1}))
    assert commands.main([str(DATA / "digits_int8.tflite"), "--check"]) == 1
    assert f"data/digits_int8.tflite has {count} commands, {count - 1} are kept" in capsys.readouterr().out
