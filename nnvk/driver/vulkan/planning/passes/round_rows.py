"""The operations by which the TensorFlow Lite importer rounds activations to 8 bits become one (ROUND_ROWS).

`nnvk.importers.tflite.hybrid` composes them. Each row has a scale that depends on its elements, so that the operations
form no chain: one reading of the row finds its extremes, and another one rounds.
"""

from __future__ import annotations

import math

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.driver.vulkan.planning.passes.patterns import Match, Pattern, are_last
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.reduce import reduced_axes
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op


def _whole(pattern: Pattern) -> Pattern:
    """A pattern rounded to whole numbers from -128 to 127."""
    return Op.DEQUANTIZE, (Op.QUANTIZE, pattern)


_SMALLEST = 1e-30
_EXTENT: Pattern = (Op.MAXIMUM, (Op.REDUCE_MAX, (Op.ABS, "source")), _SMALLEST)
_SYMMETRIC: Pattern = (
    Op.MUL,
    _whole((Op.MUL, "source", (Op.DIV, 127.0, _EXTENT))),
    (Op.DIV, _EXTENT, 127.0),
)
_LOW: Pattern = (Op.MINIMUM, (Op.REDUCE_MIN, "source"), 0.0)
_WIDTH: Pattern = (Op.MAXIMUM, (Op.SUB, (Op.MAXIMUM, (Op.REDUCE_MAX, "source"), 0.0), _LOW), _SMALLEST)
_INVERSE: Pattern = (Op.DIV, 255.0, _WIDTH)
_ZERO_POINT: Pattern = _whole((Op.SUB, -128.0, (Op.MUL, _LOW, _INVERSE)))
_ASYMMETRIC: Pattern = (
    Op.MUL,
    (Op.SUB, _whole((Op.ADD, (Op.MUL, "source", _INVERSE), _ZERO_POINT)), _ZERO_POINT),
    (Op.DIV, _WIDTH, 255.0),
)


def round_rows(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Round all rows of a tensor by one operation."""
    nodes: list[Node] = []
    replaced: set[Node] = set()
    count = 0
    for node in graph.nodes:
        found = _rounding(graph, node) if node.code is Op.MUL else None
        if found is None or context.refuse(found[0].call):
            nodes.append(node)
        else:
            count += 1
            nodes.append(found[0])
            replaced.update(found[1])
    return (graph.with_nodes(nodes).without_unused(replaced), count) if count else (graph, 0)


def _rounding(graph: Graph, node: Node) -> tuple[Node, list[Node]] | None:
    """The operation that computes what a MUL gives by such a pattern, and the operations of the pattern but the MUL."""
    for pattern in (_SYMMETRIC, _ASYMMETRIC):
        match = Match(graph, _is_part)
        output = node.call.output
        if not match.matches(output, pattern):
            continue
        source = match.named["source"]
        rows = _rows(match.nodes)
        if source.code is OperandCode.TENSOR_FLOAT32 and source.shape == output.shape and rows is not None:
            asymmetric = pattern is _ASYMMETRIC
            call = call_of(InternalCode.ROUND_ROWS, output, input=source, rows=rows, asymmetric=asymmetric)
            others = [each for each in match.nodes if each is not node]
            return node.with_call(call, others), others
    return None


def _is_part(node: Node) -> bool:
    """Whether QUANTIZE and DEQUANTIZE round to whole numbers, and reductions keep the dimensions that they fold."""
    call = node.call
    if node.code is Op.QUANTIZE:
        return _is_whole(call.output.scale, call.output.zero_point, call.output.code)
    if node.code is Op.DEQUANTIZE:
        return _is_whole(call.input.scale, call.input.zero_point, call.input.code)
    return not call.has("keep_dims") or bool(call.known("keep_dims"))


def _is_whole(scale: float, zero_point: int, code: OperandCode) -> bool:
    """Whether quantised values stand for whole numbers from -128 to 127."""
    zero = {OperandCode.TENSOR_QUANT8_ASYMM: 128, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: 0}
    return scale == 1.0 and zero.get(code) == zero_point


def _rows(nodes: list[Node]) -> int | None:
    """The number of rows that reductions fold; None unless all fold the same trailing axes, whose values are known."""
    found = set()
    for node in nodes:
        if node.code in (Op.REDUCE_MAX, Op.REDUCE_MIN):
            if not node.call.axes.is_constant:
                return None
            shape, axes = node.call.input.shape, reduced_axes(node.call)
            if not are_last(axes, shape):
                return None
            found.add(math.prod(size for axis, size in enumerate(shape) if axis not in axes))
    return found.pop() if len(found) == 1 else None
