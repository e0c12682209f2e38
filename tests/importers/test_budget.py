"""The limits of an import: the largest amount that is allowed, and one more."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.settings import override
from nnvk.importers.budget import Budget
from nnvk.importers.errors import OverBudget

SIZE = 1000
MOST_BYTES = 268_435_456 + 32 * SIZE
"""256 MiB, and 32 bytes for each of the file."""
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
            f"constants, states and operations take more than the {MOST_BYTES} bytes that a file of this size may; "
            "NNVK_IMPORT_MEMORY raises that"
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
        f"more is computed at import than the {MOST_ELEMENTS} elements that a file of this size may have; "
        "NNVK_IMPORT_MEMORY raises that"
    )


def test_activations(budget: Budget) -> None:
    most = 268_435_456 + 256 * SIZE
    budget.check_activations(most)
    with pytest.raises(OverBudget):
        budget.check_activations(most + 1)
    budget.admit(3)
    budget.check_activations(most + 3 * 256)
    with pytest.raises(OverBudget, match=f"take {most + 769} bytes at once, more than the {most + 768} that a file"):
        budget.check_activations(most + 769)
    budget.charge(MOST_BYTES)  # which has nothing to do with it


def test_nothing_is_paid_back(budget: Budget) -> None:
    budget.charge(MOST_BYTES)
    budget.charge(-8)
    with pytest.raises(OverBudget):
        budget.charge(1)
    budget.work(MOST_ELEMENTS)
    budget.work(-8)
    with pytest.raises(OverBudget):
        budget.work(1)


def test_arrays_count_as_long_as_they_are_there(budget: Budget) -> None:
    """Views of one array count once, and a repeated number hardly anything."""
    array = np.zeros(MOST_BYTES // 8 - 1)
    views = [array[1:], array.reshape(1, -1)]
    for one in (array, *views, np.broadcast_to(np.float32(1), (1 << 14, 1 << 14))):
        budget.hold(one)
    with pytest.raises(OverBudget):
        budget.hold(np.zeros(2))
    del array, one
    with pytest.raises(OverBudget):
        budget.check(16)
    del views
    budget.check(MOST_BYTES)


def test_an_option_raises_the_limits() -> None:
    with override(import_memory=3):
        budget = Budget(SIZE)
    budget.check(MOST_BYTES + (3 << 20))
    budget.work(MOST_ELEMENTS + (3 << 20))
    with pytest.raises(OverBudget):
        budget.check(MOST_BYTES + (3 << 20) + 1)
