"""The elements of tensors, whatever shapes operations see them in: reshaped tensors have the same elements.

Passes on elementwise operations look through reshapes, which cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.ops.call import Call, Tensor
from nnvk.ops.strided import Box
from nnvk.ops.traits import View


class Elements:
    """Who gives the elements of tensors of a graph, and who reads them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._sources: dict[int, Tensor] = {}
        self._readers: dict[int, list[Node]] = {}
        self._calls: dict[Node, Call] = {}
        self._given: set[int] = set(graph.outputs)
        self.places = {node: place for place, node in enumerate(graph.nodes)}
        """The place of each node in the graph."""
        for node in graph.nodes:
            if is_reshape(node):
                self._sources[node.call.output.index] = self.source(node.inputs[0])
                if graph.is_output(node.call.output):
                    self._given.add(self.source(node.inputs[0]).index)
            else:
                for index in dict.fromkeys(self.source(tensor).index for tensor in node.inputs):
                    self._readers.setdefault(index, []).append(node)

    def source(self, tensor: Tensor) -> Tensor:
        """The tensor that a tensor is reshaped from, or the tensor itself; of a view, the tensor that has all of it."""
        return self._sources.get(tensor.index, tensor.whole)

    def producer(self, tensor: Tensor) -> Node | None:
        """The node that computes the elements of a tensor; None for an input or a constant."""
        return self._graph.producer(self.source(tensor))

    def readers(self, tensor: Tensor) -> Sequence[Node]:
        """The nodes that read the elements of a tensor, in order."""
        return self._readers.get(self.source(tensor).index, ())

    def is_given(self, tensor: Tensor) -> bool:
        """Whether the elements of a tensor are an output of the model."""
        return self.source(tensor).index in self._given

    def reshapes(self, node: Node) -> list[Node]:
        """The reshapes between a node and the nodes that compute the elements that it reads."""
        found: list[Node] = []
        for tensor in node.inputs:
            before = self._graph.producer(tensor)
            while before is not None and is_reshape(before):
                found.append(before)
                before = self._graph.producer(before.inputs[0])
        return found

    def call(self, node: Node) -> Call:
        """The call of a node, which reads its inputs through views of the tensors that they are reshaped from."""
        if node not in self._calls:
            is_reshaped = any(tensor.index in self._sources for tensor in node.inputs)
            self._calls[node] = self._resolved(node.call) if is_reshaped else node.call
        return self._calls[node]

    def calls(self, node: Node) -> tuple[Call, ...]:
        """The calls of a node, as `call` gives one; those of a node with several read no reshapes."""
        return node.calls if node.epilogue else (self.call(node),)

    def _resolved(self, call: Call) -> Call:
        def resolve(tensor: Tensor) -> Tensor:
            source = self.source(tensor)
            if tensor in call.outputs or source.index == tensor.index or source.is_constant:
                return tensor
            return source.viewed(tensor.shape, Box(((tensor.size, 1),)))

        return call.with_tensors(resolve)


def is_reshape(node: Node) -> bool:
    """Whether a node gives the elements of its input in another shape."""
    return node.traits.view is View.RESHAPED


def in_order(graph: Graph, nodes: Iterable[Node]) -> Graph:
    """A graph of other nodes, in order but for reshapes, which may be too early: each moves behind the node it reads.

    A reshape goes if no node gives any more what it reads.
    """
    given: set[int] = set()
    ordered: list[Node] = []
    waiting: dict[int, list[Node]] = {}

    for node in nodes:
        source = node.inputs[0].index if is_reshape(node) else None
        if source is not None and source in graph.producers and source not in given:
            waiting.setdefault(source, []).append(node)
            continue
        ready = [node]
        while ready:
            added = ready.pop()
            ordered.append(added)
            given.update(tensor.index for tensor in added.outputs)
            ready += reversed([one for tensor in added.outputs for one in waiting.pop(tensor.index, ())])
    return graph.with_nodes(ordered)
