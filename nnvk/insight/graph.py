"""A model as a graph that fits a screen: nodes with the device and the layer of each operation, and their positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log

from nnvk.base.text import dimensions
from nnvk.insight.placement import Placed
from nnvk.types.model import Lifetime, Model

COLOURS = ("#8dd3c7", "#ffffb3", "#bebada", "#fb8072", "#80b1d3", "#fdb462", "#b3de69", "#fccde5")
"""The colours of devices, for black text."""
WIDTH, HEIGHT = 210.0, 92.0
"""The distances of neighbours, in pixels."""
_GAP = 60.0
"""Additional pixels between columns."""
_SCREEN = 1.6
"""The ratio of a screen's width to its height."""
_LONGEST = 28
"""Characters of a layer's name, whose end says more than its beginning."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operation, an input or an output of the model."""

    key: str
    """``op3``, ``input0`` or ``output0``."""
    lines: tuple[str, ...]
    """Its label."""
    device: str
    """The device that runs the operation; empty for inputs and outputs."""
    column: int
    x: float
    y: float
    """The middle, in pixels from the left and from the top."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor on its way from a node to another; constants are left out."""

    source: str
    target: str
    label: str
    """Dimensions."""
    in_column: bool
    """Whether both ends are in the same column, one below the other."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A model's nodes in columns, from the top left to the bottom right."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    devices: tuple[str, ...]
    """Those that run operations, in the order of the first operation of each."""

    def colour(self, device: str) -> str:
        """The colour of a device; white for inputs and outputs."""
        return COLOURS[self.devices.index(device) % len(COLOURS)] if device else "#ffffff"


def graph_of(model: Model, placed: Sequence[Placed]) -> Graph:
    """The graph of a frozen model whose operations are ``placed``.

    A node's level is the number of operations on the longest way to it. Levels go down a column, and on at the top of
    the next, so that a long chain of operations gets the shape of a screen.
    """
    labels = {
        **{f"input{at}": (f"input {at}", model.operands[i].type.brief) for at, i in enumerate(model.inputs)},
        **{f"op{number}": _label(number, one) for number, one in enumerate(placed)},
        **{f"output{at}": (f"output {at}", model.operands[i].type.brief) for at, i in enumerate(model.outputs)},
    }
    found = _edges(model)
    levels = _levels(list(labels), found)
    rows = _rows(levels, found)
    height = _column_height(rows)
    middles: dict[str, tuple[int, float, float]] = {}
    left = 0.0
    for column in range(ceil(len(rows) / height)):
        part = rows[column * height : (column + 1) * height]
        wide = max(map(len, part)) * WIDTH
        for row, keys in enumerate(part):
            for place, key in enumerate(keys):
                x = left + wide / 2 + (place - (len(keys) - 1) / 2) * WIDTH
                middles[key] = column, x, row * HEIGHT
        left += wide + _GAP
    devices = tuple(dict.fromkeys(one.device for one in placed))
    runs_on = {f"op{number}": one.device for number, one in enumerate(placed)}
    nodes = tuple(Node(key, lines, runs_on.get(key, ""), *middles[key]) for key, lines in labels.items())
    edges = tuple(Edge(*ends, label, middles[ends[0]][0] == middles[ends[1]][0]) for ends, label in found.items())
    return Graph(nodes, edges, devices)


def _label(number: int, one: Placed) -> tuple[str, ...]:
    layer = "" if one.layer is None else one.layer.name
    short = layer if len(layer) <= _LONGEST else f"..{layer[2 - _LONGEST :]}"
    shape = ", ".join(dimensions(type_.dimensions, unknown=0) for type_ in one.outputs[:2])
    return tuple(line for line in (f"{number} {one.operation}", short, f"{shape} on {one.device}") if line)


def _edges(model: Model) -> dict[tuple[str, str], str]:
    """The dimensions of the tensors between nodes, in the order of execution."""
    writer = {index: f"input{position}" for position, index in enumerate(model.inputs)}
    edges: dict[tuple[str, str], list[str]] = {}
    readers = [(f"op{number}", operation.inputs) for number, operation in enumerate(model.operations)]
    readers += [(f"output{position}", (index,)) for position, index in enumerate(model.outputs)]
    for number, operation in enumerate(model.operations):
        writer |= dict.fromkeys(operation.outputs, f"op{number}")
    for reader, indexes in readers:
        for index in dict.fromkeys(indexes):
            operand = model.operands[index]
            if index in writer and operand.lifetime is not Lifetime.CONSTANT:
                edges.setdefault((writer[index], reader), []).append(dimensions(operand.type.dimensions, unknown=0))
    return {ends: ", ".join(labels) for ends, labels in edges.items()}


def _levels(keys: Sequence[str], edges: Mapping[tuple[str, str], str]) -> dict[str, int]:
    """The level of each node; an input is just above the first operation that reads it."""
    levels = dict.fromkeys(keys, 0)
    before: dict[str, list[str]] = {key: [] for key in keys}
    after: dict[str, list[str]] = {key: [] for key in keys}
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    for key in keys:  # in the order of execution
        levels[key] = max((levels[each] + 1 for each in before[key]), default=0)
    for key in keys:
        if key.startswith("input") and after[key]:
            levels[key] = max(0, min(levels[each] for each in after[key]) - 1)
    return levels


def _rows(levels: Mapping[str, int], edges: Mapping[tuple[str, str], str]) -> list[list[str]]:
    """The nodes of each level, from left to right: each below the mean place of those that it reads."""
    before: dict[str, list[str]] = {}
    for source, target in edges:
        before.setdefault(target, []).append(source)
    rows: list[list[str]] = [[] for _ in range(max(levels.values(), default=0) + 1)]
    for key, level in levels.items():
        rows[level].append(key)
    places: dict[str, float] = {}
    for row in rows:
        wanted = {}
        for place, key in enumerate(row):
            known = [places[each] for each in before.get(key, ()) if each in places]
            wanted[key] = sum(known) / len(known) if known else place - (len(row) - 1) / 2
        row.sort(key=lambda key: wanted[key])
        places |= {key: place - (len(row) - 1) / 2 for place, key in enumerate(row)}
    return rows


def _column_height(rows: Sequence[Sequence[str]]) -> int:
    """The number of levels in a column at which the graph is most like a screen."""

    def unlike(height: int) -> float:
        parts = [rows[first : first + height] for first in range(0, len(rows), height)]
        wide = sum(max(map(len, part)) * WIDTH for part in parts) + _GAP * (len(parts) - 1)
        return abs(log(wide / (height * HEIGHT) / _SCREEN))

    return min(range(1, len(rows) + 1), key=unlike)
