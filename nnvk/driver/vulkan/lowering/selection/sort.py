"""Sorting: the first entries of rows by descending keys (``shaders/include/sort.glsl``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.lowering.copies.move import FILL, fill
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader

SORT = Shader("sort", PASS=("lists", "blocks", "merge"), FROM=("keys", "entries"))
SORTING = (SORT, FILL)
"""The shaders that sorting may dispatch."""
LOCAL = 64
SPAN = 16
"""The entries of the first lists that are merged."""
BLOCK = 1024
"""The most entries of the first lists on GPUs, where a workgroup makes a list."""
BLOCKS_FROM = 64
"""The least entries of a list for which this is faster than lists of single invocations that are merged."""
ENTRIES = {True: 32, False: 8}
"""The entries of a merged list that an invocation writes, on CPUs and on GPUs."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows of entries, each a key and a position."""

    entries: TensorRef
    """[rows, length, 2], in any order."""
    sizes: TensorRef
    """[rows]: the number of entries."""
    rows: int
    length: int

    @classmethod
    def new(cls, g: Lowering, rows: int, length: int) -> Entries:
        """Rows without entries, for a shader to append to."""
        sizes = g.scratch(4 * rows)
        fill(g, sizes, np.zeros((), np.uint32))
        return cls(g.scratch(8 * rows * length), sizes, rows, length)

    @property
    def tensors(self) -> dict[str, TensorRef]:
        """The tensors, by their names in the shaders."""
        return {"entries": self.entries, "sizes": self.sizes}


def sort_keys(g: Lowering, keys: TensorRef, rows: int, length: int, keep: int) -> TensorRef:
    """The entries of the ``keep`` highest keys of each row, the highest first: [rows, keep, 2]."""
    return _sort(g, "keys", {"keys": keys}, {}, rows, length, keep)


def sort_entries(g: Lowering, source: Entries, keep: int) -> TensorRef:
    """The first ``keep`` entries of each row, in order: [rows, keep, 2]. The rest of a row with fewer entries is
    undefined.
    """
    return _sort(g, "entries", {"entries": source.entries}, {"sizes": source.sizes}, source.rows, source.length, keep)


def _sort(
    g: Lowering,
    kind: str,
    given: dict[str, TensorRef],
    sizes: dict[str, TensorRef],
    rows: int,
    length: int,
    keep: int,
) -> TensorRef:
    in_blocks = length >= BLOCKS_FROM and not g.device.is_cpu
    span = min(BLOCK, 1 << (length - 1).bit_length()) if in_blocks else SPAN
    lists, stride = -(-length // span), min(span, keep)
    source = g.scratch(8 * rows * lists * stride)
    local = min(g.device.large_team, span // 2) if in_blocks else LOCAL
    written = ENTRIES[g.device.is_cpu]
    g.dispatch(
        SORT.variant(PASS="blocks" if in_blocks else "lists", FROM=kind),
        groups=g.flat(rows * lists, 1 if in_blocks else local),
        spec={"local_x": local, **({"BLOCK": span, "LOCAL": local} if in_blocks else {})},
        tensors={**given, **sizes, "dst": source},
        count=rows * lists,
        lists=lists,
        length=length,
        keep=stride,
    )
    while lists > 1:
        merged, fewer = min(2 * stride, keep), -(-lists // 2)
        target = g.scratch(8 * rows * fewer * merged)
        count = rows * fewer * -(-merged // written)
        g.dispatch(
            SORT.variant(PASS="merge", FROM=kind),
            groups=g.flat(count, LOCAL),
            spec={"local_x": LOCAL, "ENTRIES": written},
            tensors={"src": source, **sizes, "dst": target},
            count=count,
            lists=lists,
            length=length,
            span=span,
            stride=stride,
            keep=merged,
        )
        source, lists, stride, span = target, fewer, merged, 2 * span
    return source
