"""Arrangements, which are operations that only move elements (the trait `boxes`), as passes look back through them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nnvk.driver.vulkan.graph.ir import Node
from nnvk.driver.vulkan.graph.rewriter import Rewriter
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.ops.call import Tensor
from nnvk.ops.strided import Box


def box_of(node: Node, output: Tensor) -> Box:
    """The box of its input that an output of an arrangement is."""
    assert node.boxes is not None
    return node.boxes[[each.index for each in node.outputs].index(output.index)]


def read_where_they_lie(rewriter: Rewriter, node: Node) -> Node:
    """Let a node read inputs where they were before they were arranged, if its kernel takes the views; the new node."""
    takes_view = kernels()[node.code].takes_view
    if takes_view is None:
        return node
    counts = Counter(tensor.index for tensor in node.call.every_tensor())
    instead: dict[int, Tensor] = {}
    for tensor in node.inputs:
        if tensor.size and tensor.view is None and counts[tensor.index] == 1:
            for view, is_alone in _views(rewriter, tensor):
                if takes_view(node.call, tensor, view, is_alone):
                    instead[tensor.index] = view
                    break
    if not instead:
        return node
    call = node.call.with_tensors(lambda tensor: instead.get(tensor.index, tensor))
    return rewriter.replace(node, node.with_call(call))


def _views(rewriter: Rewriter, tensor: Tensor) -> Iterator[tuple[Tensor, bool]]:
    """The views that a tensor is of the tensors that it was arranged from, the last arrangement first.

    With each, whether nobody else reads what was arranged.
    """
    source, box, is_alone = tensor, None, True
    while (node := rewriter.producer(source)) is not None and node.boxes is not None:
        own = box_of(node, source)
        box = own if box is None else box.through(own)
        if box is None:
            return
        is_alone &= rewriter.only_user(source) is not None
        source = node.call.input
        if not box.is_whole(source.size) and not source.is_constant:
            yield source.viewed(tensor.shape, box), is_alone
