"""The commands and the code of docs/models.md on models in ONNX, one after the other, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnvk.cli.main import app

pytest.importorskip("onnx")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Models in ONNX\n")[2].partition("\n## ")[0]
STEPS = re.findall(r"^```python\n(.*?)^```$|^    (nnvk [^\n]*)$", SECTION, re.MULTILINE | re.DOTALL)


def test_code_and_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert [bool(code) for code, _ in STEPS] == [True, False, False, False, True]
    names: dict[str, object] = {}
    for code, command in STEPS:
        if code:
            exec(code, names)
        else:
            done = CliRunner().invoke(app, command.split()[1:])
            assert done.exit_code == 0, done.output
    assert capsys.readouterr().out.strip() in STEPS[-1][0]
