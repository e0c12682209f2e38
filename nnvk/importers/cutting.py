"""Cutting a graph: in two, where operators wait for results of others, and in parts that a device or another runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nnvk.importers.errors import Malformed

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


# --- parts -----------------------------------------------------------------------------------------------------------


def _sources(nodes: Sequence[Node[Key]]) -> list[set[int]]:
    """The operators that each one reads of."""
    writers = {name: position for position, node in enumerate(nodes) for name in node.writes}
    return [{writers[name] for name in node.reads if name in writers} for node in nodes]


def connected_parts(nodes: Sequence[Node[Key]], taken: Sequence[bool]) -> list[list[int]]:
    """The connected parts of the nodes that are taken, in topological order; no path leaves a part and comes back.

    Along each path a level grows where it enters or leaves what is taken: nodes of one level that are connected are a
    part. Then parts that an edge connects are joined where no other path leads from one to the other.
    """
    sources = _sources(nodes)
    levels: list[int] = []
    for position, before in enumerate(sources):
        level = parity = int(taken[position])
        for source in before:
            level = max(level, levels[source] + (levels[source] + parity) % 2)
        levels.append(level)
    group = list(range(len(nodes)))

    def root(position: int) -> int:
        while group[position] != position:
            group[position] = group[group[position]]
            position = group[position]
        return position

    edges = [(source, position) for position, before in enumerate(sources) for source in before]
    for source, position in edges:
        if taken[source] and levels[source] == levels[position]:
            group[root(position)] = root(source)
    after: dict[int, set[int]] = {root(position): set() for position in range(len(nodes))}
    for source, position in edges:
        if root(source) != root(position):
            after[root(source)].add(root(position))
    for source, position in edges:
        first, second = root(source), root(position)
        if first == second or not (taken[source] and taken[position]) or _leads_around(after, first, second):
            continue
        group[second] = first
        after[first] |= after.pop(second)
        for others in after.values():
            if second in others:
                others.remove(second)
                others.add(first)
        after[first].discard(first)
    parts: dict[int, list[int]] = {}
    for position in range(len(nodes)):
        if taken[position]:
            parts.setdefault(root(position), []).append(position)
    return list(parts.values())


def _leads_around(after: dict[int, set[int]], first: int, second: int) -> bool:
    """Whether a path leads from one part to another one through a third."""
    pending = after[first] - {second}
    seen = set(pending)
    while pending:
        behind = after[pending.pop()]
        if second in behind:
            return True
        pending |= behind - seen
        seen |= behind
    return False


def scheduled(nodes: Sequence[Node[Key]], parts: Sequence[Sequence[int]]) -> Iterator[tuple[bool, list[int]]]:
    """Steps in an order in which they can be computed, and whether each is one of ``parts``.

    As many of the other operators as possible are a step together. ``nodes`` are in topological order.
    """
    taken = {position for part in parts for position in part}
    members = [*map(list, parts), *([position] for position in range(len(nodes)) if position not in taken)]
    group = {position: number for number, positions in enumerate(members) for position in positions}
    sources = _sources(nodes)
    before = [{group[one] for at in positions for one in sources[at]} - {group[positions[0]]} for positions in members]
    left = sorted(range(len(members)), key=lambda number: members[number][0])
    done: set[int] = set()
    while left:
        together: list[int] = []
        for one in left:
            if one >= len(parts) and before[one] <= done:
                together += members[one]
                done.add(one)
        if together:
            yield False, together
        own = [one for one in left if one < len(parts) and before[one] <= done]
        yield from ((True, members[one]) for one in own)
        done.update(own)
        if not own and not together:
            raise Malformed("there is a cycle")
        left = [one for one in left if one not in done]
