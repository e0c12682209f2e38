"""The README: its Python runs, and it names every command and every setting."""

import re
import shutil
from dataclasses import fields
from pathlib import Path

import pytest

from nnvk.base.settings import Settings
from nnvk.cli.main import COMMANDS
from nnvk.demo.assets import MODELS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.title)
def test_example_runs(number, model, tmp_path, monkeypatch, capsys):
    shutil.copy(model.path, tmp_path / "model.tflite")
    monkeypatch.chdir(tmp_path)
    exec(compile(EXAMPLES[number], f"README.md, example {number}", "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    promised = re.findall(r"print\(.*\)  # (.*)$", EXAMPLES[number], re.MULTILINE)
    assert printed
    assert not promised or printed.split() == promised[0].split(", ")


def test_examples_are_there():
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_command_is_named(name):
    assert f"| `nnvk {name}" in README


@pytest.mark.parametrize("field", fields(Settings), ids=lambda field: field.name)
def test_setting_is_named(field):
    assert re.search(rf"^\| `NNVK_{field.name.upper()}[`=]", README, re.MULTILINE)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))])
def test_links_lead_somewhere(page):
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    headings = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.split("\n")}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif "://" not in target:
            assert (path.parent / target.partition("#")[0]).exists(), target
