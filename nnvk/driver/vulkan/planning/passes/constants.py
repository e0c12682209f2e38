"""Constant deduplication: equal constants become one.

Frontends write the weights of an unrolled layer again for each of its time steps. Once they are one constant, they are
packed and uploaded once, and what is computed twice, or for several time steps at once, is known as such.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable

import numpy as np

from nnvk.driver.vulkan.graph.ir import Graph
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.ops.call import Tensor
from nnvk.types.constant import beginning, bytes_of


def deduplicate_constants(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let operations read the first of all constant tensors that have the same type and bytes."""
    known: dict[Hashable, list[Tensor]] = {}
    firsts: dict[int, Tensor] = {}
    for node in graph.nodes:
        for tensor in node.inputs:
            if tensor.is_constant and tensor.index not in firsts and not tensor.constant.dtype.hasobject:
                others = known.setdefault((tensor.type, tensor.shape, beginning(tensor.constant)), [])
                first = next((other for other in others if _are_equal(tensor, other)), tensor)
                firsts[tensor.index] = first
                if first is tensor:
                    others.append(tensor)
    instead = {index: first for index, first in firsts.items() if first.index != index}
    if not instead:
        return graph, 0
    nodes = [node.reading(instead) for node in graph.nodes]
    return graph.with_nodes(nodes), sum(map(operator.is_not, nodes, graph.nodes))


def _are_equal(one: Tensor, other: Tensor) -> bool:
    return np.array_equal(bytes_of(one.constant), bytes_of(other.constant))
