"""IF and WHILE: the rules on their models."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Model, Operand
from nnvk.types.operand import OperandType

BOOL = OperandType(OperandCode.TENSOR_BOOL8, (1,))
X = OperandType(OperandCode.TENSOR_FLOAT32, (2, 3))
Y = OperandType(OperandCode.TENSOR_FLOAT32, (2, 5))
OPEN = OperandType(OperandCode.TENSOR_FLOAT32, (2, 0))
UNRANKED = OperandType(OperandCode.TENSOR_FLOAT32)
COUNT = OperandType(OperandCode.TENSOR_INT32, (1,))
HALF = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (2, 3), 0.5, 3)


def model(inputs, outputs):
    """Return a model of these types. Its results do not matter here."""
    operands = [Operand(type_, Lifetime.SUBGRAPH_INPUT) for type_ in inputs]
    operands += [Operand(type_, Lifetime.SUBGRAPH_OUTPUT) for type_ in outputs]
    return Model(tuple(operands), (), tuple(range(len(inputs))), tuple(range(len(inputs), len(operands))))


@pytest.mark.parametrize(
    ("branches", "outputs", "shapes"),
    [
        pytest.param([X, X], [X], [(2, 3)], id="declared"),
        pytest.param([X, X], [UNRANKED], [(2, 3)], id="both_branches_say"),
        pytest.param([X, Y], [OPEN], None, id="branches_differ"),
        pytest.param([OPEN, X], [OPEN], None, id="one_branch_says"),
        pytest.param([UNRANKED, OPEN], [X], [(2, 3)], id="branches_leave_it_open"),
    ],
)
def test_if_shapes(ops, branches, outputs, shapes):
    taken, other = (model([X], [branch]) for branch in branches)
    assert ops.infer(OperationCode.IF, BOOL, taken, other, X, outputs=outputs) == shapes


@pytest.mark.parametrize("state", [X, OPEN, UNRANKED])
def test_while_shapes_are_known_where_declared(ops, state):
    condition, body = model([state, COUNT], [BOOL]), model([state, COUNT], [state])
    inferred = ops.infer(OperationCode.WHILE, condition, body, X, COUNT, outputs=[state])
    assert inferred == ([(2, 3)] if state is X else None)


def test_if_hands_scalars_on(ops):
    scalar = OperandType(OperandCode.FLOAT32)
    branch = model([scalar, X], [X])
    assert ops.infer(OperationCode.IF, BOOL, branch, branch, 1.5, X, outputs=[X]) == [(2, 3)]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        pytest.param(
            (OperandType(OperandCode.TENSOR_BOOL8, (2,)), model([X], [X]), model([X], [X]), X),
            r"condition must be TENSOR_BOOL8\[1\], got TENSOR_BOOL8\[2\]",
            id="condition",
        ),
        pytest.param(
            (BOOL, model([X], [X]), model([X, X], [X]), X), "else_model must have 1 inputs, got 2", id="input_count"
        ),
        pytest.param(
            (BOOL, model([X], [X, X]), model([X], [X]), X), "then_model must have 1 outputs, got 2", id="output_count"
        ),
        pytest.param(
            (BOOL, model([Y], [X]), model([X], [X]), X),
            r"input 0 of then_model must be TENSOR_FLOAT32\[2, 3\], got TENSOR_FLOAT32\[2, 5\]",
            id="input_size",
        ),
        pytest.param(
            (BOOL, model([X], [X]), model([COUNT], [X]), X),
            r"input 0 of else_model must be TENSOR_FLOAT32\[2, 3\], got TENSOR_INT32\[1\]",
            id="input_type",
        ),
        pytest.param(
            (BOOL, model([X], [X]), model([X], [HALF]), X),
            r"output 0 of else_model must be TENSOR_FLOAT32\[2, 3\], got TENSOR_QUANT8_ASYMM",
            id="output_type",
        ),
        pytest.param(
            (BOOL, model([X], [X]), model([X], [X]), 1.5),
            r"input 0 of then_model must be a scalar, got TENSOR_FLOAT32\[2, 3\]",
            id="scalar",
        ),
        pytest.param((BOOL, model([X], [X]), model([X], [X]), None), r"inputs\[0\] can't be omitted", id="omitted"),
    ],
)
def test_if_errors(ops, inputs, message):
    with pytest.raises(NnapiError, match=f"IF: {message}") as error:
        ops.infer(OperationCode.IF, *inputs, outputs=[X])
    assert error.value.code is ResultCode.BAD_DATA


def test_if_compares_quantisation(ops):
    other = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (2, 3), 0.5, 4)
    with pytest.raises(NnapiError, match=r"output 0 of else_model must be .* zero point 3, got .* zero point 4"):
        ops.infer(OperationCode.IF, BOOL, model([HALF], [HALF]), model([HALF], [other]), HALF, outputs=[HALF])


@pytest.mark.parametrize(
    ("condition", "body", "outputs", "message"),
    [
        pytest.param(
            model([X, COUNT], [BOOL, BOOL]),
            model([X, COUNT], [X]),
            [X],
            "condition_model must have 1 output, got 2",
            id="verdicts",
        ),
        pytest.param(
            model([X, COUNT], [COUNT]),
            model([X, COUNT], [X]),
            [X],
            r"output 0 of condition_model must be TENSOR_BOOL8\[1\], got TENSOR_INT32\[1\]",
            id="verdict_type",
        ),
        pytest.param(
            model([X], [BOOL]), model([X, COUNT], [X]), [X], "condition_model must have 2 inputs, got 1", id="inputs"
        ),
        pytest.param(
            model([X, COUNT], [BOOL]),
            model([X, COUNT], [X]),
            [X, COUNT],
            "body_model must have 2 to 2 outputs, got 1",
            id="few_outputs",
        ),
        pytest.param(
            model([X, COUNT], [BOOL]),
            model([X, COUNT], [X, COUNT, X]),
            [X],
            "body_model must have 1 to 2 outputs, got 3",
            id="many_outputs",
        ),
        pytest.param(
            model([X, COUNT], [BOOL]),
            model([X, COUNT], [X, X]),
            [X],
            r"output 1 of body_model, the next input 1, must be TENSOR_INT32\[1\], got TENSOR_FLOAT32\[2, 3\]",
            id="state_type",
        ),
    ],
)
def test_while_errors(ops, condition, body, outputs, message):
    with pytest.raises(NnapiError, match=f"WHILE: {message}") as error:
        ops.infer(OperationCode.WHILE, condition, body, X, COUNT, outputs=outputs)
    assert error.value.code is ResultCode.BAD_DATA


def test_values_of_models_are_no_tensors(ops):
    with pytest.raises(NnapiError, match=r"IF: then_model \(input 1\) must be MODEL, got TENSOR_FLOAT32\[2, 3\]"):
        ops.infer(OperationCode.IF, BOOL, np.zeros((2, 3), np.float32), model([X], [X]), X, outputs=[X])
