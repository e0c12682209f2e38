"""Importers of any format report operators that they can't map, and go on behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.importers.budget import Budget
from nnvk.importers.errors import OverBudget, Problem, Unmapped
from nnvk.importers.recovery import Damage, Recovery

DAMAGE = Damage((IndexError,), lambda error: f"makes no sense ({error})")


@dataclass(frozen=True)
class Operator:
    position: int
    inputs: Sequence[str]
    outputs: Sequence[str]
    does: Callable[[], None] = lambda: None
    is_known: bool = True


def fails(error: Exception) -> Callable[[], None]:
    def raised() -> None:
        raise error

    return raised


class Importer(Recovery[Operator, str]):
    """Tensors whose names begin with ``?`` have no type, those with ``#`` may be indexes."""

    def __init__(self) -> None:
        super().__init__([], DAMAGE, Budget(1000), 3)
        self.stand_ins: list[str] = []
        self.mapped: list[str] = []

    def describe(self, operator: Operator) -> tuple[str, int, str]:
        return "OP", operator.position, f"n{operator.position}"

    def tensors_of(self, operator: Operator) -> tuple[Sequence[str], Sequence[str]]:
        return operator.inputs, operator.outputs

    def look_up(self, operator: Operator) -> None:
        if not operator.is_known:
            raise Unmapped("there is no such operator")

    def map(self, operator: Operator) -> None:
        self.look_up(operator)
        operator.does()
        self.mapped.append(str(operator.position))

    def has_stand_in(self, tensor: str) -> bool:
        self.stand_ins.append(tensor)
        return not tensor.startswith("?")

    def may_be_parameter(self, tensor: str) -> bool:
        return tensor.startswith("#")

    def run(self, *operators: Operator) -> list[str]:
        """The operators that were mapped, and the reasons why others were not."""
        self.mapped.clear()
        for operator in operators:
            self.try_to_map(operator)
        return self.mapped + [problem.reason for problem in self.problems]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unmapped("NNAPI can't"), "NNAPI can't"),
        (NnapiError(ResultCode.BAD_DATA, "a wrong shape"), "a wrong shape"),
        (IndexError("no output"), "makes no sense (no output)"),
        (RecursionError("too deep"), "makes no sense (too deep)"),
    ],
)
def test_a_failure_is_a_problem_and_loses_the_outputs(error: Exception, reason: str) -> None:
    importer = Importer()
    assert importer.run(Operator(0, ["x"], ["y", "z"], fails(error)), Operator(1, ["x"], ["v"])) == ["1", reason]
    assert importer.problems == [Problem("OP", 0, reason, 3, "n0")]
    assert importer.lost == {"y", "z"}


def test_other_errors_are_not_caught() -> None:
    with pytest.raises(ZeroDivisionError):
        Importer().run(Operator(0, ["x"], ["y"], fails(ZeroDivisionError())))


def test_behind_a_lost_tensor_stand_ins_find_more_problems() -> None:
    importer = Importer()
    first = Operator(0, ["x"], ["a"], fails(Unmapped("first")))
    assert importer.run(
        first,
        Operator(1, ["a", "x"], ["b"]),
        Operator(2, ["b"], ["c"], fails(Unmapped("third"))),
        Operator(3, ["x"], ["d"]),
    ) == ["1", "3", "first", "third"]
    assert importer.stand_ins == ["a", "b"]
    assert importer.lost == {"a", "b", "c"}


def test_a_consequence_is_no_problem() -> None:
    """A stand-in for a parameter is no constant; what nothing could map is a problem behind it all the same."""
    importer = Importer()
    assert importer.run(
        Operator(0, ["x"], ["#a"], fails(Unmapped("first"))),
        Operator(1, ["x", "#a"], ["b"], fails(Unmapped("axes must be constants"))),
        Operator(2, ["#a"], ["c"], is_known=False),
        Operator(3, ["#s"], ["d"], fails(Unmapped("not lost"))),
    ) == ["first", "there is no such operator", "not lost"]
    assert importer.lost == {"#a", "b", "c", "d"}


def test_without_a_stand_in_nothing_is_tried() -> None:
    importer = Importer()
    first = Operator(0, ["x"], ["a", "?b"], fails(Unmapped("first")))
    second = Operator(1, ["a", "?b"], ["c"], fails(AssertionError()))
    assert importer.run(first, second, Operator(2, ["?b"], ["d"], is_known=False)) == [
        "first",
        "there is no such operator",
    ]
    assert importer.lost == {"a", "?b", "c", "d"}


def test_too_little_room_ends_the_import_and_is_a_problem() -> None:
    importer = Importer()
    importer.lost.add("#a")
    with pytest.raises(OverBudget):
        importer.run(Operator(0, ["#a"], ["b"], fails(OverBudget("too large"))))
    assert [problem.reason for problem in importer.problems] == ["too large"]


def test_edges() -> None:
    importer = Importer()
    importer.require("input", ["x"])
    importer.require("output", [])
    with importer.guarded("output", 1, "y", "z"):
        raise IndexError("cut off")
    with importer.guarded("output", 2, "v"):
        pass
    with pytest.raises(ZeroDivisionError), importer.guarded("output", 2, "w"):
        raise ZeroDivisionError
    with pytest.raises(OverBudget), importer.guarded("input", 0):
        raise OverBudget("too large")
    assert [(one.operation, one.index, one.reason, one.subgraph) for one in importer.problems] == [
        ("output", 0, "there is none, and NNAPI's models have at least one", 3),
        ("output", 1, "makes no sense (cut off)", 3),
        ("input", 0, "too large", 3),
    ]
    assert importer.lost == {"y", "z"}
