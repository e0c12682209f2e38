"""Operands are transposed for kernels that take one layout alone: NHWC images, and left matrices in order.

The passes `transposes` and `heads` move these transpositions, merge them, and let kernels read and write through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.planning.passes.context import Context, MakeTensor
from nnvk.ops.call import Tensor
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.strided import Box
from nnvk.types.codes import OperationCode

_TO_NHWC, _TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def legalise_layouts(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let operations read and give tensors in the layouts that their kernels take."""
    made = _Transposed(context.tensor)
    count = 0
    for node in graph.nodes:
        if kernels()[node.code].channels_last and node.call.nchw:
            made.add_channels_last(node)
            count += 1
        elif node.code is OperationCode.BATCH_MATMUL and node.call.adj_x:
            made.add_with_left_in_order(node)
            count += 1
        else:
            made.nodes.append(node)
    return (graph.with_nodes(made.nodes), count) if count else (graph, 0)


class _Transposed:
    """The nodes of a graph, with transpositions before and behind some of them."""

    def __init__(self, make: MakeTensor) -> None:
        self.nodes: list[Node] = []
        """The nodes so far."""
        self._make = make
        self._known: dict[tuple[int, tuple[int, ...]], Tensor] = {}

    def add_channels_last(self, node: Node) -> None:
        """Add an operation on images in NCHW order as one on images in NHWC order."""
        call, output = node.call, node.call.output
        image = self._like(output, _TO_NHWC)
        call = call.replaced(input=self._read(node, call.input, _TO_NHWC), nchw=False)
        if call.has("output_shape"):
            sizes = call.output_shape
            shape = self._make(sizes.name, sizes.type, sizes.data[list(_TO_NHWC)])
            call = call.replaced(output_shape=shape)
        call = call.with_tensors(lambda tensor: image if tensor is output else tensor)
        self.nodes.append(node.with_call(call))
        self._known[output.index, _TO_NHWC] = image
        self._permute(node, image, _TO_NCHW, output)

    def add_with_left_in_order(self, node: Node) -> None:
        """Add a BATCH_MATMUL of transposed left matrices as one of matrices in order."""
        *outer, rows, columns = range(node.call.input0.rank)
        left = self._read(node, node.call.input0, (*outer, columns, rows))
        self.nodes.append(node.with_call(node.call.replaced(input0=left, adj_x=False)))

    def _read(self, node: Node, source: Tensor, permutation: tuple[int, ...]) -> Tensor:
        """A tensor with its axes permuted, by an operation for ``node`` if there is none yet."""
        known = self._known.get((source.index, permutation))
        if known is None:
            known = self._known[source.index, permutation] = self._like(source, permutation)
            self._permute(node, source, permutation, known)
        return known

    def _like(self, tensor: Tensor, permutation: Sequence[int]) -> Tensor:
        dimensions = tuple(tensor.shape[axis] for axis in permutation)
        return self._make(tensor.name, replace(tensor.type, dimensions=dimensions))

    def _permute(self, node: Node, source: Tensor, permutation: tuple[int, ...], output: Tensor) -> None:
        box = Box.transposed(source.shape, permutation)
        if box.is_whole(source.size):
            call = call_of(InternalCode.VIEW, output, input=source)
        else:
            call = call_of(InternalCode.ARRANGE, output, input=source, box=box)
        self.nodes.append(node.with_call(call))
