"""The commands of the README and of docs/: each runs as it is pasted, and fits a terminal of 80 columns.

test_onnx_page.py, test_deploy.py, test_driver_page.py and test_guide.py run those of their pages that need more.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from terminal import WIDTH, apart, on_a_terminal, together, what_is_left

import nnvk
from nnvk.demo.assets import DATA, MODELS

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in sorted(ROOT.glob("docs/*.md")))]
NOT_RUN = {
    "nnvk conformance --export NeuralNetworks vectors": "needs a checkout of AOSP; tests/conformance has a small one",
    "nnvk conformance FOLDER --device example": "needs the driver of the page, which test_driver_page.py installs",
}
"""Commands that this test leaves out, and why."""
SHORTER = {"check": ["--minutes", "0"], "report": ["--runs", "2"], "conformance": ["--jobs", "0"]}
"""Options that make a command quicker."""
SHOWN = {
    page: re.findall(r"^    (nnvk [a-z][^\n]*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    for page in PAGES
}
ONCE = {line: page for page in reversed(PAGES) for line in SHOWN[page]}
"""The first page of each command."""
VECTOR = re.findall(
    r"^```json\n(.*?)^```",
    (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the pages name."""
    shutil.copytree(DATA, tmp_path / "nnvk" / "demo" / "data")
    shutil.copy(MODELS[0].path, tmp_path / "model.tflite")
    for name in ("photos", "models", "vectors", "FOLDER"):
        (tmp_path / name).mkdir()
    shutil.copy(DATA / "0007_label7.png", tmp_path / "photos")
    (tmp_path / "truth.csv").write_text("0007_label7.png,7\n")
    shutil.copy(MODELS[1].path, tmp_path / "models")
    for name in ("vectors", "FOLDER"):
        (tmp_path / name / "conv_2d.json").write_text(re.sub(r'"spec": "\w+"', '"spec": "conv_2d"', VECTOR))
    return tmp_path


def words_of(line: str) -> list[str]:
    """The words of a command behind nnvk, with an option that makes it quicker in place of its own."""
    words = shlex.split(line, comments=True)[1:]
    shorter = SHORTER.get(words[0], [])
    if shorter and shorter[0] in words:
        place = words.index(shorter[0])
        del words[place : place + 2]
    return [*words, *shorter]


@pytest.mark.skipif(len(nnvk.get_devices()) < 2, reason="the pages name vulkan-0")
@pytest.mark.parametrize("page", [page for page in PAGES if page in ONCE.values()])
def test_commands_run(page: str, folder: Path) -> None:
    # test_onnx_page.py runs those on models in ONNX.
    lines = [line for line, first in ONCE.items() if first == page and line not in NOT_RUN and ".onnx" not in line]
    printed = on_a_terminal(together([words_of(line) for line in lines]), {"BROWSER": "true"}, folder=folder)
    for line, text in zip(lines, apart(what_is_left(printed)), strict=True):
        assert text, line
        for row in text.split("\n"):
            # A path is not folded, so that it can be copied.
            assert len(row) <= WIDTH or " " not in row.strip() or row.startswith("not available: "), (line, row)


def test_commands_are_found() -> None:
    assert {line.split()[1] for line in ONCE} >= {"quickstart", "devices", "info", "run", "bench", "check", "map"}
    assert NOT_RUN.keys() <= ONCE.keys()
    assert len(ONCE) > 25
