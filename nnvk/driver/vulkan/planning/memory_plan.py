"""Where things lie: blocks with lifetimes are placed into as little memory as a greedy plan finds.

The method is TensorFlow Lite's "greedy by size": the largest block first, each into the smallest gap between the
blocks that live at the same time (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference",
2020). Where that takes more than what is alive at once, other orders are tried, and then the blocks that came to lie
the highest are placed first, again and again. A buffer may be bound only up to the device's maxStorageBufferRange, so
that memory comes in pages of at most that size.
"""

from __future__ import annotations

import itertools
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from nnvk.driver.vulkan.shaders.commands import ALIGNMENT, padded


@dataclass(frozen=True, slots=True)
class Block:
    """Memory that is needed from step ``first`` to step ``last``, both included."""

    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class PageOffset:
    """Where a block lies: the page's number and the offset in it, in bytes."""

    page: int
    offset: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """A place for every block, and the sizes of the pages, in bytes."""

    places: tuple[PageOffset, ...]
    pages: tuple[int, ...]


class _Page:
    """The blocks of a page, in the order of their offsets."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: list[tuple[int, int, int, int]] = []
        """The offset and the end of each block, and its first and last step."""
        self.size = ALIGNMENT

    def add(self, block: Block, offset: int) -> None:
        """Let a block lie at an offset."""
        end = offset + padded(block.size)
        insort(self._rows, (offset, end, block.first, block.last))
        self.size = max(self.size, end)

    def best_gap(self, block: Block) -> int | None:
        """Offset of the smallest gap that holds the block beside those that live with it; None if the page is full."""
        size, first, last = padded(block.size), block.first, block.last
        taken, best, least = 0, None, self._limit + 1
        for offset, end, since, until in self._rows:
            if since <= last and first <= until:
                if size <= offset - taken < least:
                    best, least = taken, offset - taken
                taken = max(taken, end)
        return best if best is not None else taken if taken + size <= self._limit else None


_ORDERS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda block: (-block.size, block.first),
    lambda block: (-block.size * (1 + block.last - block.first), block.first),
    lambda block: (block.first - block.last, -block.size, block.first),
    lambda block: (block.first, -block.size),
    lambda block: (-block.last, -block.size),
)
"""Orders in which blocks may be placed: by size, by size and time together, by time, as they come, and from the end."""


_REPAIRS, _REPAIRED = 16, 1 << 11
"""How often each order is changed at most, and how many blocks are placed for that at most."""

LEAST_SHARED = 1 << 16
"""The bytes from which on a constant has a page of its own: a smaller one saves too little for a page."""
MOST_ALONE = 256
"""The most constants of a plan that have a page of their own: devices limit the number of allocations."""

_ENOUGH = 1.03
"""So many times the least memory are worth no change of an order."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The order in which blocks were placed best, and how many times the least memory they took."""

    order: tuple[int, ...]
    ratio: float


Placements = dict[tuple[tuple[int, int], ...], Placement]
"""The placements for other sizes, by the first and the last step of each block."""


def place(blocks: Sequence[Block], page_limit: int, known: Placements | None = None) -> MemoryPlan:
    """Place all blocks, in the order that takes the least memory. ValueError: one is larger than a page may be.

    An order that is ``known`` is taken if the blocks take hardly a larger share of the least memory in it.
    """
    _check_sizes((block.size for block in blocks), page_limit)
    least, best, order = max(most_alive(blocks), ALIGNMENT), MemoryPlan((), ()), tuple[int, ...]()
    known = {} if known is None else known
    lifetimes = tuple((block.first, block.last) for block in blocks)
    before = known.get(lifetimes)
    if before is not None:
        plan = _placed(blocks, page_limit, before.order)
        if sum(plan.pages) <= max(before.ratio, _ENOUGH) * least:
            return plan
    for number, (plan, tried) in enumerate(_attempts(blocks, page_limit)):
        if number == 0 or sum(plan.pages) < sum(best.pages):
            best, order = plan, tuple(tried)
        if sum(best.pages) <= (least if number < len(_ORDERS) else _ENOUGH * least):
            break
    known[lifetimes] = Placement(order, sum(best.pages) / least)
    return best


def place_constants(sizes: Sequence[int], page_limit: int) -> MemoryPlan:
    """Place constants: large ones in a page each, which plans share, and all others together. Errors as of `place`."""
    large = sorted((number for number, size in enumerate(sizes) if size >= LEAST_SHARED), key=lambda n: -sizes[n])
    alone = {number: page for page, number in enumerate(sorted(large[:MOST_ALONE]))}
    places = {number: PageOffset(page, 0) for number, page in alone.items()}
    pages = [padded(sizes[number]) for number in alone]
    together = sorted((number for number in range(len(sizes)) if number not in alone), key=lambda n: -sizes[n])
    _check_sizes((sizes[number] for number in together), page_limit)
    for number in together:  # all live as long as the plan, so there are no gaps
        size = padded(sizes[number])
        fitting = (page for page in range(len(alone), len(pages)) if pages[page] + size <= page_limit)
        page = next(fitting, len(pages))
        if page == len(pages):
            pages.append(0)
        places[number] = PageOffset(page, pages[page])
        pages[page] += size
    pages = [max(size, ALIGNMENT) for size in pages]
    return MemoryPlan(tuple(places[number] for number in range(len(sizes))), tuple(pages))


def _check_sizes(sizes: Iterable[int], page_limit: int) -> None:
    for size in sizes:
        if padded(size) > page_limit:
            raise ValueError(f"a block of {size} bytes does not fit into a page of {page_limit}")


def _attempts(blocks: Sequence[Block], page_limit: int) -> Iterator[tuple[MemoryPlan, list[int]]]:
    """Plans by all orders, and by what becomes of these where the blocks that lie the highest are placed first."""
    numbers = range(len(blocks))
    tried: list[tuple[MemoryPlan, list[int]]] = []
    for key in _ORDERS:
        order = sorted(numbers, key=lambda number: (*key(blocks[number]), number))
        tried.append((_placed(blocks, page_limit, order), order))
        yield tried[-1]
    repairs = min(_REPAIRS, _REPAIRED // (len(_ORDERS) * max(1, len(blocks))))
    for plan, order in sorted(tried, key=lambda attempt: sum(attempt[0].pages)):
        for _ in range(repairs):
            highest = {number for number in numbers if _is_highest(blocks[number], plan.places[number], plan)}
            order = [*sorted(highest, key=order.index), *(number for number in order if number not in highest)]
            plan = _placed(blocks, page_limit, order)
            yield plan, order


def _is_highest(block: Block, place: PageOffset, plan: MemoryPlan) -> bool:
    """Whether a block ends where the last page does."""
    return place.page == len(plan.pages) - 1 and place.offset + padded(block.size) == plan.pages[-1]


def most_alive(blocks: Sequence[Block]) -> int:
    """The most bytes that are needed at one step: no plan takes less."""
    changes: Counter[int] = Counter()
    for block in blocks:
        changes[block.first] += padded(block.size)
        changes[block.last + 1] -= padded(block.size)
    return max(itertools.accumulate(changes[step] for step in sorted(changes)), default=0)


def _placed(blocks: Sequence[Block], page_limit: int, order: Iterable[int]) -> MemoryPlan:
    pages: list[_Page] = []
    places: dict[int, PageOffset] = {}
    for number in order:
        block = blocks[number]
        gaps = ((at, page.best_gap(block)) for at, page in enumerate(pages))
        at, offset = next(((at, gap) for at, gap in gaps if gap is not None), (len(pages), 0))
        if at == len(pages):
            pages.append(_Page(page_limit))
        pages[at].add(block, offset)
        places[number] = PageOffset(at, offset)
    return MemoryPlan(tuple(places[number] for number in range(len(blocks))), tuple(page.size for page in pages))
