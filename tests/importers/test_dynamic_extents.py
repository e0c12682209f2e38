"""How operators of any format pass a dynamic extent on: along which axis, or why they can't."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnvk import OperandType
from nnvk.importers import dynamic_extents
from nnvk.importers.budget import Budget
from nnvk.importers.dynamic_extents import (
    DynamicExtent,
    Extent,
    Extents,
    Rules,
    along,
    behind,
    concatenation,
    coordinates,
    cut,
    elementwise,
    gather,
    gather_nd,
    insertion,
    reduction,
    reshaped,
    sizes_of,
    transposition,
    true_first,
)
from nnvk.importers.emitter import BOOL8, F32, I32, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Graph, Value

COUNT, OTHER = Value(I32.with_dimensions((1,))), Value(I32.with_dimensions((1,)))
Given = tuple[tuple[int, ...], int | None]
"""A shape, and its dynamic axis."""


def extents(output: tuple[int, ...], *inputs: Given | None, counts: tuple[Value, ...] = (COUNT,) * 3) -> Extents:
    made = [
        None if one is None else Extent(one[0], None if one[1] is None else DynamicExtent(one[1], count))
        for one, count in zip(inputs, counts, strict=False)
    ]
    return Extents(made, output)


Rule = Callable[[Extents], DynamicExtent]
X: Given = ((4, 5, 6), 1)
PASSED_ON: dict[str, tuple[Extents, Rule, int]] = {
    "elementwise": (extents((4, 5, 6), X, ((4, 5, 6), 1)), elementwise, 1),
    "elementwise on a lower rank": (extents((4, 5, 6), ((5, 6), 0), ((1, 1), None), None), elementwise, 1),
    "elementwise with a scalar": (extents((4, 5, 6), X, ((), None)), elementwise, 1),
    "elementwise with one row": (extents((4, 5, 6), X, ((1, 6), None)), elementwise, 1),
    "elementwise of the last axis": (extents((4, 5, 6), ((4, 5, 6), 2), ((5, 1), None)), elementwise, 2),
    "elementwise with a row": (extents((4, 5, 6), X, ((6,), None)), elementwise, 1),
    "along others": (extents((4, 5, 6), X), lambda x: along(x, [0, -1]), 1),
    "behind it": (extents((4, 5, 6), X), lambda x: behind(x, 2), 1),
    "reduction before it": (extents((5, 6), X), lambda x: reduction(x, [0], keeps=False), 0),
    "reduction behind it": (extents((4, 5), X), lambda x: reduction(x, [-1], keeps=False), 1),
    "reduction on both sides": (extents((5,), X), lambda x: reduction(x, [0, 2], keeps=False), 0),
    "another shape of one size": (extents((1, 4, 5, 6), X), lambda x: reshaped(x, [None, 4, None, 6]), 2),
    "another shape of a first axis": (extents((5, 2, 3), ((5, 6), 0)), reshaped, 0),
    "reduction that keeps axes": (extents((1, 5, 1), X), lambda x: reduction(x, [0, 2], keeps=True), 1),
    "insertion before it": (extents((1, 4, 1, 5, 6), X), lambda x: insertion(x, [0, 2]), 3),
    "insertion behind it": (extents((4, 5, 6, 1), X), lambda x: insertion(x, [-1]), 1),
    "transposition": (extents((6, 4, 5), X), lambda x: transposition(x, [2, -3, 1]), 2),
    "another shape": (extents((2, 2, 5, 3, 2), X), reshaped, 2),
    "another shape with fixed sizes": (extents((4, 5, 6), X), lambda x: reshaped(x, [4, None, 6]), 1),
    "concatenation": (extents((8, 5, 6), X, X), lambda x: concatenation(x, -3), 1),
    "gather before it": (extents((2, 3, 5, 6), X, ((2, 3), None)), lambda x: gather(x, 0), 2),
    "gather of one before it": (extents((5, 6), X, ((), None)), lambda x: gather(x, 0), 0),
    "gather behind it": (extents((4, 5, 2, 3), X, ((2, 3), None)), lambda x: gather(x, -1), 1),
    "gather of dynamic indices": (extents((4, 2, 3, 6), ((4, 5, 6), None), ((2, 3), 1)), lambda x: gather(x, 1), 2),
    "rows of indices": (extents((7, 6), ((4, 5, 6), None), ((7, 2), 0)), gather_nd, 0),
}
REFUSED: dict[str, tuple[Extents, Rule, str]] = {
    "two sizes": (extents((4, 5, 6), X, X, counts=(COUNT, OTHER)), elementwise, "not one size only"),
    "an axis that counts from the end": (
        extents((4, 5, 6), X, ((7, 4, 5, 6), None)),
        elementwise,
        r"shape \[7, 4, 5, 6\] meets one of a size",
    ),
    "no second input": (extents((4, 5, 6), X), lambda x: gather(x, 0), "input 1 is missing"),
    "an axis that is none": (extents((4, 5, 6), X), lambda x: along(x, [3]), "axis"),
    "rows of both": (extents((7, 6), X, ((7, 2), 0)), gather_nd, "what it picks from"),
    "a part that is left out": (extents((8, 5, 6), X, None), lambda x: concatenation(x, 0), "not one size only"),
    "another axis": (extents((8, 5, 5), X, ((4, 5, 6), 2)), lambda x: concatenation(x, 0), "not one size only"),
    "a first part that is static": (
        extents((8, 5, 6), ((4, 5, 6), None), X),
        lambda x: concatenation(x, 0),
        "not one size only",
    ),
    "two axes": (extents((4, 5, 5), ((4, 5, 5), 1), ((4, 5, 5), 2)), elementwise, "not one size only"),
    "a static size": (extents((4, 5, 6), X, ((5, 6), None)), elementwise, r"shape \[5, 6\] meets one of a size"),
    "a dynamic parameter": (extents((4, 5, 6), X, X), lambda x: along(x, [0]), "size of one of its parameters"),
    "a parameter alone": (extents((4,), ((4,), None), X), lambda x: along(x, [0]), "size of one of its parameters"),
    "no first input": (extents((4,), None, X), lambda x: along(x, [0]), "input 0 is missing"),
    "along it": (extents((4, 5, 6), X), lambda x: along(x, [2, -2]), "works along axis 1"),
    "from an axis before it": (extents((4, 5, 6), X), lambda x: behind(x, 0), "works along axis 1"),
    "from it": (extents((4, 5, 6), X), lambda x: behind(x, 1), "works along axis 1"),
    "its reduction": (extents((4, 6), X), lambda x: reduction(x, [1], keeps=True), "works along axis 1"),
    "its parts": (extents((4, 30), X), reshaped, r"axis 1, .* is not one of \[4, 30\] any more"),
    "another place": (extents((5, 4, 6), X), reshaped, "any more"),
    "a fixed size": (extents((4, 5, 6), X), lambda x: reshaped(x, [4, 5, 6]), "axis 1, .* is to be of size 5"),
    "its concatenation": (extents((4, 10, 6), X, X), lambda x: concatenation(x, 1), "works along axis 1"),
    "a static part": (extents((8, 5, 6), X, ((4, 5, 6), None)), lambda x: concatenation(x, 0), "not one size only"),
    "a part of another size": (
        extents((8, 5, 6), X, X, counts=(COUNT, OTHER)),
        lambda x: concatenation(x, 0),
        "not one size only",
    ),
    "gather from it": (extents((4, 2, 6), X, ((2,), None)), lambda x: gather(x, 1), "works along axis 1"),
    "gather of both": (extents((2, 5, 6), X, ((2,), 0)), lambda x: gather(x, 0), "sizes of both its inputs"),
    "rows from it": (extents((7, 6), X, ((7, 2), None)), gather_nd, "what it picks from"),
    "indices of dynamic length": (extents((7,), ((4, 5, 6), None), ((7, 3), 1)), gather_nd, "works along axis 1"),
}


@pytest.mark.parametrize("name", PASSED_ON)
def test_passed_on(name: str) -> None:
    given, rule, axis = PASSED_ON[name]
    passed = rule(given)
    assert (passed.axis, passed.count) == (axis, COUNT)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    given, rule, reason = REFUSED[name]
    with pytest.raises(Unmapped, match=reason):
        rule(given)


def test_a_table_of_rules() -> None:
    rules = Rules[str]({"same": lambda node, x: elementwise(x)}, own={"size"})
    extent = DynamicExtent(0, COUNT)
    for operator in ("same", "size", "other"):
        rules.check(operator, [None, None])
    rules.check("same", [None, extent])
    rules.check("size", [extent])
    with pytest.raises(Unmapped, match="NNAPI has to know it beforehand"):
        rules.check("other", [None, extent])
    passed = rules.passed_on("same", "node", extents((4, 5, 6), None, X))
    assert passed is not None
    assert passed.axis == 1
    assert rules.passed_on("same", "node", extents((4,), ((4,), None), None)) is None
    assert rules.passed_on("size", "node", extents((3,), X)) is None


# --- the operations ------------------------------------------------------------------------------------------


@pytest.fixture
def c() -> Emitter:
    return Emitter(Graph(Budget(1 << 20), relaxed=False))


def known(c: Emitter, *numbers: int) -> Value:
    return c.constant(np.array(numbers), I32)


def codes(c: Emitter) -> list[str]:
    return [operation.code.name for operation in c.graph._operations]


@pytest.mark.parametrize("flags", [[True], [False, True, True, False, True], [False] * 3, [True] * 3])
def test_the_true_ones_come_first(flags: list[bool], c: Emitter) -> None:
    value = c.graph.constant(BOOL8.with_dimensions((len(flags),)), lambda: np.array(flags))
    places, count = true_first(c, value)
    every = np.arange(len(flags))
    assert places.array.tolist() == [*every[np.array(flags)], *every[~np.array(flags)]]
    assert (count.array.tolist(), count.code) == ([sum(flags)], I32.code)


@pytest.mark.parametrize("more", [0, 1])
def test_how_many_elements_are_counted(more: int, c: Emitter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_extents, "_MOST", 5 - more)
    flags = c.graph.input(BOOL8.with_dimensions((5,)))
    if more:
        with pytest.raises(Unmapped, match=r"^5 elements are too many to be counted$"):
            true_first(c, flags)
    else:
        assert true_first(c, flags)[1].shape == (1,)


def test_the_most_elements_that_are_counted() -> None:
    """Each number up to it is one of FLOAT32, and the next one is not."""
    most = dynamic_extents._MOST
    assert [int(np.float32(most + more)) - most for more in (-1, 0, 1)] == [-1, 0, 0]


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 5), (2, 1, 4, 3)])
def test_places_as_indices(shape: tuple[int, ...], c: Emitter) -> None:
    places = np.arange(np.prod(shape))
    found = [one.array.tolist() for one in coordinates(c, known(c, *places), shape)]
    assert found == [one.tolist() for one in np.unravel_index(places, shape)]


def test_a_row_has_its_places_as_indices(c: Emitter) -> None:
    places = c.graph.input(I32.with_dimensions((4,)))
    assert coordinates(c, places, (9,)) == [places]
    assert codes(c) == []
    coordinates(c, places, (3, 3))
    assert codes(c) == ["DIV", "DIV", "MUL", "SUB"]


@pytest.mark.parametrize(("axis", "sizes"), [(0, [7, 5, 6]), (1, [4, 7, 6]), (2, [4, 5, 7])])
def test_sizes(axis: int, sizes: list[int], c: Emitter) -> None:
    assert sizes_of(c, (4, 5, 6), DynamicExtent(axis, known(c, 7))).array.tolist() == sizes


@pytest.mark.parametrize(("type_", "behind_it"), [(F32, []), (I32, []), (BOOL8, ["NOT_EQUAL"])], ids=["f", "i", "b"])
def test_the_valid_elements(type_: OperandType, behind_it: list[str], c: Emitter) -> None:
    value = c.graph.input(type_.with_dimensions((4, 5, 6)))
    part = cut(c, value, DynamicExtent(1, c.graph.input(I32.with_dimensions((1,)))))
    assert (part.code, part.shape) == (type_.code, (4, 0, 6))
    assert codes(c) == [*["SELECT"] * len(behind_it), "MUL", "ADD", "SLICE", *behind_it]


@pytest.mark.parametrize("rank", [4, 5])
def test_the_rank_of_valid_elements(rank: int, c: Emitter) -> None:
    value, extent = c.graph.input(F32.with_dimensions((2,) * rank)), DynamicExtent(0, c.graph.input(COUNT.type))
    if rank == 4:
        assert cut(c, value, extent).shape == (0, 2, 2, 2)
    else:
        with pytest.raises(Unmapped, match=r"^an output of rank 5 is as large as data say$"):
            cut(c, value, extent)
