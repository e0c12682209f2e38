"""Runs cases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from generators.draw import Arg, Case
from nnvk.check.model_rows import Row
from nnvk.driver.cpu.executor import run
from nnvk.ops.check import validate_model
from nnvk.ops.flow import Clock
from nnvk.types.model import Lifetime, Model, Operand, Operation


def _operand(arg: Arg, *, late: bool) -> Operand:
    if arg.model is not None:
        return Operand(arg.type, Lifetime.SUBGRAPH, subgraph=arg.model)
    if arg.data is None:
        return Operand(arg.type, Lifetime.NO_VALUE)
    if arg.is_parameter and not late:
        return Operand(arg.type, Lifetime.CONSTANT, arg.data)
    return Operand(arg.type, Lifetime.SUBGRAPH_INPUT)


def frozen(case: Case, *, late: bool = False) -> Model:
    """A model of one operation: data is its inputs, parameters are constants, or inputs too if they are ``late``."""
    operands = [_operand(arg, late=late) for arg in case.inputs]
    operands += [Operand(type_, Lifetime.SUBGRAPH_OUTPUT) for type_ in case.outputs]
    count = len(case.inputs)
    outputs = tuple(range(count, len(operands)))
    operation = Operation(case.code, tuple(range(count)), outputs)
    inputs = tuple(index for index, operand in enumerate(operands) if operand.lifetime is Lifetime.SUBGRAPH_INPUT)
    return Model(tuple(operands), (operation,), inputs, outputs)


def drawn(case: Case, *, late: bool = False) -> Row:
    """A case as a row: its data are inputs of the model, its parameters constants, or inputs if they are ``late``."""
    model = frozen(case, late=late)
    arrays = (case.inputs[index].data for index in model.inputs)
    return Row(model, [array for array in arrays if array is not None])


def run_case(case: Case) -> Sequence[np.ndarray]:
    """Validate and run; the outputs."""
    model = frozen(case)
    validate_model(model)
    with np.errstate(all="ignore"):
        return run(model, [case.inputs[index].data for index in model.inputs], Clock(None, 2 * 10**9))
