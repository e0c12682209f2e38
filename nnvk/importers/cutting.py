"""Cutting a graph in two: the operators that can be computed first, and those that wait for results of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key")
"""The type of names that a format has for its tensors."""


@dataclass(frozen=True, slots=True)
class Node(Generic[Key]):
    """An operator as a graph's cut sees it."""

    reads: Sequence[Key]
    writes: Sequence[Key]
    varies: bool = False
    """Whether results differ from one operator to a copy of it, even if all that they read is constant."""


@dataclass(frozen=True, slots=True)
class Cut(Generic[Key]):
    """A graph in two parts."""

    first: Sequence[int]
    """The positions of the operators that do not wait."""
    rest: Sequence[int]
    """The positions of the operators that wait, and of those that compute constants for them."""
    taken: Sequence[Key]
    """The tensors that the rest takes. They are the first outputs of the first part."""
    first_outputs: Sequence[Key]
    rest_outputs: Sequence[Key]
    places: Sequence[tuple[bool, int]]
    """For each output of the graph, whether the rest computes it, and its position among the outputs of its part."""


def cut(
    nodes: Sequence[Node[Key]],
    inputs: Collection[Key],
    outputs: Sequence[Key],
    stored: Collection[Key],
    waiting: Collection[int],
) -> Cut[Key]:
    """Cut a graph in front of operators, by their positions. The rest are these and all that depend on them.

    ``stored`` are constants, which both parts may have. The rest computes further constants by itself, so that they
    stay constants.
    """
    behind = _dependents(nodes, waiting)
    given = set(inputs).difference(stored)
    varying = [at for at, node in enumerate(nodes) if node.varies or given.intersection(node.reads)]
    constant = set(range(len(nodes))) - _dependents(nodes, varying)
    writers = {name: position for position, node in enumerate(nodes) for name in node.writes}
    copied: set[int] = set()
    pending = [name for position in behind for name in nodes[position].reads]
    while pending:
        position = writers.get(pending.pop())
        if position in constant and position not in copied:
            copied.add(position)
            pending += nodes[position].reads
    rest = sorted(behind | copied)
    late: set[Key] = {name for position in behind for name in nodes[position].writes}
    taken: list[Key] = [name for name in read_by(nodes[position] for position in rest) if name not in stored]
    first_outputs = list(dict.fromkeys([*taken, *(name for name in outputs if name not in late)]))
    rest_outputs = list(dict.fromkeys(name for name in outputs if name in late))
    places = [(name in late, (rest_outputs if name in late else first_outputs).index(name)) for name in outputs]
    first = [position for position in range(len(nodes)) if position not in behind]
    return Cut(first, rest, taken, first_outputs, rest_outputs, places)


def read_by(nodes: Iterable[Node[Key]]) -> list[Key]:
    """The tensors that operators read and do not write, in the order in which they are read."""
    several = list(nodes)
    written = {name for node in several for name in node.writes}
    return list(dict.fromkeys(name for node in several for name in node.reads if name not in written))


def _dependents(nodes: Sequence[Node[Key]], positions: Collection[int]) -> set[int]:
    """Operators, and all that read what they write."""
    readers: dict[Key, list[int]] = {}
    for position, node in enumerate(nodes):
        for name in node.reads:
            readers.setdefault(name, []).append(position)
    found: set[int] = set()
    pending = list(positions)
    while pending:
        position = pending.pop()
        if position not in found:
            found.add(position)
            pending += (reader for name in nodes[position].writes for reader in readers.get(name, ()))
    return found
