"""The frozen model."""

from __future__ import annotations

import dataclasses

import pytest

from nnvk.types.codes import ExtensionCode, OperandCode, OperationCode
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType

FOUR = OperandType(OperandCode.TENSOR_FLOAT32, (4,))
FLAG = OperandType(OperandCode.TENSOR_BOOL8, (1,))


def branch(relaxed: bool) -> Model:
    operands = (Operand(FOUR, Lifetime.SUBGRAPH_INPUT), Operand(FOUR, Lifetime.SUBGRAPH_OUTPUT))
    return Model(operands, (Operation(OperationCode.NEG, (0,), (1,)),), (0,), (1,), relaxed)


def choice(first: Model, second: Model, relaxed: bool) -> Model:
    references = [
        Operand(OperandType(OperandCode.MODEL), Lifetime.SUBGRAPH, subgraph=model) for model in (first, second)
    ]
    flag, source = Operand(FLAG, Lifetime.SUBGRAPH_INPUT), Operand(FOUR, Lifetime.SUBGRAPH_INPUT)
    operands = (flag, *references, source, Operand(FOUR, Lifetime.SUBGRAPH_OUTPUT))
    return Model(operands, (Operation(OperationCode.IF, (0, 1, 2, 3), (4,)),), (0, 3), (4,), relaxed)


def settings(model: Model) -> list[bool]:
    """The relaxed settings of a model and all that it refers to."""
    found = [model.relaxed]
    for operand in model.operands:
        if operand.subgraph is not None:
            found += settings(operand.subgraph)
    return found


@pytest.mark.parametrize("relaxed", [True, False])
def test_one_relaxed_setting_for_all(relaxed: bool) -> None:
    model = choice(choice(branch(True), branch(False), True), branch(False), False)
    changed = model.with_relaxed(relaxed)
    assert settings(changed) == [relaxed] * 5
    assert settings(model) == [False, True, True, False, False]
    assert changed.operations == model.operations
    assert changed.operands[3] is model.operands[3]


def test_a_model_that_has_the_setting_is_the_same() -> None:
    model = choice(branch(True), branch(True), True)
    assert model.with_relaxed(True) is model


def test_types_of_inputs_and_outputs() -> None:
    model = choice(branch(False), branch(False), False)
    assert model.input_types() == (FLAG, FOUR)
    assert model.output_types() == (FOUR,)


def test_a_model_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        branch(False).relaxed = True  # type: ignore[misc]


def test_operations_name_themselves() -> None:
    assert str(Operation(OperationCode.NEG, (0,), (1,))) == "NEG"
    assert str(Operation(ExtensionCode("com.example.filters", 2), (0,), (1,))) == "com.example.filters/2"
