"""A budget that allows everything and keeps what is charged."""

from __future__ import annotations

from nnvk.importers.budget import Budget


class RecordedBudget(Budget):
    """A `Budget` without limits."""

    def __init__(self, size: int = 0) -> None:
        super().__init__(size)
        self.size = size
        """The bytes of the file."""
        self.charged: list[int] = []
        """The amounts, in order."""
        self.worked = 0
        """Elements that were computed."""

    def check(self, nbytes: int) -> None:
        """Nothing is too much."""

    def charge(self, nbytes: int) -> None:
        """Keep what is charged."""
        self.charged.append(nbytes)

    def work(self, elements: int) -> None:
        """Count the elements."""
        self.worked += elements
