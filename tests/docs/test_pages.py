"""The pages in docs/: the files they name exist."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDES = "".join(page.read_text("utf-8") for page in sorted(ROOT.glob("docs/add-a*.md")))
WRITTEN = set(re.findall(r"^`(\S+)`\n\n```", GUIDES, re.MULTILINE))
"""The files that the guides write."""
TEXTS = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
PAGES = [*TEXTS, *(f"docs/{page.name}" for page in sorted(ROOT.glob("docs/*.md")))]


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in re.findall(r"`((?:nnvk|shaders|native|tests|tools|scripts|docs|cmake)/[\w/.-]*)`", text):
        assert name in WRITTEN or (ROOT / name).exists(), name


@pytest.mark.parametrize("page", PAGES)
def test_no_paragraph_stands_twice(page):
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    paragraphs = sorted(part for part in text.split("\n\n") if len(part) > 120 and part[0] != "|")
    assert paragraphs == sorted(set(paragraphs))


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/release.md"])
def test_nnvk_is_not_installed_from_pypi(page):
    """Until it is there, the name may be a stranger's: a command names a file, or a folder without the index."""
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        if re.search(r"""pip install\b[^`]*[ "']nnvk(?:[\[ "'`]|$)""", line):
            assert "--no-index" in line, line


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_writing_the_pages_leaves_the_picture_alone():
    """It shows the times of the machine that drew it: only a change of the demo is worth another."""
    commands = {
        target: subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for target in ("docs", "picture")
    }
    assert "operations_doc.py" in commands["docs"]
    assert "demo" not in commands["docs"]
    assert "demo --out docs/images/demo.png" in commands["picture"]
