"""Common subexpression elimination: importers write the difference from a mean for each of its uses, say.

Commands that kernels add to their operations, as those that pack filters, are compared later
(`command_passes.common_subexpressions`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from nnvk.base.extents import identity
from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.ops.call import Tensor, Unknown
from nnvk.ops.strided import Box


def eliminate_common_subexpressions(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let readers of a second result of an operation on the same inputs read the first result, and drop unread ones."""
    graph, before = graph.live, graph
    nodes: list[Node] = []
    first: dict[Hashable, int] = {}
    instead: dict[int, Tensor] = {}
    count = len(before.nodes) - len(graph.nodes)
    for each in graph.nodes:
        node = each.reading(instead) if instead else each
        if not node.has_effects:
            at = first.setdefault(_computed(node), len(nodes))
            if at != len(nodes) and not any(map(graph.is_output, node.outputs)):
                same = nodes[at]
                nodes[at] = same.with_call(same.call, [node])
                instead.update(
                    (tensor.index, kept.whole) for tensor, kept in zip(node.outputs, same.outputs, strict=True)
                )
                count += 1
                continue
        nodes.append(node)
    return (graph.with_nodes(nodes), count) if count else (graph, 0)


def _computed(node: Node) -> Hashable:
    """All that the results of a node depend on."""
    given = {tensor.index for tensor in node.outputs}
    inputs = tuple((name, _key(value, given)) for name, value in node.call.items())
    outputs = tuple(
        (each.type.code, each.scale, each.zero_point, *map(identity, (each.shape, _box(each)))) for each in node.outputs
    )
    return node.code, inputs, outputs


def _key(value: Any, given: set[int]) -> Hashable:
    """All that a result depends on in an operand; None for one of the tensors in ``given``, which are the results."""
    if isinstance(value, Tensor):
        return None if value.index in given else (Tensor, value.index, identity(_box(value)))
    if isinstance(value, list):
        return tuple(_key(item, given) for item in value)
    if isinstance(value, Unknown):
        return Unknown, value.index
    return identity(value)


def _box(tensor: Tensor) -> Box | None:
    return None if tensor.view is None else tensor.view.box
