"""How operators of any format pass a dynamic extent on: along which axis, or why they can't."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnvk.importers.dynamic_extents import (
    DynamicExtent,
    Extent,
    Extents,
    Rules,
    along,
    behind,
    concatenation,
    elementwise,
    gather,
    gather_nd,
    insertion,
    reduction,
    reshaped,
    transposition,
)
from nnvk.importers.emitter import I32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value

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
    "elementwise with a row": (extents((4, 5, 6), X, ((6,), None)), elementwise, 1),
    "along others": (extents((4, 5, 6), X), lambda x: along(x, [0, -1]), 1),
    "behind it": (extents((4, 5, 6), X), lambda x: behind(x, 2), 1),
    "reduction before it": (extents((5, 6), X), lambda x: reduction(x, [0], keeps=False), 0),
    "reduction behind it": (extents((4, 5), X), lambda x: reduction(x, [-1], keeps=False), 1),
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
