"""The amounts that imports are charged to their budget."""

from __future__ import annotations

from collections import Counter

import pytest

from nnvk.importers.budget import Budget

Spent = Counter[tuple[str, int]]
"""How often a budget is asked for an amount, by the name of its method and the amount."""


def watched(monkeypatch: pytest.MonkeyPatch) -> Spent:
    """Every amount that a budget is asked for from now on."""
    found: Spent = Counter()

    def watch(name: str) -> None:
        do = getattr(Budget, name)

        def counted(budget: Budget, amount: int) -> None:
            found[name, int(amount)] += 1
            do(budget, amount)

        monkeypatch.setattr(Budget, name, counted)

    for name in ("check", "charge", "work"):
        watch(name)
    return found
