"""Patterns of operations: expressions that a tensor is matched against, and predicates that several passes share.

A pattern is a name, which stands for the same tensor everywhere; a number, which stands for a constant of that value,
a float or an integer; or a tuple of an operation's code and the patterns of its operands, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.ops.call import Call, Tensor
from nnvk.ops.traits import View
from nnvk.types.codes import FuseCode
from nnvk.types.extension import KnownCode
from nnvk.types.operand import Shape

Accept: TypeAlias = Callable[[Node], bool]
"""Says whether a node of a pattern's code is as the pattern wants it."""
Pattern: TypeAlias = "str | float | int | tuple[KnownCode | Pattern, ...]"


class Match:
    """An attempt to match a tensor against a pattern, with the tensors and nodes that it has met."""

    def __init__(self, graph: Graph, accept: Accept = lambda _: True) -> None:
        """``accept`` is asked of each node that the pattern meets."""
        self.named: dict[str, Tensor] = {}
        """The tensors that names of the pattern stand for."""
        self.nodes: list[Node] = []
        """The nodes that the pattern's operations stand for, each once, users before producers."""
        self._graph = graph
        self._accept = accept

    def matches(self, tensor: Tensor, pattern: Pattern) -> bool:
        """Whether a tensor is what the pattern says. After a failure the match is of no use."""
        if isinstance(pattern, str):
            return self.named.setdefault(pattern, tensor).index == tensor.index
        if not isinstance(pattern, tuple):
            return _is_number(tensor, pattern)
        code, *operands = pattern
        node = self._graph.producer(tensor)
        if node is None or node.code is not code or not has_no_activation(node.call) or not self._accept(node):
            return False
        if node not in self.nodes:
            self.nodes.append(node)
        pairs = zip(node.inputs, cast("Sequence[Pattern]", operands), strict=False)
        return all(self.matches(read, operand) for read, operand in pairs)


def _is_number(tensor: Tensor, number: Any) -> bool:
    """Whether a tensor is a constant of one float, or of integers that are all the same."""
    if not tensor.is_constant or not tensor.size:
        return False
    if not isinstance(number, float):
        return tensor.dtype.kind == "i" and all(each == number for each in tensor.data.reshape(-1).tolist())
    return tensor.size == 1 and tensor.dtype.kind == "f" and tensor.data.item() == tensor.dtype.type(number)


def has_no_activation(call: Call) -> bool:
    """Whether no activation follows an operation."""
    return not call.has("activation") or call.known("activation") == FuseCode.NONE


def behind_views(graph: Graph, tensor: Tensor) -> tuple[list[Node], Node | None]:
    """The views that give a tensor, the last one first, and the operation that computes its elements, if one does."""
    views, node = [], graph.producer(tensor)
    while node is not None and node.traits.view is View.RESHAPED:
        views.append(node)
        node = graph.producer(node.inputs[0])
    return views, node


def are_last(axes: Sequence[int], shape: Shape) -> bool:
    """Whether the elements along these axes lie together, so that they are rows."""
    long = [axis for axis, size in enumerate(shape) if size > 1]
    of_rows = [axis for axis in long if axis in axes]
    return long[len(long) - len(of_rows) :] == of_rows
