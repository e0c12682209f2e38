"""Transpositions, and other arrangements of elements, move past operations, cancel each other, or become one.

Two arrangements that follow each other become one. Elementwise operations are computed in the order from before an
arrangement, which goes behind them. There it meets the next arrangement, and the GEMM that it went away from meets the
elementwise operations. In the same way images in NHWC order are concatenated before all of them are transposed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.graph.rewriter import Rewriter
from nnvk.driver.vulkan.lowering.copies.arrange import RANK
from nnvk.driver.vulkan.lowering.copies.relayout import has_padded_pixels
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.planning.passes.arrangements import box_of, read_where_they_lie
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.ops.call import Tensor
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.strided import Box, dense_strides, fold
from nnvk.ops.traits import View
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_ROUNDS = 3
"""How often all nodes are looked at, because what becomes of some makes others possible."""
_LARGEST_RANK = 4
"""The highest rank of tensors that broadcast."""
_JOINS = frozenset({OperationCode.CONCATENATION, OperationCode.PACK})


def move_transposes(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Arrange elements as seldom and as late as possible."""
    rewriter = Rewriter(graph)
    for _ in range(_ROUNDS):
        before = rewriter.rewrites
        for node in rewriter.nodes():
            _rewrite(rewriter, node, context)
        if rewriter.rewrites == before:
            break
    for node in rewriter.nodes():
        if node.code in _JOINS:
            read_where_they_lie(rewriter, node)
    return rewriter.graph, rewriter.rewrites


def _rewrite(rewriter: Rewriter, node: Node, context: Context) -> None:
    if not all(output.size for output in node.outputs):
        return
    if node.boxes is not None and len(node.outputs) > 1:
        rewriter.replace(node, *(_arranged(node, node.call.input, each, box_of(node, each)) for each in node.outputs))
    elif node.boxes is not None:
        _merge(rewriter, node)
    elif node.code is OperationCode.CONCATENATION:
        _join(rewriter, node, context)
    elif _elementwise_operands(node):
        _swap(rewriter, node, context)
    elif node.code is not OperationCode.BATCH_MATMUL:
        read_where_they_lie(rewriter, node)


def _arranged(node: Node, source: Tensor, output: Tensor, box: Box) -> Node:
    """An arrangement for a node."""
    if box.is_whole(source.size):
        return node.with_call(call_of(InternalCode.VIEW, output, input=source))
    return node.with_call(call_of(InternalCode.ARRANGE, output, input=source, box=box.folded))


# --- arrangements of arrangements --------------------------------------------------------------------------------


def _merge(rewriter: Rewriter, node: Node) -> None:
    """Make one arrangement of an arrangement and those that its input comes from, or a view if it arranges nothing."""
    box, output = box_of(node, node.call.output), node.call.output
    if box.is_whole(node.call.input.size) and node.traits.view is not View.RESHAPED:
        node = rewriter.replace(node, _arranged(node, node.call.input, output, box))
    while (before := rewriter.producer(node.call.input)) is not None and before.boxes is not None:
        source, is_reshape = node.call.input, before.traits.view is View.RESHAPED
        if is_reshape and node.traits.view is View.RESHAPED:
            return
        together = box_of(node, node.call.output).through(box_of(before, source))
        if together is None or len(fold(together.dimensions)) > RANK:
            return
        if not is_reshape and rewriter.only_user(source) is None and not together.is_run:
            return
        node = rewriter.replace(node, _arranged(node, before.call.input, node.call.output, together))


# --- elementwise operations --------------------------------------------------------------------------------------


def _elementwise_operands(node: Node) -> Sequence[str]:
    """The names of the tensors that a node computes each element of its output from."""
    if node.traits.elementwise is not None:
        return node.traits.elementwise.operands
    return ("input",) if node.traits.converts and node.call.input.type.channel_quant is None else ()


def _swap(rewriter: Rewriter, node: Node, context: Context) -> None:
    """Compute an elementwise operation before the arrangement of its operands, and arrange its output."""
    output, operands = node.call.output, [getattr(node.call, name) for name in _elementwise_operands(node)]
    whole = {tensor.index: tensor for tensor in operands if tensor.size == output.size}
    arrangements = [rewriter.producer(tensor) for tensor in whole.values() if rewriter.only_user(tensor) is node]
    if not whole or len(arrangements) < len(whole):
        return
    box, *boxes = (_reordering(each) for each in arrangements)
    if box is None or any(other != box for other in boxes):
        return
    sources = [each.call.input for each in arrangements if each is not None]
    if any(_is_free(rewriter, source, context) for source in sources):
        return
    others = [tensor for tensor in operands if tensor.index not in whole]
    shapes = _shapes_in_order(box, output.shape, others) if others else [_flat(sources[0].shape)]
    if shapes is None:
        return
    shape, *shapes_of_others = shapes
    before = context.tensor(output.name, output.type.with_dimensions(shape))
    reshaped = _Reshaped(node, context)
    instead = {tensor.index: reshaped.to(shape, source) for tensor, source in zip(whole.values(), sources, strict=True)}
    instead |= {tensor.index: reshaped.to(own, tensor) for tensor, own in zip(others, shapes_of_others, strict=True)}
    instead[output.index] = before
    call = node.call.with_tensors(lambda tensor: instead.get(tensor.index, tensor))
    if context.refuse(call) is None:
        rewriter.replace(node, *reshaped.nodes, node.with_call(call), _arranged(node, before, output, box))


def _is_free(rewriter: Rewriter, source: Tensor, context: Context) -> bool:
    """Whether the arrangement of a tensor is free, because the tensor has to be copied out of padded pixels anyway."""
    producer = rewriter.producer(source)
    return producer is not None and producer.traits.gemm is not None and has_padded_pixels(context.profile, source)


def _reordering(node: Node | None) -> Box | None:
    """The box of an arrangement that has all elements of its input in another order; None for another node."""
    if node is None or node.boxes is None or len(node.boxes) > 1:
        return None
    (box,), elements = node.boxes, node.call.input.size
    return box.folded if box.reorders(elements) and not box.is_whole(elements) else None


def _flat(shape: Shape) -> Shape:
    """A shape that operations take, of as many elements."""
    return shape if len(shape) <= _LARGEST_RANK else (math.prod(shape),)


def _shapes_in_order(box: Box, shape: Shape, others: Sequence[Tensor]) -> list[Shape] | None:
    """Shapes for an operation in the order from before an arrangement: of its output, and of operands that broadcast.

    ``shape``: that of the output behind the arrangement. None unless the elements of such an operand still come one
    after the other, but for repetitions.
    """
    (other,) = others
    full = (*[1] * (len(shape) - other.rank), *other.shape)
    strides = [0 if size == 1 else stride for size, stride in zip(full, dense_strides(full), strict=True)]
    repeated = box.inverse.through(Box(tuple(zip(shape, strides, strict=True))))
    if repeated is None:
        return None
    dimensions, expected = fold(repeated.dimensions), 1
    for size, stride in reversed(dimensions):
        if stride not in (0, expected):
            return None
        expected *= size if stride else 1
    if len(dimensions) > _LARGEST_RANK:
        return None
    return [tuple(size for size, _ in dimensions), tuple(size if stride else 1 for size, stride in dimensions)]


@dataclass(slots=True)
class _Reshaped:
    """Tensors in other shapes, for a node."""

    node: Node
    context: Context
    nodes: list[Node] = field(default_factory=list)
    """The operations that reshape them."""

    def to(self, shape: Shape, tensor: Tensor) -> Tensor:
        """A tensor in a shape."""
        if tensor.shape == shape:
            return tensor
        view = self.context.tensor(tensor.name, tensor.type.with_dimensions(shape))
        self.nodes.append(self.node.with_call(call_of(InternalCode.VIEW, view, input=tensor)))
        return view


# --- concatenations ----------------------------------------------------------------------------------------------


def _join(rewriter: Rewriter, node: Node, context: Context) -> None:
    """Concatenate images in NHWC order that all were transposed for it, and transpose what that gives."""
    call, output = node.call, node.call.output
    images = math.prod(call.output.shape[: call.axis])
    sources = [found for tensor in call.inputs if (found := _images(rewriter, tensor, images)) is not None]
    alone = any(rewriter.only_user(tensor) is node for tensor in call.inputs)
    if len(sources) < len(call.inputs) or not alone or rewriter.is_output(output):
        return
    count = sources[0][1]
    if any(pixels != count for _, pixels in sources):
        return
    if not all(_may_arrange(reader) for reader in rewriter.users(output)):
        return
    channels = output.size // (images * count)
    before = context.tensor(output.name, output.type.with_dimensions((images, count, channels)))
    reshaped, instead = _Reshaped(node, context), {output.index: before}
    for tensor, (source, _) in zip(call.inputs, sources, strict=True):
        instead[tensor.index] = reshaped.to((images, count, tensor.size // (images * count)), source)
    joined = call.with_tensors(lambda tensor: instead.get(tensor.index, tensor)).replaced(axis=2)
    box = Box(((images, count * channels), (channels, 1), (count, channels)))
    rewriter.replace(node, *reshaped.nodes, node.with_call(joined), _arranged(node, before, output, box))


def _images(rewriter: Rewriter, tensor: Tensor, count: int) -> tuple[Tensor, int] | None:
    """The tensor [images, pixels, channels] that was transposed to [images, channels, pixels], and how many pixels."""
    box, elements = _reordering(rewriter.producer(tensor)), tensor.size // max(count, 1)
    if box is None or len(box.dimensions) < 2:
        return None
    (channels, _), (pixels, _) = box.dimensions[-2:]
    around = ((count, elements),) if count > 1 else ()
    producer = rewriter.producer(tensor)
    assert producer is not None
    if channels * pixels != elements or box.dimensions != (*around, (channels, 1), (pixels, channels)):
        return None
    return producer.call.input, pixels


def _may_arrange(node: Node) -> bool:
    """Whether an arrangement in front of a node may go away again."""
    return node.boxes is not None or bool(_elementwise_operands(node)) or kernels()[node.code].takes_view is not None
