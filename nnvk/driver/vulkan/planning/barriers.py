"""Barriers: where a command must wait for earlier ones. They are found by address, so that reused memory counts."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from nnvk.driver.vulkan.planning.plan import Address
from nnvk.driver.vulkan.shaders.commands import Command, Dispatch, Storage, TensorRef, whole_vec4s


def barriers(
    commands: Sequence[Command], addresses: Mapping[int, Address], *, by_buffer: bool = False
) -> frozenset[int]:
    """The commands that must wait for earlier ones: they read or write bytes that those wrote, or write what they read.

    Commands need not wait for each other to raise flags. ``by_buffer``: as if every tensor were as large as the buffer
    that it lies in, and flags were like others.
    """
    known = {number: _range(address, by_buffer) for number, address in addresses.items()}

    def ranges(tensors: Iterable[TensorRef]) -> list[_Range]:
        return [known[tensor.number] for tensor in tensors]

    needed: set[int] = set()
    written, read, raised = _Touched(), _Touched(), _Touched()
    for position, command in enumerate(commands):
        flags = command.flags if isinstance(command, Dispatch) and not by_buffer else []
        both = [command.reads, command.writes]
        reads, writes = (ranges([each for each in of if each not in flags] if flags else of) for of in both)
        raises = ranges(flags)
        if (
            written.meets((*reads, *writes, *raises))
            or read.meets((*writes, *raises))
            or raised.meets((*reads, *writes))
        ):
            needed.add(position)
            written, read, raised = _Touched(), _Touched(), _Touched()
        written.add(writes)
        read.add(reads)
        raised.add(raises)
    return frozenset(needed)


_Rows = tuple[Storage, int, int, int]
"""The page of rows, the byte at which the first one begins, and the bytes of each."""


class _Range(NamedTuple):
    """Bytes of a page."""

    page: tuple[Storage, int]
    first: float
    end: float
    rows: _Rows | None = None
    """The rows of the larger tensor that this one is columns of."""
    columns: tuple[int, int] = (0, 0)
    """The bytes of each row, from the first number to before the second."""


def _range(address: Address, by_buffer: bool) -> _Range:
    page, first, columns = (address.storage, address.page), address.offset, address.view
    if by_buffer:
        return _Range(page, 0, math.inf)
    if columns is None:
        return _Range(page, first, first + whole_vec4s(address.nbytes))
    rows = *page, first - columns.first, columns.pitch
    return _Range(page, first, first + address.span, rows, (columns.first, columns.first + columns.width))


class _Touched:
    """Bytes that were touched: those of tensors that lie by themselves, and columns of rows that are others' too."""

    def __init__(self) -> None:
        self._bytes: defaultdict[tuple[Storage, int], _Disjoint] = defaultdict(_Disjoint)
        self._columns: dict[_Rows, _Disjoint] = {}
        self._rows: defaultdict[tuple[Storage, int], dict[_Rows, tuple[float, float]]] = defaultdict(dict)

    def meets(self, ranges: Iterable[_Range]) -> bool:
        """Whether any byte of these is among them. Columns of different rows are seen as if they were dense."""
        return bool(self._bytes or self._columns) and any(map(self._meets, ranges))

    def _meets(self, each: _Range) -> bool:
        if self._bytes[each.page].overlaps(each.first, each.end):
            return True
        if each.rows in self._columns and self._columns[each.rows].overlaps(*each.columns):
            return True
        others = self._rows[each.page].items()
        return any(rows != each.rows and first < each.end and each.first < end for rows, (first, end) in others)

    def add(self, ranges: Iterable[_Range]) -> None:
        """Add these bytes."""
        for each in ranges:
            if each.rows is None:
                self._bytes[each.page].add(each.first, each.end)
                continue
            self._columns.setdefault(each.rows, _Disjoint()).add(*each.columns)
            first, end = self._rows[each.page].get(each.rows, (each.first, each.end))
            self._rows[each.page][each.rows] = min(first, each.first), max(end, each.end)


class _Disjoint:
    """Ranges in order, none of which share anything: it takes the logarithm of their number to find one."""

    def __init__(self) -> None:
        self._firsts: list[float] = []
        self._ends: list[float] = []

    def overlaps(self, first: float, end: float) -> bool:
        """Whether any of them shares something with a range."""
        begin, last = self._overlapping(first, end)
        return begin < last

    def add(self, first: float, end: float) -> None:
        """Add a range."""
        begin, last = self._overlapping(first, end)
        if begin < last:
            first, end = min(first, self._firsts[begin]), max(end, self._ends[last - 1])
        self._firsts[begin:last], self._ends[begin:last] = [first], [end]

    def _overlapping(self, first: float, end: float) -> tuple[int, int]:
        """The ranges that overlap a range: the position of the first one, and the one behind the last one."""
        return bisect.bisect_right(self._ends, first), bisect.bisect_left(self._firsts, end)
