"""``nnvk quickstart``: the commands that it shows can be pasted, and fit a terminal of 80 columns."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnvk.cli.main import app
from nnvk.cli.quickstart import STEPS


def test_commands_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["quickstart"])
    assert done.exit_code == 0, done.output
    shown = re.findall(r"^\d\. \$ ((?:.*\\\n)*.*)$", done.output, re.MULTILINE)
    assert len(shown) == len(STEPS)
    assert any("\\\n" in text for text in shown), "one is longer than a line"
    for text, (words, _) in zip(shown, STEPS, strict=True):
        assert max(map(len, text.split("\n"))) <= 80 - len("1. $ ")
        program, *arguments = shlex.split(text.replace("\\\n", ""))  # as a shell reads it
        assert (program, arguments[0], len(arguments)) == ("nnvk", words[0], len(words))
        assert CliRunner().invoke(app, arguments).exit_code == 0


def test_an_option_keeps_its_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["quickstart", "--out", "a folder with a name that is as long as all that"])
    assert done.exit_code == 0, done.output
    assert not re.search(r"--\w+ \\$", done.output, re.MULTILINE)
    assert "\n     --input 'a folder" in done.output
