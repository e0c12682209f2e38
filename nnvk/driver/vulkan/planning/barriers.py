"""Barriers: where a command must wait for earlier ones. They are found by address, so that reused memory counts."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from nnvk.driver.vulkan.planning.plan import Address
from nnvk.driver.vulkan.shaders.commands import Command, Storage, TensorRef, whole_fours


def barriers(
    commands: Sequence[Command], addresses: Mapping[int, Address], *, by_buffer: bool = False
) -> frozenset[int]:
    """The commands that must wait for earlier ones: they read or write bytes that those wrote, or write what they read.

    ``by_buffer``: as if every tensor were as large as the buffer that it lies in.
    """

    def ranges(tensors: Iterable[TensorRef]) -> list[_Range]:
        return [_range(addresses[tensor.number], by_buffer) for tensor in tensors]

    needed: set[int] = set()
    written, read = _Touched(), _Touched()
    for position, command in enumerate(commands):
        reads, writes = ranges(command.reads), ranges(command.writes)
        if written.meets(reads) or written.meets(writes) or read.meets(writes):
            needed.add(position)
            written, read = _Touched(), _Touched()
        written.add(writes)
        read.add(reads)
    return frozenset(needed)


_Range = tuple[tuple[Storage, int], float, float]
"""A page, and the bytes of it from one to before another."""


def _range(address: Address, by_buffer: bool) -> _Range:
    page = address.storage, address.page
    return (page, 0, math.inf) if by_buffer else (page, address.offset, address.offset + whole_fours(address.nbytes))


class _Touched:
    """Bytes of pages, as disjoint ranges in order: it takes the logarithm of their number to find one."""

    def __init__(self) -> None:
        self._ranges: defaultdict[tuple[Storage, int], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))

    def meets(self, ranges: Iterable[_Range]) -> bool:
        """Whether any byte of these is among them."""
        return any(begin < end for page, first, last in ranges for begin, end in [self._overlapping(page, first, last)])

    def add(self, ranges: Iterable[_Range]) -> None:
        """Add these bytes."""
        for page, first, last in ranges:
            begin, end = self._overlapping(page, first, last)
            firsts, lasts = self._ranges[page]
            if begin < end:
                first, last = min(first, firsts[begin]), max(last, lasts[end - 1])
            firsts[begin:end], lasts[begin:end] = [first], [last]

    def _overlapping(self, page: tuple[Storage, int], first: float, last: float) -> tuple[int, int]:
        """Which of the page's ranges share bytes with this one: from a position to before another."""
        firsts, lasts = self._ranges[page]
        return bisect.bisect_right(lasts, first), bisect.bisect_left(firsts, last)
