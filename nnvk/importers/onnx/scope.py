"""The tensors of one graph while its nodes are mapped, and who reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import GraphProto, NodeProto, TensorProto

from nnvk.importers.onnx.tensors import Tensor


class Scope:
    """The tensors that the nodes of a graph, or of a function, may read: its own, and those of the graph around it."""

    def __init__(self, nodes: Sequence[NodeProto], outputs: Sequence[str], outer: Scope | None = None) -> None:
        self.nodes = nodes
        self.outer = outer
        self.tensors: dict[str, Tensor] = {}
        self.initializers: dict[str, TensorProto] = {}
        """Constants of the file that nobody read so far."""
        self.absorbed: set[int] = set()
        """Positions of nodes that one before them did the work of."""
        self._outputs = frozenset(outputs)
        self._readers: dict[str, list[int]] = {}
        self._writers: dict[str, int] = {}
        for position, node in enumerate(nodes):
            for name in reads(node):
                self._readers.setdefault(name, []).append(position)
            for name in node.output:
                self._writers.setdefault(name, position)
        self.has_cycle = False
        self.order = self._sorted()
        """Positions of all nodes, each behind those that it reads of, else as in the file; cycles stay as they are."""
        self.forgotten: set[str] = set()
        """Constants that no node is left to read."""
        self._last_read: dict[int, list[str]] = {position: [] for position in self.order}
        places = {position: place for place, position in enumerate(self.order)}
        for name, readers in self._readers.items():
            self._last_read[max(readers, key=places.__getitem__)].append(name)

    def _sorted(self) -> list[int]:
        done: dict[int, None] = {}
        for first in range(len(self.nodes)):
            pending, begun = [first], set()
            while pending:
                position = pending.pop()
                if position in done:
                    continue
                before = (self._writers.get(name) for name in reads(self.nodes[position]))
                missing = dict.fromkeys(one for one in before if one is not None and one not in done)
                if not missing:
                    done[position] = None
                elif position in begun or position in missing:
                    self.has_cycle = True
                    return list(range(len(self.nodes)))
                else:
                    begun.add(position)
                    pending += [position, *reversed(missing)]
        return list(done)

    def find(self, name: str) -> tuple[Scope, Tensor | None] | None:
        """The scope that a tensor is in, and the tensor unless it is a constant that nobody read so far."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.tensors or name in scope.initializers:
                return scope, scope.tensors.get(name)
            scope = scope.outer
        return None

    def forget_constants(self, position: int) -> None:
        """Drop the constants that no node behind this one reads: together they are as large as the file."""
        for name in self._last_read[position]:
            if name not in self._outputs and name in self.tensors and self.tensors[name].is_constant:
                del self.tensors[name]
                self.forgotten.add(name)

    def has(self, name: str) -> bool:
        """Whether a tensor of the graph has a value, or had one."""
        return name in self.tensors or name in self.initializers or name in self.forgotten

    def only_reader(self, name: str) -> int | None:
        """The position of the only node that reads a tensor that is no output of the graph, and reads it once."""
        readers = self._readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self._outputs and name in self._writers else None

    def readers(self, name: str) -> list[int]:
        """The positions of the nodes that read a tensor."""
        return self._readers.get(name, [])

    def writer(self, name: str) -> int | None:
        """The position of the node that gives a tensor."""
        return self._writers.get(name)


def reads(node: NodeProto) -> Iterator[str]:
    """The tensors that a node reads, those of the graphs in it too."""
    yield from (name for name in node.input if name)
    for graph in graphs_of(node):
        yield from free_names(graph)


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node has as attributes."""
    for attribute in node.attribute:
        yield from (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)


def free_names(graph: GraphProto) -> Iterator[str]:
    """The tensors that a graph reads and that are not its own."""
    own = {one.name for one in (*graph.input, *graph.initializer)}
    own.update(name for node in graph.node for name in node.output)
    for node in graph.node:
        yield from (name for name in reads(node) if name not in own)
    yield from (one.name for one in graph.output if one.name not in own)
