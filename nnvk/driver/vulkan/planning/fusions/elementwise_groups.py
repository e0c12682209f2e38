"""Elementwise operations that follow each other become one dispatch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.fused_elementwise import (
    RESULTS,
    Number,
    Program,
    Result,
    Source,
    Spread,
    Value,
    fused_elementwise,
)
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.fusions.command_graph import Graph
from nnvk.driver.vulkan.planning.fusions.elementwise_nodes import Node, node_at
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.profile import AvoidedShader


@dataclass(frozen=True, slots=True)
class Group:
    """Operations that can be computed together, where the last of them stands, in order."""

    nodes: tuple[Node, ...]
    program: Program
    results: dict[TensorRef, Result]
    """The results that commands outside read."""

    @property
    def last(self) -> Node:
        """Where the group is computed."""
        return self.nodes[-1]


def groups_of(graph: Graph) -> list[Group]:
    """All elementwise operations of a plan, in groups, each in one."""
    of_result: dict[TensorRef, Group] = {}
    found: dict[int, Group] = {}
    for position, dispatch in graph.dispatches("unary", "binary"):
        node = node_at(graph, position, dispatch)
        if node is None:
            continue
        before = {
            group.last.position: group
            for source in node.sources
            if (group := of_result.get(source.tensor)) is not None and source == Source(source.tensor)
        }
        together = [list(before.values()), *([group] for group in before.values())] if before else []
        joined = next((group for some in together if (group := _joined(graph, some, node))), None)
        if joined is None:
            joined = _group(graph, [node])
            assert joined is not None
        for part in joined.nodes:
            found.pop(part.position, None)
            of_result[part.result] = joined
        found[node.position] = joined
    return list(found.values())


def _joined(graph: Graph, groups: Iterable[Group], node: Node) -> Group | None:
    """The operations of groups and one more, together; None where that can't be."""
    nodes = sorted({part.position: part for group in groups for part in group.nodes}.values(), key=_position)
    inside = {part.position for part in nodes}
    for part in nodes:
        if part.result.nbytes != node.result.nbytes:
            return None
        # Whoever reads a result elsewhere must come after the group, which is computed where its last operation is.
        if any(reader < node.position for reader in graph.readers(part.result) if reader not in inside):
            return None
    return _group(graph, [*nodes, node])


def _position(node: Node) -> int:
    return node.position


def _group(graph: Graph, nodes: Sequence[Node]) -> Group | None:
    """The nodes as one; None where they are too many, or have too many operands or results."""
    inside = {node.position for node in nodes}
    program, values = Program(), dict[TensorRef, Result]()

    def operand(source: Source) -> Value:
        if source.tensor in values and source == Source(source.tensor):
            return values[source.tensor]
        data = graph.constant(source.tensor) if source.spread is Spread.SINGLE else None
        return source if data is None else Number.of(data.item())

    for node in nodes:
        values[node.result] = node.write(program, operand)
    seen = {
        node.result: values[node.result]
        for node in nodes
        if not graph.is_passed_on(node.result) or any(reader not in inside for reader in graph.readers(node.result))
    }
    if len(nodes) > 1 and not (program.fits and len(seen) <= RESULTS):
        return None
    return Group(tuple(nodes), program, seen or {nodes[-1].result: values[nodes[-1].result]})


def fuse_elementwise(graph: Graph, g: Lowering, group: Group) -> None:
    """Compute a group in one dispatch."""
    if len(group.nodes) > 1 and group.program.fits:
        with suppress(AvoidedShader):
            fused = fused_elementwise(g, group.program, group.results, group.last.type, group.last.dispatch.operation)
            if fused is not None:
                graph.replace(group.last.position, fused, (node.position for node in group.nodes[:-1]))
