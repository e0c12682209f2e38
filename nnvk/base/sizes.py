"""Arithmetic on sizes that may be extents, where plain Python or NumPy would need the numbers themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnvk.base.extents import applied, fixed, has_extents, identity, is_extent, unique


def broadcast_sizes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that several shapes broadcast to. ValueError: they don't."""
    if not any(map(has_extents, shapes)):
        return np.broadcast_shapes(*map(tuple, shapes))
    rank = max(map(len, shapes))
    found = []
    for sizes in zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes), strict=True):
        wide = unique(size for size in sizes if size != 1)
        if any(size != wide[0] for size in wide):
            raise ValueError("shapes don't broadcast")
        found.append(wide[0] if wide else 1)
    return tuple(found)


def quotient(sizes: Sequence[int], divisors: Sequence[int]) -> Any:
    """The product of sizes, divided by that of others. Extents that are among both need not be known."""
    if not has_extents(sizes):
        return math.prod(sizes) // math.prod(divisors)
    left, names = list(sizes), [identity(size) for size in sizes]
    others = []
    for size in divisors:
        if is_extent(size) and identity(size) in names:
            place = names.index(identity(size))
            del left[place], names[place]
        else:
            others.append(size)
    return math.prod(left) // math.prod(others)


def least(*numbers: Any) -> Any:
    """The least of several numbers, which is no guard."""
    return applied(min, *numbers) if len(numbers) > 1 and has_extents(numbers) else min(numbers)


def largest(*numbers: Any) -> Any:
    """The largest of several numbers, which is no guard."""
    return applied(max, *numbers) if len(numbers) > 1 and has_extents(numbers) else max(numbers)


class Run:
    """Places one behind the other, as of a `range` whose ends are extents."""

    __slots__ = ("start", "step", "stop")

    def __init__(self, start: Any, stop: Any) -> None:
        self.start, self.stop, self.step = start, stop, 1


def part(size: Any, begin: Any, end: Any, step: Any = 1) -> Any:
    """The places along an axis that a slice takes, as of ``range(size)[begin:end:step]``."""
    if not has_extents((size, begin, end)):
        return range(*slice(begin, end, step).indices(size))
    if step != 1:
        size, begin, end = fixed((size, begin, end))
        return part(size, begin, end, step)
    first, last = (_clamped(number, size) for number in (begin, end))
    return Run(first, last if last > first else first)


def everything(shape: Sequence[Any]) -> list[Any]:
    """All places along each axis."""
    return [part(size, 0, size) for size in shape]


def _clamped(number: Any, size: Any) -> Any:
    """The end of a slice as a number from 0 to ``size``."""
    if number < 0:
        number = number + size
        return number if number >= 0 else 0
    return size if number > size else number


def count(places: Any) -> Any:
    """The number of places."""
    return places.stop - places.start if isinstance(places, Run) else len(places)


def is_all(places: Any, size: Any) -> bool:
    """Whether these are all places along an axis, in order."""
    return places.start == 0 and places.step == 1 and count(places) == size


def whole_numbers(numbers: Sequence[Any], dtype: Any) -> np.ndarray:
    """An array of whole numbers, as objects if some are extents."""
    return np.array(numbers, object if has_extents(numbers) else dtype)
