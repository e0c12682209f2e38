"""From a model to a graph: operations are bound to their definitions, with all shapes known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nnvk.base.errors import op_failed
from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.ops import registry
from nnvk.ops.call import Call, UnknownValue
from nnvk.types.codes import OperationCode
from nnvk.types.model import Model
from nnvk.types.operand import Shape


class NeedsValue(Exception):
    """A plan depends on a value that is not known: of an input, or of the output of an earlier operation."""

    def __init__(self, operand: int, operation: int, reason: str) -> None:
        super().__init__(reason)
        self.operand = operand
        """Index of the operand whose value is needed."""
        self.operation = operation
        """Position of the operation that needs it."""


def needs_value(model: Model, position: int, unknown: UnknownValue) -> Exception:
    """The exception to raise if the operation at a position looks at a value that is not known."""
    operation = model.operations[position]
    if unknown.operand is None:
        return op_failed(f"{operation}: {unknown}")
    return NeedsValue(unknown.operand, position, f"{operation}: {unknown}")


def build(
    model: Model,
    input_shapes: Sequence[Shape],
    values: Mapping[int, np.ndarray],
    refuse: Callable[[Call], str | None],
) -> tuple[Graph, Mapping[int, Shape]]:
    """The graph of a model for inputs of these shapes, and the shapes of all operands that inputs and outputs have.

    ``values`` are known values of operands that are no constants of the model. ``refuse`` says why a call can't run;
    None if it can. Raises NeedsValue where another value has to be known, OP_FAILED where shapes contradict each other
    (`registry.at_execution`) and where a call is refused.
    """
    known = dict(values)
    shapes: dict[int, Shape] = dict(zip(model.inputs, input_shapes, strict=True))
    nodes = []
    for position, (_, call) in enumerate(registry.calls(model, input_shapes, final=True, late=known)):
        largest = registry.lookup(call.code).largest
        try:
            if largest is not None:
                for output, shape in zip(call.outputs, largest(call), strict=True):
                    output.shape = shape
            elif call.unknown is not None:
                raise call.unknown
            reason = refuse(call)
        except UnknownValue as unknown:
            raise needs_value(model, position, unknown) from unknown
        if reason:
            raise op_failed(f"{call.code.name}: {reason}")
        if call.code is OperationCode.RANK:
            known[call.output.index] = np.array(call.input.rank, np.int32)
        shapes.update((output.index, output.shape) for output in call.outputs)
        nodes.append(Node(call, position))
    return Graph(tuple(nodes), tuple(model.inputs), tuple(model.outputs)), shapes
