"""The tensors that a verification compares: those computed twice, and products that were stored with check words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.shaders.commands import TensorRef
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
