"""The mutation tool: which mutants it finds, which tests it runs for one, and what it says of them."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import mutate
import pytest

NESTED = '''\
"""A docstring stays."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Class:
    """Decorators stay."""


def clamped(size: int = 3, *rest: int) -> int:
    """This one, too."""
    if size <= 1 and rest:
        raise ValueError(f"{size + 1} is a text")
    numbers = [one for one in rest if (one) is not None]
    numbers.append(max(size, 2))
    size += 1
    rest.count = True
    return sum(numbers, size) // len(zip(rest, strict=True))
'''


def found(path: Path, source: str) -> list[mutate.Mutant]:
    (path / "package").mkdir(exist_ok=True)
    (path / "package" / "module.py").write_text(source)
    return mutate.mutants(path, "package")


def test_every_mutant_is_another_program(tmp_path: Path) -> None:
    source = Path(mutate.__file__).read_text()
    every = found(tmp_path, source)
    assert len(every) > 200
    for mutant in every[::7]:
        changed = ast.parse(mutant.apply(source.encode()))
        assert ast.dump(changed) != ast.dump(ast.parse(source)), mutant


def test_all_operators(tmp_path: Path) -> None:
    source = NESTED.encode()
    lines = [
        (one.lines.start, one.operator, mutate.Mutant.apply(one, source).decode().splitlines()[one.lines.start - 1])
        for one in found(tmp_path, NESTED)
    ]
    expected = """
        10 constant off by one: def clamped(size: int = (3 + 1), *rest: int) -> int:
        12 comparison swapped: if size < 1 and rest:
        12 constant off by one: if size <= (1 + 1) and rest:
        12 and/or swapped: if size <= 1 or rest:
        12 branch negated: if (not (size <= 1 and rest)):
        13 statement dropped: pass
        14 comparison swapped: numbers = [one for one in rest if (one) is None]
        14 branch negated: numbers = [one for one in rest if (not ((one) is not None))]
        15 function swapped: numbers.append(min(size, 2))
        15 arguments swapped: numbers.append(max(2, size))
        15 constant off by one: numbers.append(max(size, (2 + 1)))
        15 statement dropped: pass
        16 constant off by one: size += (1 + 1)
        16 statement dropped: pass
        17 constant negated: rest.count = False
        17 statement dropped: pass
        18 arguments swapped: return sum(size, numbers) // len(zip(rest, strict=True))
        18 arithmetic swapped: return sum(numbers, size) * len(zip(rest, strict=True))
    """
    assert sorted(f"{line} {operator}: {text.strip()}" for line, operator, text in lines) == sorted(
        textwrap.dedent(expected).strip().splitlines()
    )


def test_a_sample_has_all_operators_and_depends_on_its_seed(tmp_path: Path) -> None:
    every = found(tmp_path, Path(mutate.__file__).read_text())
    operators = {one.operator for one in every}
    sample = mutate.drawn(every, len(operators), 3)
    assert {one.operator for one in sample} == operators
    assert sample == mutate.drawn(every, len(operators), 3)
    assert sample != mutate.drawn(every, len(operators), 4)


REPORT = {
    "files": {
        "package/module.py": {
            "contexts": {
                "5": [""],
                "7": ["tests.test_a.test_slow", "tests.test_a.test_quick", "tests.test_a.test_failing"],
                "9": ["tests.test_a.test_other"],
            }
        }
    }
}
CASES = ElementTree.fromstring("""
    <suite>
        <testcase classname="tests.test_a" name="test_slow[1]" time="2"/>
        <testcase classname="tests.test_a" name="test_slow[2]" time="3"/>
        <testcase classname="tests.test_a" name="test_quick" time="1"/>
        <testcase classname="tests.test_a" name="test_other" time="0.5"/>
        <testcase classname="tests.test_a" name="test_failing" time="1"><failure/></testcase>
    </suite>
""")


def of_line(line: int) -> mutate.Mutant:
    return mutate.Mutant("package/module.py", "", range(line, line + 1), 0, 1, "")


def test_the_quickest_tests_that_reach_a_line_come_first() -> None:
    reach = mutate.reach_of(REPORT, CASES.iter("testcase"))
    slow, quick, other = (f"tests/test_a.py::test_{name}" for name in ("slow", "quick", "other"))
    assert reach.of(of_line(7)) == [quick, slow]
    assert reach.of(of_line(5)) == [other, quick, slow]  # runs at import
    assert reach.of(of_line(8)) == []
    assert mutate._affordable([quick, slow], reach, 5.5) == ([quick], 1)
    assert mutate._affordable([quick, slow], reach, 6) == ([quick, slow], 6)


def test_what_becomes_of_mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def waits(number):\n    while number > 0:\n        number -= 1\n    return number\n"
    every = found(tmp_path, source)
    (tmp_path / "test_it.py").write_text(
        "import pathlib, sys\nsys.path.insert(0, str(pathlib.Path(__file__).parent / 'package'))\n"
        "import module\n\n\ndef test_it():\n    assert module.waits(3) == 0\n"
    )
    contexts = {str(line): ["test_it.test_it"] for line in (2, 3)}
    report = {"files": {"package/module.py": {"contexts": contexts}}}
    case = ElementTree.fromstring('<testcase classname="test_it" name="test_it" time="0.1"/>')
    monkeypatch.setattr(mutate, "_SPARE_SECONDS", 6)
    results = {
        line.rpartition(" (")[0]: result
        for _, result, line in mutate.examine(tmp_path, every, mutate.reach_of(report, [case]), 60)
    }
    at = "package/module.py"
    assert results == {
        f"killed: {at}:2: comparison swapped: > -> >=": "killed",
        f"killed: {at}:2: constant off by one: 0 -> (0 + 1)": "killed",
        f"timed out: {at}:3: statement dropped: number -= 1 -> pass": "timed out",
        f"killed: {at}:3: constant off by one: 1 -> (1 + 1)": "killed",
    }
    assert (tmp_path / at).read_text() == source
