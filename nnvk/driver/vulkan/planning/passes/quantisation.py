"""Rescale quantised operands as the output, for kernels that move or compare quantised values as they are.

That is a TABLE_LOOKUP, which a GEMM may compute in its epilogue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.lowering.quantised.tensors import lookup_table
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.ops.call import Call, Tensor
from nnvk.ops.concat import rescaled
from nnvk.ops.internal import InternalCode, call_of
from nnvk.ops.quant import is_quantised, requantize
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode

_Convert = Callable[[Tensor, Tensor], np.ndarray]
_CONVERT: Mapping[KnownCode | InternalCode, _Convert] = {
    OperationCode.CONCATENATION: rescaled,
    OperationCode.MAXIMUM: requantize,
    OperationCode.MINIMUM: requantize,
    OperationCode.SELECT: requantize,
}
"""The reference that gives the quantised values of an operand in the quantisation of the output, by operation."""


def legalise_quantisation(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let operations read operands in the quantisation of their output."""
    nodes: list[Node] = []
    count = 0
    for node in graph.nodes:
        if node.code in _CONVERT and is_quantised(node.call.output.code):
            lookups = _lookups(node, context)
            nodes += lookups.values()
            node = node.reading({index: lookup.call.output for index, lookup in lookups.items()})
            count += len(lookups)
        nodes.append(node)
    return (graph.with_nodes(nodes), count) if count else (graph, 0)


def _lookups(node: Node, context: Context) -> dict[int, Node]:
    """The operations that convert operands of a node, by the operands' indices."""
    output, convert = node.call.output, _CONVERT[node.code]
    lookups = {}
    for source in node.inputs:
        is_same = (source.scale, source.zero_point) == (output.scale, output.zero_point)
        if source.index not in lookups and source.size and is_quantised(source.code) and not is_same:
            lookups[source.index] = node.with_call(_lookup(convert, source, output, context))
    return lookups


def _lookup(convert: _Convert, source: Tensor, output: Tensor, context: Context) -> Call:
    """The call that gives the quantised values of a source in the quantisation of an output."""
    values = lookup_table(source, output, lambda every: convert(every, output)).view(output.dtype)
    table = context.tensor("table", replace(output.type, dimensions=values.shape), values)
    moved = context.tensor(source.name, replace(output.type, dimensions=source.shape))
    return call_of(ExtendedOperationCode.TABLE_LOOKUP, moved, input=source, table=table)
