"""The tensors that a verification compares: those computed twice, and products that were stored with check words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Tensor
from nnvk.types.operand import Shape

DIFFERENCE_WORDS = 6
"""The words of a difference: whether there is one, the comparison, the place, two words; and a sum of all compared."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A tensor that is computed twice."""

    operation: int
    """Position in the model of the operation that computes it; -1 for an exchange with the host."""
    name: str
    dtype: str
    shape: Shape
    tile: Shape = ()
    """The rows, or the height and width of pixels, that have a checksum together; () where elements are compared."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A product that a dispatch has stored with check words (`checksum.py`)."""

    results: TensorRef
    words: TensorRef
    """The check words of all invocations; the words of a tile are consecutive."""
    filters: np.ndarray
    """The weighted sum of all filters, whose product with the left matrix gives sums of rows, and constant terms."""
    tile: tuple[int, int]
    """Its rows and its check words; its height and width where filters see a channel each."""
    before: int = 0
    """The words in front of the check words in their tensor, a multiple of four."""


class Counterparts:
    """The intermediate tensors of second computations, each with that of the first one.

    Both computations of an operation make those of a name in the same order.
    """

    def __init__(self) -> None:
        self._counts = Counter[tuple[int, str, bool]]()
        self._first: dict[tuple[int, str, int], int] = {}
        self._of_second: dict[int, int] = {}

    def note(self, operation: int, tensor: Tensor, *, is_second: bool) -> None:
        """Remember a tensor that a computation of an operation has made."""
        number = self._counts[operation, tensor.name, is_second]
        self._counts[operation, tensor.name, is_second] += 1
        if is_second:
            self._of_second[tensor.index] = self._first.get((operation, tensor.name, number), tensor.index)
        else:
            self._first[operation, tensor.name, number] = tensor.index

    def of(self, tensor: Tensor) -> int:
        """The index of the first computation's tensor; a tensor's own if both computations write it."""
        return self._of_second.get(tensor.index, tensor.index)
