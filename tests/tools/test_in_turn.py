"""The cases that ``--in-turn`` takes of tests that cross parameters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import in_turn
import pytest


class Case:
    """A collected test, as far as `in_turn` looks at it."""

    def __init__(self, number: int, params: Mapping[str, Any]) -> None:
        self.nodeid = f"test[{number}]"
        self.callspec = SimpleNamespace(params=params)
        self.stash = pytest.Stash()

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return pytest.mark.crossed.mark if name == "crossed" else None


def taken(params: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The parameters of the cases that run."""
    cases: Any = [Case(number, one) for number, one in enumerate(params)]
    in_turn.number_cases(cases)
    return [case.callspec.params for case in cases if case in in_turn.chosen(cases)]


def test_each_value_meets_a_third_of_the_others() -> None:
    kinds, sizes = ("float32", "float16", "int8"), ([1], [2], [3], [4], [5], [6])
    found = taken([{"kind": kind, "size": size} for kind, size in itertools.product(kinds, sizes)])
    assert len(found) == 6
    for kind in kinds:
        assert sum(one["kind"] == kind for one in found) == 2
    for size in sizes:
        assert sum(one["size"] == size for one in found) == 1


def test_a_value_that_few_others_meet_is_not_left_out() -> None:
    every = [{"code": code, "type": type_} for code, type_ in ((0, 0), (0, 1), (0, 2), (1, 1), (2, 2), (3, 2), (3, 0))]
    found = taken(every)
    for name in ("code", "type"):
        assert {one[name] for one in found} == {one[name] for one in every}
    assert len(found) < len(every)


def test_parameters_that_are_given_together_count_once() -> None:
    found = taken([{"name": name, "size": len(name), "kind": kind} for name in ("a", "bc", "def") for kind in range(3)])
    assert [(one["name"], one["kind"]) for one in found] == [("a", 0), ("bc", 2), ("def", 1)]


def test_of_rows_every_third_runs() -> None:
    assert [one["text"] for one in taken([{"text": str(row)} for row in range(7)])] == ["0", "3", "6"]
