"""Elementwise operations that follow each other become one node, which one dispatch computes.

A group is computed where its last operation is. Whoever else reads one of its results has to come behind that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.graph.program import RESULTS, ElementwiseProgram, Formula, formula_of
from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.elementwise.fused import variant_of
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.driver.vulkan.planning.passes.elements import Elements, in_order
from nnvk.ops.call import Call, Tensor


@dataclass(frozen=True, slots=True)
class Group:
    """Elementwise operations on floats that can be computed together, in order."""

    nodes: tuple[Node, ...]
    calls: tuple[Call, ...]
    """The calls of the nodes, which read the results of each other without reshapes between them."""
    program: ElementwiseProgram
    results: tuple[Tensor, ...]
    """The results that others read."""

    @property
    def last(self) -> Node:
        """The last operation, in whose place the group is computed."""
        return self.nodes[-1]


def fuse_elementwise(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Compute each group of several elementwise operations by one node."""
    elements = Elements(graph)
    instead: dict[Node, Node | None] = {}
    groups = [group for group in groups_of(graph, elements, recomputes=True) if len(group.nodes) > 1]
    for group in groups:
        if not context.profile.avoids(variant_of(group.program, dtype(group.last.outputs[0]))):
            instead.update(replacements(group, group.last, group.calls, elements))
    return replaced(graph, instead), sum(node is not None for node in instead.values())


def replacements(
    group: Group, leader: Node, calls: Sequence[Call], elements: Elements
) -> Iterator[tuple[Node, Node | None]]:
    """The node that computes a group, in the place of its last operation, and None for those that go.

    ``leader``: the node whose operation it stands for. ``calls``: its calls in order, that of the leader the first one
    unless the leader is in the group.
    """
    absorbed = {each: None for node in group.nodes for each in (node, *elements.reshapes(node))}
    fused = frozenset[int]().union(leader.fused, *(each.operations for each in absorbed)) - {leader.operation}
    results = frozenset(tensor.index for tensor in group.results)
    for node in (leader, *group.nodes[:-1]):
        yield node, None
    own = calls[0], leader.operation, fused, leader.prologue, tuple(calls[1:])
    yield group.last, Node(*own, results, group.program)


def replaced(graph: Graph, instead: dict[Node, Node | None]) -> Graph:
    """The graph with other nodes in the places of some, or without those."""
    if not instead:
        return graph
    nodes = (instead.get(node, node) for node in graph.nodes)
    return in_order(graph, (node for node in nodes if node is not None))


_Formulas = Mapping[Node, tuple[Formula, ...]]
"""The formulas of the calls of elementwise operations."""


# --- groups ------------------------------------------------------------------------------------------------------


def groups_of(graph: Graph, elements: Elements, *, recomputes: bool = False) -> list[Group]:
    """All elementwise operations of a graph that can be fused, each in one group.

    ``recomputes``: an operation on a single number may be in the group of the one operation that reads it.
    """
    formulas = {node: formulas for node in graph.nodes if (formulas := _formulas(elements, node))}
    of_result: dict[int, Group] = {}
    found: dict[Node, Group] = {}
    for node in formulas:
        sources = ((tensor, of_result.get(elements.source(tensor).index)) for tensor in node.inputs)
        before = {
            group.last: group
            for tensor, group in sources
            if group is not None
            and (tensor.size == node.outputs[0].size or (recomputes and _is_recomputed(elements, group, node)))
        }
        together = [list(before.values()), *([group] for group in before.values())] if before else []
        joined = next((group for some in together if (group := _joined(elements, formulas, some, node))), None)
        if joined is None:
            joined = _group(elements, formulas, [node])
            assert joined is not None
        for part in joined.nodes:
            found.pop(part, None)
            of_result[part.outputs[0].index] = joined
        found[node] = joined
    return list(found.values())


def _formulas(elements: Elements, node: Node) -> tuple[Formula, ...] | None:
    """The formulas of the calls of an elementwise operation, or of several in one node; None for other nodes."""
    if node.traits.gemm is not None or (node.traits.elementwise is None and not node.epilogue):
        return None
    formulas = tuple(map(formula_of, elements.calls(node)))
    return None if None in formulas else tuple(formula for formula in formulas if formula is not None)


def _is_recomputed(elements: Elements, group: Group, node: Node) -> bool:
    """Whether a group is one operation that gives a single number to ``node`` alone."""
    (output,) = group.last.outputs
    return output.size == len(group.nodes) == 1 and not _is_read_outside(elements, output, [node])


def _joined(elements: Elements, formulas: _Formulas, groups: Iterable[Group], node: Node) -> Group | None:
    """The operations of groups and one more, together; None where that can't be."""
    places, output = elements.places, node.outputs[0]
    nodes = sorted({part: None for group in groups for part in group.nodes}, key=places.__getitem__)
    for part in nodes:
        result = part.outputs[0]
        if result.size not in (1, output.size) or result.code is not output.code:
            return None
        readers = (reader for reader in elements.readers(result) if reader not in nodes)
        if any(places[reader] < places[node] for reader in readers):
            return None
    return _group(elements, formulas, [*nodes, node])


def _group(elements: Elements, formulas: _Formulas, nodes: Sequence[Node]) -> Group | None:
    """The nodes as one; None where they are too many, or have too many operands or results."""
    calls = tuple(call for node in nodes for call in elements.calls(node))
    program = ElementwiseProgram(formula for node in nodes for formula in formulas[node])
    results = tuple(node.outputs[0] for node in nodes if _is_read_outside(elements, node.outputs[0], nodes))
    if len(nodes) > 1 and not (program.fits and len(results) <= RESULTS):
        return None
    return Group(tuple(nodes), calls, program, results or (nodes[-1].outputs[0],))


def _is_read_outside(elements: Elements, tensor: Tensor, nodes: Collection[Node]) -> bool:
    return elements.is_given(tensor) or any(reader not in nodes for reader in elements.readers(tensor))
