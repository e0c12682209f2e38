"""The messages of imports that fail for many operators."""

from __future__ import annotations

import pytest

from nnvk.importers.errors import ModelImportError, Problem


def lines(*problems: Problem, detail: str = "") -> list[str]:
    return str(ModelImportError("no model", "a.onnx", problems, detail)).splitlines()


def test_one_line_for_each_kind_and_reason() -> None:
    some = [Problem("Conv", index, "why", name="c") for index in (3, 5)]
    others = [
        Problem("Conv", 7, "why not", name="n"),
        Problem("Add", 8, "why"),
        Problem("Conv", 1, "why", 2, "s"),
        Problem("input", 0, "why"),
        Problem("output", 4, "why", 1),
    ]
    assert lines(*some, *others) == [
        "BAD_DATA: no model: a.onnx:",
        "  operators 3, 5 (Conv, 2 in all): why",
        "  operator 7 (Conv 'n'): why not",
        "  operator 8 (Add): why",
        "  operator 1 (Conv 's') of subgraph 2: why",
        "  input 0: why",
        "  output 4 of subgraph 1: why",
    ]


def test_without_problems() -> None:
    assert lines() == ["BAD_DATA: no model: a.onnx"]
    assert lines(detail="cut off") == ["BAD_DATA: no model: a.onnx (cut off)"]


@pytest.mark.parametrize(("count", "more"), [(20, ""), (21, " and 1 more"), (25, " and 5 more")])
def test_twenty_positions_are_named(count: int, more: str) -> None:
    _, line = lines(*(Problem("Conv", index, "why") for index in range(count)))
    named = ", ".join(map(str, range(20)))
    assert line == f"  operators {named}{more} (Conv, {count} in all): why"


@pytest.mark.parametrize("count", [200, 201, 203])
def test_two_hundred_lines_are_shown(count: int) -> None:
    every = [Problem("Conv", index, f"why {number}") for number in range(count) for index in range(2)]
    _, *shown = lines(*every)
    assert shown[:1] == ["  operators 0, 1 (Conv, 2 in all): why 0"]
    assert len(shown) == min(count, 201)
    assert shown[200:] == ([f"  and {2 * (count - 200)} more"] if count > 200 else [])


def test_operators_that_nobody_knows() -> None:
    *_, hint = lines(Problem("Own", 0, "NNAPI has no counterpart of this"))
    assert hint == "  nnvk.importers.operator decorates a function in Python that computes such an operator"


def test_long_reasons_and_names_are_cut() -> None:
    error = ModelImportError("no model", "a.onnx", [Problem("K" * 200, 0, "r" * 2000, name="n" * 200)])
    _, line = str(error).splitlines()
    assert error.problems[0].reason == "r" * 500 + "..."
    assert line == f"  operator 0 ({'K' * 80}... '{'n' * 80}...'): {'r' * 500}..."
