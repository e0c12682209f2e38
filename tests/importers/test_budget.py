"""The limits of an import: the largest amount that is allowed, and one more."""

from __future__ import annotations

import pytest

from nnvk.importers.budget import Budget
from nnvk.importers.errors import OverBudget

SIZE = 1000
MOST_BYTES = 134_217_728 + 32 * SIZE
"""128 MiB, and 32 bytes for each of the file."""
MOST_ELEMENTS = 134_217_728 + 256 * SIZE


@pytest.fixture
def budget() -> Budget:
    return Budget(SIZE)


def test_bytes(budget: Budget) -> None:
    budget.check(MOST_BYTES)
    budget.charge(MOST_BYTES - 7)
    budget.check(7)
    budget.charge(7)
    budget.charge(0)
    for step in (budget.check, budget.charge):
        with pytest.raises(OverBudget) as caught:
            step(1)
        assert str(caught.value) == (
            f"constants, states and operations take more than the {MOST_BYTES} bytes that a file of this size may"
        )


def test_one_byte_more(budget: Budget) -> None:
    with pytest.raises(OverBudget):
        budget.check(MOST_BYTES + 1)
    with pytest.raises(OverBudget):
        budget.charge(MOST_BYTES + 1)
    budget.charge(MOST_BYTES)


def test_work(budget: Budget) -> None:
    with pytest.raises(OverBudget):
        budget.work(MOST_ELEMENTS + 1)
    budget.work(MOST_ELEMENTS - 5)
    budget.work(5)
    with pytest.raises(OverBudget) as caught:
        budget.work(1)
    assert str(caught.value) == (
        f"more is computed at import than the {MOST_ELEMENTS} elements that a file of this size may have"
    )


def test_nothing_is_paid_back(budget: Budget) -> None:
    budget.charge(MOST_BYTES)
    budget.charge(-8)
    with pytest.raises(OverBudget):
        budget.charge(1)
    budget.work(MOST_ELEMENTS)
    budget.work(-8)
    with pytest.raises(OverBudget):
        budget.work(1)
