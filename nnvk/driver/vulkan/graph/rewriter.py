"""A graph while a pass rewrites it node by node: who gives each tensor and who reads it is known at any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.ops.call import Tensor


class Rewriter:
    """The nodes of a graph at their places. A node is replaced by others at its place."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._places = [[node] for node in graph.nodes]
        self._place_of: dict[Node, int] = {}
        self._producers: dict[int, Node] = {}
        self._users: dict[int, dict[Node, None]] = {}
        self.rewrites = 0
        """How many nodes were replaced."""
        for place, node in enumerate(graph.nodes):
            self._enter(place, node)

    @property
    def graph(self) -> Graph:
        """The graph as it is now; the one from before if nothing was replaced."""
        if not self.rewrites:
            return self._graph
        return self._graph.with_nodes(node for nodes in self._places for node in nodes)

    def nodes(self) -> Iterator[Node]:
        """The nodes in order, each as it is when it is its turn."""
        for place in range(len(self._places)):
            for node in tuple(self._places[place]):
                if node in self._place_of:
                    yield node

    def producer(self, tensor: Tensor) -> Node | None:
        """The node that gives a tensor; None for an input or a constant."""
        return self._producers.get(tensor.index)

    def users(self, tensor: Tensor) -> Sequence[Node]:
        """The nodes that read a tensor, each once."""
        return tuple(self._users.get(tensor.index, ()))

    def is_output(self, tensor: Tensor) -> bool:
        """Whether a tensor is an output of the model."""
        return self._graph.is_output(tensor)

    def only_user(self, tensor: Tensor) -> Node | None:
        """The one node that reads a tensor; None if several nodes do, or the model's user does."""
        users = self._users.get(tensor.index, {})
        return next(iter(users)) if len(users) == 1 and not self.is_output(tensor) else None

    def replace(self, node: Node, *new: Node) -> Node:
        """Put other nodes, which give its outputs, in the place of a node, and remove nodes that nobody reads then.

        The last of the new nodes, which is returned, computes the operations of the removed ones, too.
        """
        self.rewrites += 1
        place = self._place_of[node]
        at = self._places[place].index(node)
        self._leave(node)
        for each in new:
            self._enter(place, each)
        self._places[place][at : at + 1] = new
        unused = self._remove_unused(node.inputs)
        if not unused:
            return new[-1]
        last, here = new[-1].with_call(new[-1].call, unused), self._places[place]
        self._leave(new[-1])
        self._enter(place, last)
        here[here.index(new[-1])] = last
        return last

    def _remove_unused(self, tensors: Sequence[Tensor]) -> list[Node]:
        """Remove the nodes that give these tensors and that nobody reads any more, and then those that they read."""
        removed, left = [], list(tensors)
        while left:
            node = self.producer(left.pop())
            if node is None or node.has_effects or any(map(self._is_read, node.outputs)):
                continue
            removed.append(node)
            self._places[self._place_of[node]].remove(node)
            self._leave(node)
            left += node.inputs
        return removed

    def _is_read(self, tensor: Tensor) -> bool:
        return self.is_output(tensor) or bool(self._users.get(tensor.index))

    def _enter(self, place: int, node: Node) -> None:
        self._place_of[node] = place
        for tensor in node.outputs:
            self._producers[tensor.index] = node
        for tensor in node.inputs:
            self._users.setdefault(tensor.index, {})[node] = None

    def _leave(self, node: Node) -> None:
        del self._place_of[node]
        for tensor in node.outputs:
            if self._producers.get(tensor.index) is node:
                del self._producers[tensor.index]
        for tensor in node.inputs:
            self._users[tensor.index].pop(node, None)
