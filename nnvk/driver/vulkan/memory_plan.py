"""Where things lie: blocks with lifetimes are placed into as little memory as a greedy plan finds.

The method is TensorFlow Lite's "greedy by size": the largest block first, each into the smallest gap between the
blocks that live at the same time (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference",
2020). A buffer may be bound only up to the device's maxStorageBufferRange, so that memory comes in pages of at
most that size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64
"""Bytes to which every block is aligned and padded: a cache line, and what shaders rely on."""


def padded(size: int) -> int:
    """``size`` rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Block:
    """Memory that is needed from step ``first`` to step ``last``, both included."""

    size: int
    first: int
    last: int

    def overlaps(self, other: Block) -> bool:
        """Whether both are needed at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block lies: the page's number and the offset in it, in bytes."""

    page: int
    offset: int


@dataclass(frozen=True, slots=True)
class Placement:
    """A place for every block, and the sizes of the pages, in bytes."""

    places: tuple[Place, ...]
    pages: tuple[int, ...]


def place(blocks: Sequence[Block], page_limit: int) -> Placement:
    """Place all blocks. Raises ValueError for a block that is larger than a page may be."""
    taken: list[list[tuple[int, Block]]] = []
    places: dict[int, Place] = {}
    for number in sorted(range(len(blocks)), key=lambda number: (-blocks[number].size, blocks[number].first, number)):
        block = blocks[number]
        size = padded(block.size)
        if size > page_limit:
            raise ValueError(f"a block of {block.size} bytes does not fit into a page of {page_limit}")
        gaps = ((page, _best_gap(block, size, residents, page_limit)) for page, residents in enumerate(taken))
        page, offset = next(((page, gap) for page, gap in gaps if gap is not None), (len(taken), 0))
        if page == len(taken):
            taken.append([])
        taken[page].append((offset, block))
        places[number] = Place(page, offset)
    pages = tuple(max(ALIGNMENT, *(offset + padded(block.size) for offset, block in residents)) for residents in taken)
    return Placement(tuple(places[number] for number in range(len(blocks))), pages)


def _best_gap(block: Block, size: int, residents: Sequence[tuple[int, Block]], limit: int) -> int | None:
    """Offset of the smallest gap that holds the block beside those that live with it; None if the page is full."""
    neighbours = sorted((offset, padded(other.size)) for offset, other in residents if other.overlaps(block))
    best, best_room = None, limit + 1
    end = 0
    for offset, length in neighbours:
        room = offset - end
        if size <= room < best_room:
            best, best_room = end, room
        end = max(end, offset + length)
    if best is None and end + size <= limit:
        best = end
    return best
