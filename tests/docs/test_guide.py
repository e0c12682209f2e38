"""The guides to new operations, passes and tiles, carried out: listings go into a copy of the tree, commands run there.

The sections of a guide share a copy, where each of their commands runs once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

import nnvk
from nnvk.driver.vulkan.shaders.library import FOLDER

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / name for name in ("add-an-operation.md", "add-a-pass.md", "add-a-tile.md")]
LISTING = re.compile(r"^`([\w/.]+)`(?:, after `([^`\n]+)`)?\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^    ((?:make|pytest) [^\n]*)$", re.MULTILINE)
PASSED = re.compile(r"\b[1-9]\d* passed")
SECTIONS = {
    "operation": ("## 1. The number", "Then run everything"),
    "family": ("## A member of a family", "## An operator of ONNX or TFLite"),
    "operator": ("## An operator of ONNX or TFLite", "## A variant for an optional feature"),
    "variant": ("## A variant for an optional feature", "## Shorter ways"),
    "pass": ("## 1. The pass", "`nnvk plan MODEL --passes` shows what the pass changes"),
    "tile": ("## 1. The module", "`test_every_strategy` takes each tile of the folder"),
}
"""The parts of the pages, by the headings or sentences that they begin and end with."""
TREES = {"operations": (("operation", "family", "operator"), ("variant",)), "passes and tiles": (("pass",), ("tile",))}
"""The sections that go into each copy, and those that build on them afterwards."""
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "demo-out", "spirv")

needs_tools = pytest.mark.skipif(
    find_spec("cmeel") is None or shutil.which("make") is None, reason="there is no compiler of shaders, or no make"
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: files to write, then commands to run."""

    listings: tuple[tuple[str, str, str], ...]
    """Each file's path, the line after which the text is inserted ("" for a whole file), and the text."""
    commands: tuple[str, ...]


def section(name: str, page: str) -> Section:
    """A part of the page."""
    begin, end = SECTIONS[name]
    assert page.count(begin) == page.count(end) == 1, (begin, end)
    text = page.partition(begin)[2].partition(end)[0]
    return Section(tuple(LISTING.findall(text)), tuple(COMMAND.findall(text)))


def write(tree: Path, listings: tuple[tuple[str, str, str], ...]) -> None:
    """Write the files of a section into a tree, or insert their lines."""
    for path, after, text in listings:
        file = tree / path
        if after:
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            (place,) = (number for number, line in enumerate(lines, start=1) if line.strip() == after)
            lines.insert(place, text)
            text = "".join(lines)
        else:
            assert file.parent.is_dir(), path
        file.write_text(text, encoding="utf-8")


def run(tree: Path, command: str) -> str:
    """The output of a command of the page, which must end well. Commands run with the Python of this test."""
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(tree)}
    script = f'pytest() {{ "$PYTHON" -m pytest -q -p no:cacheprovider "$@"; }}\n{command}'
    done = subprocess.run(
        ["bash", "-c", script], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"
    return done.stdout


def follow(tree: Path, names: Sequence[str], page: str) -> None:
    """Carry parts of the page out. Each command with tests must run some."""
    parts = [section(name, page) for name in names]
    for part in parts:
        write(tree, part.listings)
        assert part.commands
        changes_shaders = any(path.startswith("shaders/") for path, _, _ in part.listings)
        assert not changes_shaders or part.commands[0] == "make shaders"
    for command in dict.fromkeys(command for part in parts for command in part.commands):
        output = run(tree, command)
        assert not command.startswith("pytest") or PASSED.search(output), f"{command}\n{output}"


def copied(tree: Path) -> Path:
    """A copy of the source tree, with the extension module and the shaders of the package under test."""
    shutil.copytree(ROOT, tree, ignore=NOT_COPIED)
    shutil.copytree(FOLDER, tree / "nnvk" / "driver" / "vulkan" / "spirv")
    for package in nnvk.__path__:
        for module in Path(package).glob("_native*.so"):
            shutil.copy(module, tree / "nnvk")
    return tree


@pytest.fixture(scope="module")
def page() -> str:
    """The text of all guides."""
    return "".join(page.read_text(encoding="utf-8") for page in PAGES)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A copy of the source tree."""
    yield copied(tmp_path / "tree")
    shutil.rmtree(tmp_path / "tree")


def test_an_operation_is_four_files(page: str) -> None:
    listings = section("operation", page).listings
    assert [path.partition("/")[0] for path, after, _ in listings if not after] == ["nnvk", "shaders", "nnvk", "tests"]
    assert [path for path, after, _ in listings if after] == ["nnvk/types/extension.py"]


def test_a_tile_is_two_files(page: str) -> None:
    listings = section("tile", page).listings
    assert [(path.partition("/")[0], after) for path, after, _ in listings] == [("nnvk", ""), ("shaders", "")]


def test_listings_of_new_files_are_new(page: str) -> None:
    """The guide would overwrite a file that the tree has."""
    names = {path for name in SECTIONS for path, after, _ in section(name, page).listings if not after}
    assert not [name for name in names if (ROOT / name).exists()]


@needs_tools
@pytest.mark.parametrize("name", TREES)
def test_the_guide(tree: Path, page: str, name: str) -> None:
    left_out = () if find_spec("onnxruntime") else ("operator",)
    for names in TREES[name]:
        follow(tree, [name for name in names if name not in left_out], page)


def test_what_goes_wrong_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="false"):
        run(tmp_path, "false")
    (tmp_path / "test_none.py").write_text("import pytest\n\n@pytest.mark.skip\ndef test_none(): pass\n")
    assert PASSED.search(run(tmp_path, "pytest test_none.py")) is None
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    assert PASSED.search(run(tmp_path, "pytest test_one.py"))
    with pytest.raises(ValueError, match="not enough values"):
        write(tmp_path, (("test_one.py", "no such line", "text"),))
