"""Programs of others, which know nothing of nnvk: their answers are those without it. They are mostly absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import unchanged_programs

PATHS = sorted(unchanged_programs.PROGRAMS.glob("*.py"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
@pytest.mark.timeout(600)  # some import for a minute
def test_the_answers_are_those_without_nnvk(path: Path) -> None:
    if not unchanged_programs.is_installed(path):
        pytest.skip("needs {} {}".format(*unchanged_programs.package(path)))
    (plain, _), (own, said) = (unchanged_programs.run(path, own=own, calls=2) for own in (False, True))
    is_equal, difference = unchanged_programs.differences(plain["answer"], own["answer"])
    assert plain["answer"]
    assert is_equal and difference <= 0.02, (plain["answer"], own["answer"])
    assert " on nnvk in " in said


def test_the_page_has_what_was_measured_of_each_program() -> None:
    if not unchanged_programs.PAGE.is_file():
        pytest.skip("needs the checkout")
    results = json.loads(unchanged_programs.RESULTS.read_text(encoding="utf-8"))
    measured = {name: (row["package"], row["version"]) for name, row in results.items()}
    assert measured == {path.stem: unchanged_programs.package(path) for path in PATHS}
    text = unchanged_programs.PAGE.read_text(encoding="utf-8")
    assert unchanged_programs.page(text, results) == text, "run python benchmarks/unchanged_programs.py"


def test_differences() -> None:
    equal, difference = unchanged_programs.differences("markdown 1.00\n[3, 4] -0.5", "markdown 0.98\n[3, 4] -0.5")
    assert equal and difference == pytest.approx(0.02)
    assert unchanged_programs.differences("Hello 1", "Hello 2") == (False, 0)
    assert unchanged_programs.differences("a 0.5", "a 0.5 0.5")[0] is False


def test_a_program_that_is_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text('"""Does something: ``pip install no-such-package==1.0``."""')
    assert unchanged_programs.package(path) == ("no-such-package", "1.0")
    assert not unchanged_programs.is_installed(path)
