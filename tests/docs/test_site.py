"""The site of docs/: it builds without a warning, its links lead somewhere, and it fetches nothing to be read."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("mkdocs.yml", "docs", "benchmarks", "examples", "tools", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))

pytestmark = [
    pytest.mark.skipif(find_spec(package) is None, reason=f"needs {package}")
    for package in ("material", "nbconvert", "ipykernel", "matplotlib", "pyopen_wakeword")
]


class Links(HTMLParser):
    """The links, the anchors and the addresses that a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.add(values.get("id", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in ("script", "img") and "src" in values:
            self.loaded.append(values["src"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(values["href"])


def build(root: Path, out: Path, *, execute: bool) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    environment["EXECUTE_NOTEBOOKS"] = str(execute).lower()
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for all workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site"
    with (out.parent / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            done = build(ROOT, out.with_name("unfinished-site"), execute=True)
            assert done.returncode == 0, done.stderr
            out.with_name("unfinished-site").rename(out)
    return out


def test_all_pages_are_there(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} | {
        "changelog",
        "contributing",
        "security",
        "benchmarks",
    }
    assert {path.stem for path in NOTEBOOKS} == {page.stem for page in (site / "notebooks").glob("*.html")}
    assert pages <= {page.stem for page in site.glob("*.html")}


def test_links_lead_somewhere(site: Path) -> None:
    pages = {page: Links(page.read_text(encoding="utf-8")) for page in site.rglob("*.html") if page.name != "404.html"}
    wrong = []
    for page, found in pages.items():
        for link in (*found.links, *found.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                wrong.append(f"{page.name}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{page.name}: {link} has no such anchor")
    assert not wrong
    assert sum(len(found.links) for found in pages.values()) > 1000


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """The badges of the README, which needs no site, are the only pictures from elsewhere."""
    for page in site.rglob("*.html"):
        loaded = Links(page.read_text(encoding="utf-8")).loaded
        assert [address for address in loaded if urlsplit(address).netloc] == [], page.name


def test_lists_and_line_breaks(site: Path) -> None:
    """A list that follows a sentence without an empty line, and a backslash, as in the page of the C interface."""
    text = (site / "c-api.html").read_text(encoding="utf-8")
    assert text.count("<li>") > 100
    assert text.count("<br") > 50
    assert "\\\n" not in text
    assert not re.search(r"^- (?:<code>|Feature)", text, re.MULTILINE)


def shown(site: Path, name: str) -> str:
    """The text of a notebook's page, as a reader sees it."""
    page = (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
    return unescape(re.sub(r"<[^>]*>", "", page.partition("<article")[2].partition("</article>")[0]))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_have_their_pictures(site: Path, path: Path) -> None:
    page = site / "notebooks" / f"{path.stem}.html"
    pictures = [address for address in Links(page.read_text(encoding="utf-8")).loaded if address.endswith(".png")]
    charts = path.read_text(encoding="utf-8").count("plt.subplots")
    assert len([name for name in pictures if path.stem in name]) == charts >= 1
    assert all((page.parent / name).stat().st_size > 5000 for name in pictures if path.stem in name)
    assert "Traceback" not in shown(site, path.stem)


def test_notebooks_print_what_their_text_says(site: Path) -> None:
    (right,) = re.findall(r"^(\d+) of 60 are right$", shown(site, "classification"), re.MULTILINE)
    assert int(right) >= 57
    answers = shown(site, "semantic_search")
    for question, page in (
        ("which distributions of Linux are tested", "faq"),
        ("why is the first call slow", "faq"),
        ("rows that failed are tried again", "command-line"),
    ):
        assert re.search(rf"^{question}\n(?:  \d.*\n)*  \d\.\d\d  {page}: ", answers, re.MULTILINE), question
    scores = dict(re.findall(r"^(\w+): best score ([\d.]+) at", shown(site, "wake_word"), re.MULTILINE))
    assert float(scores["alexa"]) > 0.9
    assert float(scores["hey_jarvis"]) < 0.1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    """`.venv/bin/jupyter nbconvert --clear-output --inplace FILE` removes them."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_files_of_examples_are_quoted(site: Path) -> None:
    page = (site / "deploy.html").read_text(encoding="utf-8")
    text = unescape(re.sub(r"<[^>]*>", "", page))
    files = "service/service.py", "service/nnvk-service.service", "frigate/nnvk_detector.py", "photo_server/server.py"
    for name in files:
        assert (ROOT / "examples" / name).read_text(encoding="utf-8") in text


def test_broken_links_fail(tmp_path: Path) -> None:
    wrong = ["absent.md", "api.md#absent", "images/absent.png"]
    for name in NEEDED:
        path = ROOT / name
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / name)
    with (tmp_path / "docs" / "faq.md").open("a", encoding="utf-8") as page:
        page.write("".join(f"\n[a]({address})\n" for address in wrong))
    done = build(tmp_path, tmp_path / "site", execute=False)
    assert done.returncode != 0
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line and "faq.md" in line]
    assert [address for address in wrong if not any(address in line for line in warnings)] == []
