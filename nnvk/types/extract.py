"""Parts of a model as separate models, and models with all intermediate results as outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnvk.types.model import Lifetime, Model, Operand, Operation


@dataclass(frozen=True, slots=True)
class Extract:
    """A part of a model as a separate model, and its inputs and outputs as operands of the whole."""

    model: Model
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def extract(whole: Model, operations: Sequence[int]) -> Extract:
    """The part of ``whole`` that consists of ``operations``, with the constants they need."""
    part = [whole.operations[number] for number in operations]
    inside = set(operations)
    written = {index for operation in part for index in operation.outputs}
    read_elsewhere = {
        index for number, operation in enumerate(whole.operations) if number not in inside for index in operation.inputs
    }
    outputs = tuple(
        index for operation in part for index in operation.outputs if index in read_elsewhere or index in whole.outputs
    )
    inputs = tuple(
        dict.fromkeys(
            index
            for operation in part
            for index in operation.inputs
            if index not in written and _comes_from_outside(whole.operands[index])
        )
    )
    used = list(dict.fromkeys(index for operation in part for index in (*operation.inputs, *operation.outputs)))
    position = {index: number for number, index in enumerate(used)}
    operands = tuple(
        _renamed(whole.operands[index], index in inputs, index in outputs, index in written) for index in used
    )
    model = Model(
        operands,
        tuple(
            Operation(
                operation.code,
                tuple(position[index] for index in operation.inputs),
                tuple(position[index] for index in operation.outputs),
            )
            for operation in part
        ),
        tuple(position[index] for index in inputs),
        tuple(position[index] for index in outputs),
        whole.relaxed,
        reproducible=whole.reproducible,
    )
    return Extract(model, inputs, outputs)


def exposed(model: Model) -> Model:
    """The model with the results of all operations as outputs, after its own outputs and in the order of execution.

    Models that control flow refers to do not change.
    """
    results = (index for operation in model.operations for index in operation.outputs)
    outputs = tuple(dict.fromkeys((*model.outputs, *results)))
    shown = set(outputs)
    operands = tuple(
        replace(operand, lifetime=Lifetime.SUBGRAPH_OUTPUT)
        if index in shown and operand.lifetime is Lifetime.TEMPORARY_VARIABLE
        else operand
        for index, operand in enumerate(model.operands)
    )
    return replace(model, operands=operands, outputs=outputs)


def _comes_from_outside(operand: Operand) -> bool:
    return operand.lifetime in (Lifetime.SUBGRAPH_INPUT, Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)


def _renamed(operand: Operand, is_input: bool, is_output: bool, is_written: bool) -> Operand:
    if is_input:
        return Operand(operand.type, Lifetime.SUBGRAPH_INPUT)
    if is_output:
        return Operand(operand.type, Lifetime.SUBGRAPH_OUTPUT)
    return Operand(operand.type, Lifetime.TEMPORARY_VARIABLE) if is_written else operand
