"""Execution of IF and WHILE for the runtime and for every driver. Models and values may have any type."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode, UnfitData
from nnvk.ops.registry import compatible
from nnvk.types.codes import OperationCode
from nnvk.types.model import Model, Operation
from nnvk.types.operand import OperandType, Shape

CONTROL_FLOW = frozenset({OperationCode.IF, OperationCode.WHILE})

M = TypeVar("M")
V = TypeVar("V")


class Clock:
    """The limits of one execution: a deadline, and the time that one WHILE may take; in nanoseconds."""

    def __init__(self, deadline_ns: int | None, loop_timeout_ns: int) -> None:
        self.deadline_ns = deadline_ns
        self.loop_timeout_ns = loop_timeout_ns

    def check(self) -> None:
        """Raise MISSED_DEADLINE_TRANSIENT once the deadline has passed."""
        if self.deadline_ns is not None and time.monotonic_ns() > self.deadline_ns:
            raise NnapiError(ResultCode.MISSED_DEADLINE_TRANSIENT, "the execution's deadline has passed")


def referenced_models(model: Model, operation: Operation) -> tuple[Model, ...]:
    """The two models of an IF (then, else) or WHILE (condition, body); none of other operations."""
    if operation.code not in CONTROL_FLOW:
        return ()
    subgraphs = (model.operands[index].subgraph for index in operation.inputs)
    return tuple(subgraph for subgraph in subgraphs if subgraph is not None)


def handed_on(operation: Operation) -> tuple[int, ...]:
    """The operands of an IF or WHILE except for the models: IF's condition, then the inputs of the models."""
    if operation.code is OperationCode.IF:
        return operation.inputs[0], *operation.inputs[3:]
    return operation.inputs[2:]


def run(
    operation: Operation,
    models: Sequence[M],
    values: Sequence[V],
    evaluate: Callable[[M, Sequence[V]], Sequence[V]],
    read: Callable[[V], np.ndarray | None],
    clock: Clock,
) -> list[V]:
    """The outputs of an IF or WHILE.

    Args:
        operation: it.
        models: its two models, in any form.
        values: of its operands, as `handed_on` has them.
        evaluate: the outputs of a model for inputs.
        read: a value of BOOL8 as an array; None where it was omitted.
        clock: of the execution.

    Raises:
        NnapiError: MISSED_DEADLINE_TRANSIENT: a WHILE takes longer than it may. OP_FAILED: a condition is not one
            truth value.
    """
    if operation.code is OperationCode.IF:
        condition, *inputs = values
        taken = models[0] if _is_true(operation, read(condition)) else models[1]
        return list(evaluate(taken, inputs))[: len(operation.outputs)]
    state = list(values)
    give_up: int | None = None  # after the first turn, for which a device may have a lot to prepare
    while _is_true(operation, read(evaluate(models[0], state)[0])):
        clock.check()
        if give_up is not None and time.monotonic_ns() > give_up:
            seconds = clock.loop_timeout_ns / 1e9
            raise NnapiError(ResultCode.MISSED_DEADLINE_TRANSIENT, f"WHILE: a loop ran longer than {seconds:g} s")
        results = evaluate(models[1], state)
        state = [*results, *state[len(results) :]]
        give_up = give_up or time.monotonic_ns() + clock.loop_timeout_ns
    return state[: len(operation.outputs)]


def check_output(operation: Operation, position: int, declared: OperandType, shape: Shape) -> None:
    """Raise OP_FAILED unless a model's output has the rank and sizes that the operation's output declares."""
    if declared.is_tensor and declared.dimensions and not compatible(declared.dimensions, shape):
        raise UnfitData(f"{operation}: output {position} is declared as {declared}, the model gives {list(shape)}")


def _is_true(operation: Operation, verdict: np.ndarray | None) -> bool:
    what = "condition" if operation.code is OperationCode.IF else "output 0 of condition_model"
    if verdict is None or verdict.shape != (1,):
        got = "nothing" if verdict is None else list(verdict.shape)
        raise UnfitData(f"{operation}: {what} must have shape [1], got {got}")
    return bool(verdict[0])
