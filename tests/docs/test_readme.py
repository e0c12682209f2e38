"""The README and the pages of docs/: what they show runs, and they name every command and every setting."""

import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnvk import FeatureLevelCode
from nnvk.base.settings import Settings
from nnvk.cli.main import COMMANDS, app
from nnvk.demo.assets import DATA, MODELS
from nnvk.driver.vulkan.planning import plan_folder

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN_IN = ("README.md", "docs/index.md", "docs/litert.md", "docs/pytorch.md")
EXAMPLES = [
    (f"{page}-{number}", code)
    for page in SHOWN_IN
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
]


@pytest.mark.parametrize(("place", "code"), EXAMPLES, ids=[place for place, _ in EXAMPLES])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.title)
def test_example_runs(place, code, model, tmp_path, monkeypatch, capsys):
    """As it is pasted, beside a model and a photo."""
    shutil.copy(model.path, tmp_path / "model.tflite")
    shutil.copy(DATA / "0007_label7.png", tmp_path / "photo.png")
    monkeypatch.chdir(tmp_path)
    for package in ("ai_edge_litert", "torch"):
        if f"import {package}" in code or f"from {package}" in code:
            pytest.importorskip(package)
    exec(compile(code, place, "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    promised = re.findall(r"print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert printed
    assert not promised or printed.split() == promised[0].split(", ")


def test_git_ignores_what_the_commands_write():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/index.md")]
    written = set(re.findall(r" (?:--out|--html|-o) ([\w.-]+)", "".join(pages))) | {"nnvk-quickstart/x", "demo-out/x"}
    assert {"add", "report.html", "results"} <= written
    written = written - {"results"} | {"results/x"}
    ignored = subprocess.run(["git", "check-ignore", *written], cwd=ROOT, capture_output=True, text=True).stdout
    assert set(ignored.split()) == written


def test_examples_are_there():
    assert [place for place, _ in EXAMPLES] == [
        "README.md-0",
        "README.md-1",
        "docs/index.md-0",
        "docs/index.md-1",
        "docs/litert.md-0",
        "docs/litert.md-1",
        "docs/pytorch.md-0",
    ]


def test_it_is_short_and_has_both_commands():
    assert len(README.splitlines()) <= 150
    commands = re.findall(r"^    (bash .*)$", README, re.MULTILINE)
    assert commands == ["bash scripts/demo.sh", "bash scripts/test.sh"]


def test_the_badges_are_true():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    versions = re.findall(r"Python :: (3\.\d+)", project)
    (licence,) = re.findall(r'^license = "(.*)"$', project, re.MULTILINE)
    level = max(FeatureLevelCode)
    badges = re.findall(r"^!\[(.*)\]\(https://img.shields.io/badge/(.*)\)$", README, re.MULTILINE)
    assert [text for text, _ in badges] == [
        f"Python {versions[0]} to {versions[-1]}",
        f"License: {licence}",
        f"NNAPI feature level {level.name.removeprefix('LEVEL_')}",
        "Vulkan 1.1",
    ]
    for text, badge in badges:
        shown = badge.replace("--", "~").replace("-", " ").replace("_", " ").replace("~", "-").removesuffix(" blue")
        assert shown.lower() == text.replace(":", "").lower()


def test_three_lines_come_first():
    """The title, a paragraph for readers who have not heard of NNAPI, and the shortest program."""
    (title, purpose), first = README.split("\n\n```python\n")[0].split("\n\n"), EXAMPLES[0][1]
    assert title == "# nnvk"
    assert len(purpose.split()) < 50
    assert "NNAPI" not in purpose
    statements = [line for line in first.splitlines() if line]
    assert [line.partition("(")[0].split(" ")[0] for line in statements] == ["import", "model", "outputs", "print"]


def test_both_programs_for_android_do_the_same(capsys):
    page = (ROOT / "docs" / "from-android.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(program, "from-android.md", "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out.strip()
    assert re.findall(r"(?://|#) (\d+ \d+)$", page, re.MULTILINE) == [printed, printed]
    called = set(re.findall(r"\b(ANeuralNetworks\w*_\w+)\(", page))
    table = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert len(called) > 15
    assert all(f"`{name}`" in table for name in called)


def test_the_vector_that_is_shown_runs(tmp_path):
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    (vector,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "relu.json").write_text(vector)
    result = CliRunner().invoke(app, ["conformance", str(tmp_path), "--jobs", "0", "--device", "cpu"])
    assert result.exit_code == 0
    assert "1 test, 1 passed, 0 failed" in result.output


def test_options_of_the_delegate_are_named():
    page = (ROOT / "docs" / "litert.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"there are (device, .*?)\"", (ROOT / "clib" / "delegate" / "plugin.cpp").read_text())
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == listed.split(", ")


@pytest.mark.parametrize("name", COMMANDS)
def test_command_is_named(name):
    assert f"| `nnvk {name}" in (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("field", fields(Settings), ids=lambda field: field.name)
def test_setting_is_named(field):
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `NNVK_{field.name.upper()}[`=]", page, re.MULTILINE)


def test_the_bounds_of_kept_plans_are_named():
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert f"at least {plan_folder.LEAST_OPERATIONS} operations" in page
    most = f"at most {plan_folder.MOST_PLAN_BYTES >> 20} MiB for each model and {plan_folder.MOST_BYTES >> 20} MiB"
    assert most in page


def headings(page):
    lines = page.read_text(encoding="utf-8").split("\n")
    return {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in lines if line[:1] == "#"}


TEXTS = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
PAGES = [*TEXTS, *(f"docs/{page.name}" for page in sorted(ROOT.glob("docs/*.md")))]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = ROOT / page
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        linked = path.parent / name if name else path
        assert linked.exists(), target
        assert not heading or heading in headings(linked), target
