"""Arrays whose sizes are numbers out of a file: the budget must have room for them before they are allocated."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nnvk.importers
from nnvk.importers import charged
from nnvk.importers.budget import Budget
from nnvk.importers.errors import OverBudget

_CHARGED = {name for name, _ in inspect.getmembers(charged, inspect.isfunction)} & set(dir(np))
"""Functions of NumPy in whose place `charged` has others."""
_UNKNOWN = {
    "fromfunction",
    "geomspace",
    "identity",
    "kron",
    "linspace",
    "logspace",
    "meshgrid",
    "mgrid",
    "ogrid",
    "tri",
}
"""Functions of NumPy that make large arrays of numbers, for which `charged` has none so far."""
_FOLDER = Path(nnvk.importers.__file__).parent
_HELPERS = ("dynamic_extents.py", "hybrid.py", "sparse.py")
_MAPPERS = [
    path
    for path in sorted(_FOLDER.rglob("*.py"))
    if path.parent.name in ("mappers", "decompositions") or path.name in _HELPERS
]


def _eager(tree: ast.AST) -> Iterator[str]:
    """The expressions that make arrays beside `charged`, by line."""
    for node in ast.walk(tree):
        is_numpy = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
        if is_numpy and node.attr in _CHARGED | _UNKNOWN | {"outer", "newaxis"}:
            yield f"line {node.lineno}: np.{node.attr}"
        axes = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
        for axis in axes:
            if isinstance(axis, ast.Constant) and axis.value is None:
                yield f"line {axis.lineno}: an axis of None"


@pytest.mark.parametrize("path", _MAPPERS, ids=lambda path: str(path.relative_to(_FOLDER)))
def test_mappers_make_no_array_without_a_charge(path: Path) -> None:
    """Only `charged` knows the budget: `charged.arange`, and `charged.outer` for arithmetic on pairs of axes."""
    assert not list(_eager(ast.parse(path.read_text())))


def test_the_lint_finds_what_it_is_for() -> None:
    text = "np.arange(n); np.outer(a, b); a[:, None] + b; a[:, np.newaxis]; np.concatenate(a); charged.arange(n)"
    assert len(list(_eager(ast.parse(text)))) == 4


_MANY = 1 << 40
_ONE = np.ones(1, np.int64)


@pytest.mark.parametrize(
    "make",
    [
        lambda: charged.arange(_MANY),
        lambda: charged.arange(5, -_MANY, -2),
        lambda: charged.full((1 << 20, 1 << 20), 1),
        lambda: charged.zeros(_MANY, np.uint8),
        lambda: charged.ones((_MANY,)),
        lambda: charged.eye(1 << 20, 1 << 20),
        lambda: charged.indices((1 << 20, 1 << 20)),
        lambda: charged.repeat(_ONE, _MANY),
        lambda: charged.repeat(_ONE, np.array([_MANY])),
        lambda: charged.tile(_ONE, [_MANY]),
        lambda: charged.pad(_ONE, [(0, _MANY)]),
        lambda: charged.broadcast_to(_ONE, (_MANY,)),
        lambda: charged.outer(np.add, np.broadcast_to(_ONE, 1 << 20), np.broadcast_to(_ONE, 1 << 20)),
    ],
)
def test_an_array_beyond_the_budget_is_refused_before_it_is_made(make) -> None:
    with charged.against(Budget(100)), pytest.raises(OverBudget, match="more than the"):
        make()


def test_arrays_are_those_of_numpy() -> None:
    with charged.against(Budget(100)):
        assert np.array_equal(charged.arange(2, 9, 3), np.arange(2, 9, 3))
        assert charged.arange(3, dtype=np.float32).dtype == np.float32
        assert np.array_equal(charged.indices((2, 3)), np.indices((2, 3)))
        assert np.array_equal(charged.repeat([1, 2], np.array([2, 0])), [1, 1])
        assert np.array_equal(charged.pad(np.ones((1, 1)), [(0, 1), (1, 0)], 5), [[5, 1], [5, 5]])
        assert np.array_equal(charged.outer(np.multiply, np.arange(3), np.arange(2)), np.outer(range(3), range(2)))
        assert charged.zeros(3).dtype == np.float64


def test_many_arrays_are_work() -> None:
    with charged.against(Budget(100)), pytest.raises(OverBudget, match="more is computed"):
        for _ in range(1000):
            charged.zeros(1 << 20, np.uint8)


def test_nothing_is_charged_outside_of_an_import() -> None:
    assert charged.zeros(1 << 26, np.uint8).nbytes == 1 << 26
