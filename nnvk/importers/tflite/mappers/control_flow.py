"""Operators that refer to other subgraphs of the file: control flow, and calls."""

from __future__ import annotations

from collections.abc import Sequence

from nnvk.api import OperandCode, OperationCode
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin


@builtin("IF")
def if_(c: Context) -> Sequence[Value]:
    """Map IF. Both branches take all inputs except the condition."""
    options = c.options("IfOptions")
    condition, *inputs = c.all_inputs()
    if condition.code is not OperandCode.TENSOR_BOOL8 or condition.size != 1:
        raise Unmapped(f"the condition must be one boolean, got {condition.type}")
    branches = [c.subgraph(index, inputs) for index in (options.ThenSubgraphIndex(), options.ElseSubgraphIndex())]
    outs = list(branches[0].frozen.output_types())
    edges = [c.graph.edge(value) for value in inputs]
    return _shaped(c, c.emit_many(OperationCode.IF, c.reshape(condition, (1,)), *branches, *edges, outs=outs))


@builtin("WHILE")
def while_(c: Context) -> Sequence[Value]:
    """Map loops. Condition and body take all inputs, and the body computes the next ones."""
    options = c.options("WhileOptions")
    inputs = c.all_inputs()
    models = [c.subgraph(index, inputs) for index in (options.CondSubgraphIndex(), options.BodySubgraphIndex())]
    outs = list(models[1].frozen.output_types())
    edges = [c.graph.edge(value) for value in inputs]
    return _shaped(c, c.emit_many(OperationCode.WHILE, *models, *edges, outs=outs))


@builtin("CALL", "STABLEHLO_COMPOSITE")
def call(c: Context) -> Sequence[Value]:
    """Map CALL and STABLEHLO_COMPOSITE: the operators of the subgraph take the operator's place."""
    if c.operator.name == "CALL":
        return c.inlined(c.options("CallOptions").Subgraph(), c.all_inputs())
    return c.inlined(c.options("StableHLOCompositeOptions").DecompositionSubgraphIndex(), c.all_inputs())


def _shaped(c: Context, values: Sequence[Value]) -> list[Value]:
    """Outputs in the shapes that the file declares: models give none above rank 4."""
    shapes = [c.declared_shape(position) for position in range(len(c.outputs))]
    return [value if shape is None else c.reshape(value, shape) for value, shape in zip(values, shapes, strict=False)]
