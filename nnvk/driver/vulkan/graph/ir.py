"""Graphs of operations: a node has a call, and nodes are connected by the tensors of their calls.

Each tensor is an input of the graph, a constant, or given by exactly one node, and has the same index in all calls. A
node may compute other calls with its own: a prologue before it, and an epilogue of elementwise calls (`Node.calls`).
Graphs do not change: a pass makes a new graph from an old one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nnvk.base.forks import cached_property
from nnvk.driver.vulkan.graph.program import ElementwiseProgram
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode, code_of, traits_of
from nnvk.ops.strided import Box
from nnvk.ops.traits import Effect, Traits
from nnvk.types.extension import KnownCode


@dataclass(frozen=True, eq=False)
class Node:
    """An operation of a graph. Two nodes are equal only if they are the same object."""

    call: Call
    operation: int
    """The position in the model of the operation that the node computes, or of the first of several."""
    fused: frozenset[int] = frozenset()
    """The positions of other operations that the node computes, too."""
    prologue: tuple[Call, ...] = ()
    """Calls that give inputs of the call, and that the node computes, too."""
    epilogue: tuple[Call, ...] = ()
    """Elementwise calls on the results of the call and of each other that the node computes, too, in order."""
    results: frozenset[int] | None = None
    """The indices of the tensors that others read; None if these are the outputs of the call."""
    program: ElementwiseProgram | None = None
    """The program of the epilogue of a GEMM on floats, or of all calls if these are elementwise; else None."""

    @cached_property
    def code(self) -> KnownCode | InternalCode:
        """The code of the call."""
        return code_of(self.call)

    @cached_property
    def traits(self) -> Traits:
        """The traits of the operation."""
        return traits_of(self.code)

    @cached_property
    def boxes(self) -> Sequence[Box] | None:
        """The boxes of the tensor ``input`` that the outputs are; None if the node computes more."""
        boxes = self.traits.boxes
        return None if boxes is None else boxes(self.call)

    @property
    def has_effects(self) -> bool:
        """Whether the node has effects besides its outputs. One that only moves elements has none."""
        return self.traits.effects is not Effect.NONE and self.boxes is None

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that the node reads, constants among them, in the order of the operation's inputs."""
        if not self.prologue and not self.epilogue:
            given = {tensor.index for tensor in self.call.outputs}
            return tuple(tensor for tensor in self.call.every_tensor() if tensor.index not in given)
        given = {tensor.index for call in self.calls for tensor in call.outputs}
        every = (tensor for call in self.calls for tensor in call.every_tensor())
        return tuple(tensor for tensor in every if tensor.index not in given)

    @cached_property
    def outputs(self) -> Sequence[Tensor]:
        """The tensors that the node gives."""
        if self.results is None:
            return self.call.outputs
        every = (tensor for call in self.calls for tensor in call.outputs)
        return [tensor for tensor in every if tensor.index in self.results]

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls that the node computes, in order."""
        return (*self.prologue, self.call, *self.epilogue)

    @property
    def operations(self) -> frozenset[int]:
        """The positions of all operations that the node computes."""
        return self.fused | {self.operation}

    def with_call(self, call: Call, fused: Iterable[Node] = ()) -> Node:
        """A node with another call that computes the same operations, and those of the nodes in ``fused``."""
        fused_with = self.fused.union(*(node.operations for node in fused)) - {self.operation}
        return replace(self, call=call, fused=fused_with)

    def reading(self, instead: Mapping[int, Tensor]) -> Node:
        """The node with other inputs in the places of those of these indices; the same node if it has none of them.

        A view becomes the same view of the other tensor.
        """
        if not any(tensor.index in instead for tensor in self.inputs):
            return self
        assert self.program is None, "the program of a node reads its inputs"

        def other(tensor: Tensor) -> Tensor:
            found = instead.get(tensor.index, tensor.whole)
            return tensor if found is tensor.whole else found.as_viewed(tensor)

        def changed(call: Call) -> Call:
            return call.with_tensors(other)

        prologue, epilogue = (tuple(map(changed, calls)) for calls in (self.prologue, self.epilogue))
        return replace(self, call=changed(self.call), prologue=prologue, epilogue=epilogue)


@dataclass(frozen=True, eq=False)
class Graph:
    """The operations of a model, in an order in which each comes after those whose outputs it reads."""

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    """The indices of the model's inputs."""
    outputs: tuple[int, ...]
    """The indices of the model's outputs."""

    @cached_property
    def producers(self) -> Mapping[int, Node]:
        """The node that gives each tensor, by the tensor's index: none for inputs and constants."""
        return {tensor.index: node for node in self.nodes for tensor in node.outputs}

    @cached_property
    def users(self) -> Mapping[int, Sequence[Node]]:
        """The nodes that read each tensor, by the tensor's index: each node once, in order."""
        users: dict[int, list[Node]] = {}
        for node in self.nodes:
            for index in {tensor.index: None for tensor in node.inputs}:
                users.setdefault(index, []).append(node)
        return users

    @cached_property
    def _given(self) -> frozenset[int]:
        return frozenset(self.outputs)

    def is_output(self, tensor: Tensor) -> bool:
        """Whether a tensor is an output of the model."""
        return tensor.index in self._given

    def producer(self, tensor: Tensor) -> Node | None:
        """The node that gives a tensor; None for an input or a constant."""
        return self.producers.get(tensor.index)

    def only_user(self, tensor: Tensor) -> Node | None:
        """The one node that reads a tensor; None if several nodes do, or the model's user does."""
        users = self.users.get(tensor.index, ())
        return users[0] if len(users) == 1 and not self.is_output(tensor) else None

    @property
    def live(self) -> Graph:
        """The graph without the nodes that have no effects and whose outputs nobody reads."""
        return self if self._without_dead is None else self._without_dead

    @cached_property
    def _without_dead(self) -> Graph | None:
        """The graph of the live nodes; None if all are, since a graph that kept itself would be a cycle."""
        live = self.without_unused({node for node in self.nodes if not node.has_effects})
        return None if live is self else live

    def with_nodes(self, nodes: Iterable[Node]) -> Graph:
        """A graph of other nodes with the same inputs and outputs."""
        return replace(self, nodes=tuple(nodes))

    def without_unused(self, nodes: Collection[Node]) -> Graph:
        """The graph without those of these nodes whose outputs nobody reads, or only nodes that go, too."""
        read, kept = set(self.outputs), []
        for node in reversed(self.nodes):
            if node in nodes and not any(tensor.index in read for tensor in node.outputs):
                continue
            read.update(tensor.index for tensor in node.inputs)
            kept.append(node)
        return self if len(kept) == len(self.nodes) else self.with_nodes(reversed(kept))
