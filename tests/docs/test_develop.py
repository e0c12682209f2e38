"""The commands of docs/develop.md: their targets, options, scripts, tests and variables exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from nnvk.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "develop.md").read_text(encoding="utf-8")
COMMANDS = [*re.findall(r"`([^`\n]+)`", PAGE), *re.findall(r"^    (\S.*)$", PAGE, re.MULTILINE)]
TARGETS = sorted({name for text in COMMANDS for name in re.findall(r"^make ([a-z]+)", text)})
NNVK = [text for text in COMMANDS if re.match(r"(?:[A-Z_]+=\S+ )*nnvk ", text)]


def targets() -> dict[str, str]:
    """The targets that `make help` lists, with their descriptions."""
    done = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines())


def test_the_page_has_commands() -> None:
    assert "quick" in TARGETS
    assert len(NNVK) > 5


@pytest.mark.parametrize("target", TARGETS)
def test_targets_exist(target: str) -> None:
    assert target in targets()


def test_help_lists_all_targets() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert phony is not None
    assert targets().keys() == set(phony[1].split())


@pytest.mark.parametrize("text", NNVK)
def test_options_exist(text: str) -> None:
    words = re.sub(r"^(?:[A-Z_]+=\S+ )*nnvk ", "", text).split()
    group: Any = typer.main.get_command(app)
    _, command, words = group.resolve_command(typer.Context(group), words)
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options


def test_variables_are_described() -> None:
    described = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    named = set(re.findall(r"NNVK_[A-Z_]+", PAGE))
    assert {name for name in named if f"`{name}" not in described} == set()
