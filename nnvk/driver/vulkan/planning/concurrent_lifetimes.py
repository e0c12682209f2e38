"""Concurrent lifetimes: tensors of commands that a GPU runs at the same time must not share memory.

If the memory that one of them is done with were given to the next one, this would have to wait after all.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from nnvk.driver.vulkan.planning.barriers import barriers
from nnvk.driver.vulkan.planning.command_passes.command_graph import TensorPart
from nnvk.driver.vulkan.planning.memory_plan import Block, most_alive
from nnvk.driver.vulkan.planning.plan import Address, addresses_of
from nnvk.driver.vulkan.shaders.commands import Command, Storage, TensorRef, padded

Lifetimes = dict[TensorRef, tuple[int, int]]
"""Positions of the first and the last command that touches a tensor, or a part of it."""
_FREE = 16 << 20
"""Bytes of an arena that are worth a barrier less."""


def prolonged(commands: Sequence[Command], parts: Mapping[TensorRef, TensorPart], lifetimes: Lifetimes) -> Lifetimes:
    """Lifetimes by which commands that can be computed at once share no memory in turns.

    Where so much would be alive then, that is more than at any other time and than `_FREE`, they stay as they are.
    """
    ends = [*sorted({0, *barriers(commands, _apart(parts, lifetimes))}), len(commands)]
    spans = list(itertools.pairwise(ends))
    begun, ended = Counter[int](), Counter[int]()
    for tensor, (first, last) in lifetimes.items():
        if tensor.storage is Storage.ARENA:
            begun[bisect.bisect_right(ends, first) - 1] += padded(tensor.nbytes)
            ended[bisect.bisect_right(ends, last) - 1] += padded(tensor.nbytes)
    blocks = [Block(tensor.nbytes, *span) for tensor, span in lifetimes.items() if tensor.storage is Storage.ARENA]
    most, alive = max(_FREE, most_alive(blocks)), 0
    span_of: dict[int, tuple[int, int]] = {}
    for number, (first, end) in enumerate(spans):
        alive += begun[number]
        span_of |= {
            position: (first, end - 1) if alive <= most else (position, position) for position in range(first, end)
        }
        alive -= ended[number]
    return {tensor: (span_of[first][0], span_of[last][1]) for tensor, (first, last) in lifetimes.items()}


def _apart(parts: Mapping[TensorRef, TensorPart], tensors: Lifetimes) -> Mapping[int, Address]:
    """Addresses where nothing shares memory but what lies in one another."""
    alone = {tensor.number: Address(tensor.storage, page, 0, tensor.nbytes) for page, tensor in enumerate(tensors)}
    return alone | addresses_of(parts, alone)
