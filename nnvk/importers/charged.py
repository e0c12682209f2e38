"""Arrays whose sizes may be numbers out of a file, in the place of NumPy's functions of the same names.

While an operator is mapped, the import's budget must have room for such an array, and for the few of its size that an
expression makes of it, before it is allocated, and its elements count as work. Elsewhere they are NumPy's functions:
what computes when a model runs works on sizes that were checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from nnvk.importers.budget import Budget

_TOGETHER = 4
"""The arrays of one size that an expression has in memory at the same time."""
_ELEMENT = 8
"""The bytes of an element that arithmetic makes: int64 or float64."""
_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)
Sizes = int | Sequence[int]


@contextmanager
def against(budget: Budget) -> Iterator[None]:
    """Check the arrays that are made inside against a budget."""
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


def allow(count: int, itemsize: int = _ELEMENT) -> None:
    """Raise `OverBudget` where an array of ``count`` elements is too large, or takes too much work."""
    budget = _budget.get()
    if budget is not None:
        budget.check(_TOGETHER * count * itemsize)
        budget.work(count)


def arange(start: float, stop: float | None = None, step: float = 1, *, dtype: DTypeLike | None = None) -> np.ndarray:
    """`numpy.arange`."""
    first, last = (0, start) if stop is None else (start, stop)
    allow(max(0, math.ceil((last - first) / step)))
    return np.arange(first, last, step, dtype=dtype)


def full(shape: Sizes, number: Any, dtype: DTypeLike | None = None) -> np.ndarray:
    """`numpy.full`."""
    allow(_count(shape), _itemsize(dtype))
    return np.full(shape, number, dtype)


def zeros(shape: Sizes, dtype: DTypeLike = np.float64) -> np.ndarray:
    """`numpy.zeros`."""
    allow(_count(shape), _itemsize(dtype))
    return np.zeros(shape, dtype)


def ones(shape: Sizes, dtype: DTypeLike = np.float64) -> np.ndarray:
    """`numpy.ones`."""
    return full(shape, 1, dtype)


def eye(rows: int, columns: int, k: int = 0, dtype: DTypeLike = np.float64) -> np.ndarray:
    """`numpy.eye`."""
    allow(rows * columns, _itemsize(dtype))
    return np.eye(rows, columns, k, dtype)


def indices(shape: Sequence[int], dtype: Any = np.int64) -> np.ndarray:
    """`numpy.indices`."""
    allow(len(shape) * _count(shape), _itemsize(dtype))
    return np.indices(shape, dtype)


def repeat(array: ArrayLike, repeats: int | np.ndarray) -> np.ndarray:
    """`numpy.repeat` of an array of one dimension."""
    given = np.asarray(array)
    allow(int(given.size * repeats if isinstance(repeats, int) else np.sum(repeats)), given.itemsize)
    return np.repeat(given, repeats)


def tile(array: np.ndarray, repeats: Sequence[int]) -> np.ndarray:
    """`numpy.tile`."""
    allow(array.size * math.prod(repeats), array.itemsize)
    return np.tile(array, repeats)


def pad(array: np.ndarray, widths: Sequence[tuple[int, int]] | np.ndarray, constant_values: float = 0) -> np.ndarray:
    """`numpy.pad` with a constant, and pairs of widths for all axes."""
    sizes = [size + int(before) + int(after) for size, (before, after) in zip(array.shape, widths, strict=True)]
    allow(_count(sizes), array.itemsize)
    return np.pad(array, widths, constant_values=constant_values)


def broadcast_to(array: ArrayLike, shape: Sequence[int]) -> np.ndarray:
    """`numpy.broadcast_to`, which is a view whose copies are as large as they look."""
    given = np.asarray(array)
    allow(_count(shape), given.itemsize)
    return np.broadcast_to(given, tuple(shape))


def outer(function: np.ufunc, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """A function of all pairs of elements, ``first.shape + second.shape``: `numpy.ufunc.outer`."""
    allow(first.size * second.size)
    result: np.ndarray = function.outer(first, second)
    return result


def _count(shape: Sizes) -> int:
    return max(0, shape) if isinstance(shape, int) else math.prod(max(0, int(size)) for size in shape)


def _itemsize(dtype: DTypeLike | None) -> int:
    return _ELEMENT if dtype is None else np.dtype(dtype).itemsize
