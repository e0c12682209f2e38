"""The limits of an import's memory and time: a file of a few hundred bytes can describe gigabytes and years."""

from __future__ import annotations

import weakref

import numpy as np

from nnvk.base.extents import hint, is_extent
from nnvk.base.settings import settings
from nnvk.importers.errors import OverBudget

BASE, FACTOR = 256 << 20, 32
"""The bytes that an import may take: ``BASE``, plus ``FACTOR`` times the size of the file. An import may make two
copies of 4-bit elements in 32 bits.
"""
PART_COST = 1024
"""The bytes of an operand or an operation of the model, and of the objects that build and check it."""
SCALE_COST = 64
"""The bytes of a channel's scale in an operand."""
ACTIVATION_FACTOR = 256
"""The bytes that activations may take at once: ``BASE``, plus this multiple of the sizes of the file and the inputs."""
BASE_WORK, WORK_FACTOR = 1 << 27, 256
"""The elements that an import may compute: a base, plus a multiple of the file's size. One takes about 20 ns."""


class Budget:
    """The memory that constants, states and the parts of the model may still take, and the work that is left.

    Everything whose size is a number out of the file is charged before it is allocated: constants when they are read
    or computed, and again as operands, because devices pack each of them anew. Work counts the elements that are read
    and computed.
    """

    def __init__(self, file_size: int) -> None:
        more = settings().import_memory << 20
        self._left = self._limit = BASE + more + FACTOR * file_size
        self._work_left = self._work_limit = BASE_WORK + more + WORK_FACTOR * file_size
        self._most_activations = BASE + more + ACTIVATION_FACTOR * file_size
        self._open = 0
        """The bytes of all that was charged and differs with sizes."""
        self._held: set[int] = set()
        """The identities of the arrays that `hold` has charged."""

    def check(self, nbytes: int) -> None:
        """Raise `OverBudget` where ``nbytes`` are too many, before what may take less is computed."""
        if hint(nbytes) > self._left:
            raise OverBudget(
                f"constants, states and operations take more than the {self._limit} bytes that a file of this size may"
                "; NNVK_IMPORT_MEMORY raises that"
            )

    def charge(self, nbytes: int) -> None:
        """Subtract ``nbytes`` of memory. Raises `OverBudget` if they are too many."""
        self.check(nbytes)
        self._open += nbytes if is_extent(nbytes) else 0
        self._left -= max(hint(nbytes), 0)  # shapes that make no sense, which are refused later, pay nothing back

    def check_sizes(self) -> None:
        """Raise `OverBudget` for sizes of a traced import with which it would have charged too much."""
        self.check(0 if self._open <= self._left + hint(self._open) else self._limit + 1)

    def hold(self, array: np.ndarray) -> None:
        """Charge the memory of an array as long as it is there. Views of one array count once.

        Raises `OverBudget`.
        """
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if id(owner) not in self._held:
            self.charge(owner.nbytes)
            self._held.add(id(owner))
            weakref.finalize(owner, self._release, id(owner), owner.nbytes).atexit = False

    def _release(self, owner: int, nbytes: int) -> None:
        self._held.discard(owner)
        self._left += nbytes

    def admit(self, nbytes: int) -> None:
        """Count an input of the whole model, which the caller gives. Activations may take a multiple of it."""
        self._most_activations += ACTIVATION_FACTOR * nbytes

    def check_activations(self, nbytes: int) -> None:
        """Raise `OverBudget` where activations take too many bytes at once."""
        if nbytes > self._most_activations:
            raise OverBudget(
                f"activations take {nbytes} bytes at once, more than the {self._most_activations} that a file and "
                "inputs of this size may; NNVK_IMPORT_MEMORY raises that"
            )

    def work(self, elements: int) -> None:
        """Subtract the work of computing elements. Raises `OverBudget` if they are too many."""
        elements = hint(elements)
        if elements > self._work_left:
            raise OverBudget(
                f"more is computed at import than the {self._work_limit} elements that a file of this size may have; "
                "NNVK_IMPORT_MEMORY raises that"
            )
        self._work_left -= max(elements, 0)
