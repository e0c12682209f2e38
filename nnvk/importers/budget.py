"""The memory and time that an import may take: a file of a few hundred bytes can describe gigabytes, and years."""

from __future__ import annotations

from nnvk.importers.errors import OverBudget

BASE, FACTOR = 128 << 20, 32
"""The bytes that an import may take: ``BASE``, plus ``FACTOR`` times the size of the file. An import may make two
copies of 4-bit elements in 32 bits.
"""
PART_COST = 1024
"""Bytes that an operand or an operation of the model takes, and its share of what builds and checks the model."""
SCALE_COST = 64
"""Bytes that a scale of a channel takes in an operand."""
BASE_WORK, WORK_FACTOR = 1 << 27, 256
"""Elements that an import may compute, in the same way. One takes some 20 ns."""


class Budget:
    """The memory that constants, states and the parts of the model may still take, and the work that is left.

    Everything whose size is a number out of the file is charged before it is allocated: constants when they are read
    or computed, and again as operands, because devices pack each of them anew. Work counts the elements that are read
    and computed.
    """

    def __init__(self, file_size: int) -> None:
        self._left = self._limit = BASE + FACTOR * file_size
        self._work_left = self._work_limit = BASE_WORK + WORK_FACTOR * file_size

    def check(self, nbytes: int) -> None:
        """Raise `OverBudget` where ``nbytes`` are too many, before what may take less is computed."""
        if nbytes > self._left:
            raise OverBudget(
                f"constants, states and operations take more than the {self._limit} bytes that a file of this size may"
            )

    def charge(self, nbytes: int) -> None:
        """Take ``nbytes`` off. Raises `OverBudget` where they are too many."""
        self.check(nbytes)
        self._left -= max(nbytes, 0)  # shapes that make no sense, which are refused later, pay nothing back

    def work(self, elements: int) -> None:
        """Take off what computes so many elements. Raises `OverBudget` where they are too many."""
        if elements > self._work_left:
            raise OverBudget(
                f"more is computed at import than the {self._work_limit} elements that a file of this size may have"
            )
        self._work_left -= max(elements, 0)
