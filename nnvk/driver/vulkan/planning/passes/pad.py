"""PAD goes into the convolution or pool that reads its output: windows reach over the edge of an image just as well.

If zeros inside an image and around it have different signs, MAX_POOL_2D may give either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.kernels.pool import accepts_padding
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.driver.vulkan.planning.passes.patterns import behind_views
from nnvk.ops.call import Call, Tensor, UnknownValue
from nnvk.ops.internal import InternalCode, PoolPadding, call_of
from nnvk.ops.pad import pad_value, paddings
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_PADS = frozenset({OperationCode.PAD, OperationCode.PAD_V2})

Pair = tuple[int, int]
"""Elements before and after the image along an axis."""


def fold_pads(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let convolutions and pools read images without the padding around them."""
    nodes: list[Node] = []
    folded: set[Node] = set()
    count = 0
    for node in graph.nodes:
        found = None if node.traits.window is None else _padded_image(graph, node)
        new = None if found is None else _fold(node, found, context)
        if found is None or new is None:
            nodes.append(node)
            continue
        count += 1
        folded.update(found.nodes)
        nodes += new
    return (graph.with_nodes(nodes).without_unused(folded), count) if count else (graph, 0)


@dataclass(frozen=True, slots=True)
class _PaddedImage:
    """An image that a PAD gives, perhaps in another shape."""

    source: Tensor
    """The input of the PAD."""
    value: float | int
    vertical: Pair
    horizontal: Pair
    nodes: Sequence[Node]
    """The operations between the window and the source, the PAD last."""


def _padded_image(graph: Graph, node: Node) -> _PaddedImage | None:
    """The image that a node reads, if a PAD gives it, and pads nothing but height and width by known numbers."""
    image: Tensor = node.call.input
    views, producer = behind_views(graph, image)
    if producer is None or producer.code not in _PADS or not producer.call.input.size:
        return None
    pad = producer.call
    try:
        pairs, value = paddings(pad), pad_value(pad)
    except UnknownValue:
        return None
    height, width = _spatial_axes(node.call)
    left = [height, width]
    around = {height: (0, 0), width: (0, 0)}
    for axis, pair in enumerate(pairs):
        if any(pair):
            size = _size_and_inner(pad.output.shape, axis)
            place = next((each for each in left if _size_and_inner(image.shape, each) == size), None)
            if place is None:
                return None
            left.remove(place)
            around[place] = pair
    return _PaddedImage(pad.input, value, around[height], around[width], (*views, producer))


def _size_and_inner(shape: Shape, axis: int) -> tuple[int, int]:
    """The size along an axis, and the number of elements behind it."""
    return shape[axis], math.prod(shape[axis + 1 :])


def _spatial_axes(call: Call) -> tuple[int, int]:
    """The axes of height and width of an operation's images."""
    return (2, 3) if call.nchw else (1, 2)


def _fold(node: Node, image: _PaddedImage, context: Context) -> list[Node] | None:
    """The nodes that compute an operation on the image without its padding; None if no kernel can."""
    shape = list(node.call.input.shape)
    for axis, pair in zip(_spatial_axes(node.call), (image.vertical, image.horizontal), strict=True):
        shape[axis] -= sum(pair)
    source, views = image.source, []
    if source.shape != tuple(shape):
        view = context.tensor(source.name, replace(source.type, dimensions=tuple(shape)))
        views.append(node.with_call(call_of(InternalCode.VIEW, view, input=source)))
        source = view
    call = (
        _with_explicit_padding(node, source, image) if node.traits.gemm else _with_padding(node, source, image, context)
    )
    if call is None or context.refuse(call):
        return None
    return [*views, node.with_call(call, image.nodes)]


def _with_explicit_padding(node: Node, source: Tensor, image: _PaddedImage) -> Call | None:
    """A convolution that pads by itself; None if the padding does not stand for zeros."""
    element = np.array(image.value).astype(source.dtype)
    zero = np.array(source.zero_point).astype(source.dtype)  # 0 for real numbers
    if element.tobytes() != zero.tobytes():
        return None
    assert node.traits.window is not None
    vertical, horizontal = node.traits.window(node.call)
    return node.call.replaced(
        ["padding"],
        input=source,
        padding_left=horizontal.before + image.horizontal[0],
        padding_right=horizontal.after + image.horizontal[1],
        padding_top=vertical.before + image.vertical[0],
        padding_bottom=vertical.after + image.vertical[1],
    )


def _with_padding(node: Node, source: Tensor, image: _PaddedImage, context: Context) -> Call | None:
    """A pool that counts elements around its images; None if its kernel can't."""
    padding = PoolPadding(*image.vertical, *image.horizontal, image.value)
    call = node.call.replaced(input=source, pool_padding=padding)
    return call if accepts_padding(call, context.profile) else None
