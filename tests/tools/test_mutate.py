"""The mutation tool: which mutants it finds, which tests it runs for one, and what it says of them."""

from __future__ import annotations

import ast
import contextlib
import textwrap
from pathlib import Path

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


def test_what_runs_at_import(tmp_path: Path) -> None:
    """Tables and defaults do, and bodies of functions do not."""
    source = """
    ONE = 1
    class Two:
        two = 2
        def method(self, three=3, *, four=4):
            return 5
    TABLE = {"six": 6}
    def function():
        def inner(seven=7):
            return 8
        return inner
    """
    found_ = found(tmp_path, textwrap.dedent(source))
    numbers = {mutant.text.strip("()")[0]: mutant.at_import for mutant in found_}
    assert numbers == {**dict.fromkeys("12346", True), **dict.fromkeys("578", False)}


def test_a_sample_has_all_operators_and_depends_on_its_seed(tmp_path: Path) -> None:
    every = found(tmp_path, Path(mutate.__file__).read_text())
    operators = {one.operator for one in every}
    sample = mutate.drawn(every, len(operators), 3)
    assert {one.operator for one in sample} == operators
    assert sample == mutate.drawn(every, len(operators), 3)
    assert sample != mutate.drawn(every, len(operators), 4)


SOURCE = "package/module.py"
MEASURED = {
    "sources": {SOURCE: "as it is"},
    "lines": {
        SOURCE: {
            "5": [""],
            "7": ["tests/test_a.py::test_slow", "tests/test_b.py::test_cases[1]", "tests/test_b.py::test_cases[2]"],
            "9": ["tests/test_a.py::test_other", "tests/test_a.py::test_failing", ""],
        }
    },
    "seconds": {
        "tests/test_a.py::test_slow": 5.0,
        "tests/test_b.py::test_cases[1]": 2.0,
        "tests/test_b.py::test_cases[2]": 1.0,
        "tests/test_a.py::test_other": 0.5,
    },
    "with_processes": ["tests/test_a.py::test_other", "tests/test_a.py::test_failing"],
}
SLOW, FIRST, SECOND, OTHER = MEASURED["seconds"]


def of_line(line: int, *, at_import: bool = False) -> mutate.Mutant:
    return mutate.Mutant(SOURCE, "", range(line, line + 1), 0, 1, "", at_import)


def test_which_tests_reach_a_line() -> None:
    """One case of each function comes before the second of any. Tests that fail as it is reach nothing."""
    reach = mutate.merged([MEASURED], {SOURCE: "as it is"}, {}.__getitem__)
    assert reach.of(of_line(7)) == [SECOND, SLOW, FIRST]
    assert reach.of(of_line(5, at_import=True)) == [OTHER, SECOND, SLOW, FIRST]
    assert reach.of(of_line(9)) == [OTHER]
    assert reach.of(of_line(8)) == [OTHER], "it may run in another process"


def test_lines_of_a_source_that_has_changed() -> None:
    """Those that have moved keep their tests, and all tests of the file reach a new one."""
    before = [f"line {number}" for number in range(1, 10)]
    texts = {"as it is": "\n".join(before), "as it is now": "\n".join(["new", *before[:6], "other", *before[7:]])}
    reach = mutate.merged([MEASURED], {SOURCE: "as it is now"}, texts.__getitem__)
    every = [OTHER, SECOND, SLOW, FIRST]
    assert [reach.of(of_line(line)) for line in (1, 8, 10)] == [every, every, [OTHER]]
    assert all(reach.of(of_line(line)) == [OTHER] for line in (2, 3, 4, 5, 7, 9)), "only in other processes"


def test_the_tests_of_files_named_after_the_source_come_first() -> None:
    names = ["tests/test_a.py::test_quick", "tests/test_module.py::test_slow", "tests/test_modules.py::test_slower"]
    reach = mutate.Reach({SOURCE: {7: set(names)}}, dict(zip(names, (1.0, 2.0, 3.0), strict=True)))
    assert reach.of(of_line(7)) == [*names[1:], names[0]]


def test_the_tests_of_a_mutant_have_a_budget() -> None:
    reach = mutate.merged([MEASURED], {SOURCE: "as it is"}, {}.__getitem__)
    order = reach.of(of_line(7))
    assert reach.affordable(order, 2.5) == [SECOND]
    assert reach.affordable(order, 5.5) == [SECOND, FIRST], "the slow one between them does not fit"
    assert reach.affordable(order, 6) == [SECOND, SLOW]
    assert reach.affordable(order, 8) == [SECOND, FIRST, SLOW], "those of a file come together"
    assert reach.affordable([SLOW], 1) == [SLOW]


def test_what_becomes_of_mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def waits(number):\n    while number > 0:\n        number -= 1\n    return number\n"
    every = found(tmp_path, source)
    (tmp_path / "test_it.py").write_text(
        "import pathlib, sys\nsys.path.insert(0, str(pathlib.Path(__file__).parent / 'package'))\n"
        "import module\nimport pytest\n\n\n@pytest.mark.parametrize('number', [3, 5])\n"
        "def test_it(number):\n    assert module.waits(number) == 0\n\n\n"
        "def test_that_fails():\n    assert False\n"
    )
    monkeypatch.setattr(mutate, "_SPARE_SECONDS", 4)
    names = ["test_it.py::test_it[3]", "test_it.py::test_it[5]"]
    reach = mutate.Reach({SOURCE: {2: set(names), 3: set(names)}}, dict.fromkeys(names, 0.1))
    tests = mutate.Tests(tmp_path)
    with contextlib.closing(tests):
        assert tests.run(names, 60, keep=True) == "passed"
        assert tests.run([*names, "test_it.py::test_that_fails"], 60) == "failed"
        assert tests.run(["test_it.py::test_missing"], 60) == "failed"
        results = {
            line.rpartition(" (")[0]: result for _, result, line in mutate.examine(tmp_path, every, reach, tests, 60)
        }
    assert results == {
        f"killed: {SOURCE}:2: comparison swapped: > -> >=": "killed",
        f"killed: {SOURCE}:2: constant off by one: 0 -> (0 + 1)": "killed",
        f"timed out: {SOURCE}:3: statement dropped: number -= 1 -> pass": "timed out",
        f"killed: {SOURCE}:3: constant off by one: 1 -> (1 + 1)": "killed",
    }
    assert (tmp_path / SOURCE).read_text() == source
