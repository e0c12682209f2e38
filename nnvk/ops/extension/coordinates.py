"""Coordinates: the rows of an operand ``indices``, each of which has an index for each of a tensor's first axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Tensor
from nnvk.ops.signature import BOOL8, EXTENSIONS_SINCE, F16, F32, I32, Q8, Q8S, Q16_SYMM
from nnvk.types.operand import Shape

ELEMENTS = dict.fromkeys((F32, F16, I32, BOOL8, Q8, Q8S, Q16_SYMM), EXTENSIONS_SINCE)
"""Leading types of operations that move elements."""


def assertion(sizes: Sequence[int], first: int) -> str:
    """The assertion of indices into axes of these sizes, from ``first`` on: the wrong one and its axis go in."""
    ranges = ", ".join(f"[{-size}, {size}) along axis {first + axis}" for axis, size in enumerate(sizes))
    return f"indices must be in {ranges}, got {{}} along axis {{}}"


def depth_of(indices: Tensor, rank: int) -> int:
    """The number of axes that each row of indices names. BAD_DATA unless it is 1 to ``rank``."""
    depth = indices.shape[-1] if indices.shape else 0
    if not 1 <= depth <= rank:
        raise bad_data(f"the last dimension of indices must be 1 to {rank}, got shape {list(indices.shape)}")
    return depth


def check_coordinates(indices: Tensor, sizes: Sequence[int], first: int = 0) -> None:
    """Raise BAD_DATA where an index, once known, is out of range. Those below 0 count from the end."""
    if not indices.is_constant or not indices.size:
        return
    limits = np.array(sizes)
    wrong = np.argwhere((indices.data < -limits) | (indices.data >= limits))
    if wrong.size:
        where = tuple(wrong[0])
        raise bad_data(assertion(sizes, first).format(int(indices.data[where]), first + int(where[-1])))


def flat_coordinates(indices: np.ndarray, sizes: Sequence[int], batches: int = 1) -> np.ndarray:
    """The flat coordinate of each row of indices, int64, as if axes of these sizes and an axis of ``batches`` were one.

    The rows, in order, belong to the batches, so many to each.
    """
    rows = indices.reshape(-1, len(sizes)).astype(np.int64)
    limits, strides = np.array(sizes, np.int64), np.array(strides_of(sizes), np.int64)
    coordinates: np.ndarray = (np.where(rows < 0, rows + limits, rows) * strides).sum(axis=1)
    if batches > 1:
        coordinates += np.repeat(np.arange(batches), coordinates.size // batches) * math.prod(sizes)
    return coordinates


def strides_of(sizes: Sequence[int]) -> Shape:
    """The stride of each axis if all axes are flattened to one."""
    return tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
