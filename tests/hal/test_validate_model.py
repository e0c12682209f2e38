"""Drivers trust nobody: models that break a rule are refused at the door, whoever hands them over."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.hal import IDevice
from nnvk.types.codes import ExtensionCode, OperandCode, OperationCode
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import ChannelQuant, OperandType
from nnvk.types.request import PrepareOptions

F32 = OperandCode.TENSOR_FLOAT32
FOUR = OperandType(F32, (4,))
INT = OperandType(OperandCode.INT32)
NONE = Operand(INT, Lifetime.CONSTANT, np.array(0, np.int32))
IN, OUT = Operand(FOUR, Lifetime.SUBGRAPH_INPUT), Operand(FOUR, Lifetime.SUBGRAPH_OUTPUT)
BOOLS = Operand(OperandType(OperandCode.TENSOR_BOOL8, (4,)), Lifetime.SUBGRAPH_INPUT)
TEMPORARY = Operand(FOUR, Lifetime.TEMPORARY_VARIABLE)
ADD = Operation(OperationCode.ADD, (0, 1, 2), (3,))
GOOD = Model((IN, IN, NONE, OUT), (ADD,), (0, 1), (3,))


def operand(model: Model, index: int, **changes: Any) -> Model:
    """The model with another operand ``index``."""
    operands = list(model.operands)
    operands[index] = replace(operands[index], **changes)
    return replace(model, operands=tuple(operands))


def typed(index: int, *arguments: Any, **changes: Any) -> Model:
    """The good model with another type of an operand."""
    return operand(GOOD, index, type=OperandType(*arguments, **changes))


def operations(*made: Operation) -> Model:
    return replace(GOOD, operations=made)


def constant(value: Any, type_: OperandType = INT) -> Model:
    """The good model with another activation."""
    return operand(GOOD, 2, type=type_, constant=value)


def branch(value: Model | None, type_: OperandType | None = None) -> Model:
    """IF whose branches are these."""
    flag = Operand(OperandType(OperandCode.TENSOR_BOOL8, (1,)), Lifetime.SUBGRAPH_INPUT)
    reference = Operand(type_ or OperandType(OperandCode.MODEL), Lifetime.SUBGRAPH, subgraph=value)
    call = Operation(OperationCode.IF, (0, 1, 2, 3, 4), (5,))
    return Model((flag, reference, reference, IN, IN, OUT), (call,), (0, 3, 4), (5,))


MODEL = OperandType(OperandCode.MODEL)
HOSTILE: dict[str, Callable[[], Model]] = {
    # indexes
    "input that does not exist": lambda: replace(GOOD, inputs=(0, 4)),
    "negative input": lambda: replace(GOOD, inputs=(0, -1)),
    "output that does not exist": lambda: replace(GOOD, outputs=(9,)),
    "operation reads what does not exist": lambda: operations(replace(ADD, inputs=(0, 1, 4))),
    "operation reads a negative index": lambda: operations(replace(ADD, inputs=(0, 1, -2))),
    "operation writes what does not exist": lambda: operations(replace(ADD, outputs=(4,))),
    "an index that is huge": lambda: operations(replace(ADD, inputs=(0, 2**40, 2))),
    "an index that is a float": lambda: operations(replace(ADD, inputs=(0, 1.0, 2))),  # type: ignore[arg-type]
    "an index that is None": lambda: replace(GOOD, inputs=(0, None)),  # type: ignore[arg-type]
    # inputs and outputs
    "input twice": lambda: replace(GOOD, inputs=(0, 1, 0)),
    "output twice": lambda: replace(GOOD, outputs=(3, 3)),
    "input that is not declared": lambda: replace(GOOD, inputs=(0,)),
    "output that is not declared": lambda: replace(GOOD, outputs=()),
    "input that is a constant": lambda: replace(GOOD, inputs=(0, 1, 2)),
    "output that is an input": lambda: replace(GOOD, outputs=(3, 0)),
    # lifetimes and values
    "constant without a value": lambda: constant(None),
    "input with a value": lambda: operand(GOOD, 0, constant=np.zeros(4, np.float32)),
    "omitted with a value": lambda: operand(GOOD, 2, lifetime=Lifetime.NO_VALUE),
    "constant that is a list": lambda: constant([0]),
    "constant that is bytes": lambda: constant(b"\0\0\0\0"),
    "constant of another dtype": lambda: constant(np.array(0, np.int64)),
    "constant of another byte order": lambda: constant(np.array(0, ">i4")),
    "constant of another shape": lambda: constant(np.zeros(2, np.int32)),
    "constant of a scalar as a tensor": lambda: constant(np.zeros((1,), np.int32)),
    "constant of type model": lambda: constant(np.array(0, np.int32), MODEL),
    "required operand omitted": lambda: operand(GOOD, 1, lifetime=Lifetime.NO_VALUE),
    "lifetime of a subgraph without one": lambda: operand(GOOD, 2, lifetime=Lifetime.SUBGRAPH, constant=None),
    "constant with a subgraph": lambda: operand(GOOD, 2, subgraph=GOOD),
    # types
    "dimension too large": lambda: typed(0, F32, (2**32,)),
    "negative dimension": lambda: typed(0, F32, (-4,)),
    "4 GiB": lambda: typed(0, F32, (2**16, 2**14)),
    "product beyond 64 bits": lambda: typed(0, F32, (2**31, 2**31, 2**31)),
    "scalar with dimensions": lambda: constant(np.zeros(1, np.int32), OperandType(OperandCode.INT32, (1,))),
    "float with a scale": lambda: typed(0, F32, (4,), 0.5),
    "scale that is NaN": lambda: typed(0, OperandCode.TENSOR_QUANT8_ASYMM, (4,), float("nan")),
    "scale that is infinite": lambda: typed(0, OperandCode.TENSOR_QUANT8_ASYMM, (4,), float("inf")),
    "negative scale": lambda: typed(0, OperandCode.TENSOR_QUANT8_ASYMM, (4,), -1.0),
    "quantised without a scale": lambda: typed(0, OperandCode.TENSOR_QUANT8_ASYMM, (4,)),
    "zero point too large": lambda: typed(0, OperandCode.TENSOR_QUANT8_ASYMM, (4,), 1.0, 256),
    "zero point too small": lambda: typed(0, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (4,), 1.0, -129),
    "symmetric with a zero point": lambda: typed(0, OperandCode.TENSOR_QUANT16_SYMM, (4,), 1.0, 1),
    "channels without scales": lambda: typed(0, OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (4,)),
    "scales without channels": lambda: typed(0, F32, (4,), channel_quant=ChannelQuant((1.0,) * 4, 0)),
    "too few scales": lambda: per_channel((1.0,) * 3, 0),
    "a scale that is zero": lambda: per_channel((1.0, 1.0, 0.0, 1.0), 0),
    "a scale that is NaN": lambda: per_channel((1.0, 1.0, float("nan"), 1.0), 0),
    "a channel dimension that does not exist": lambda: per_channel((1.0,) * 4, 1),
    # operations
    "operation that does not exist": lambda: operations(replace(ADD, code=106)),  # type: ignore[arg-type]
    "operation without a code": lambda: operations(replace(ADD, code=None)),  # type: ignore[arg-type]
    "operation of an extension that nobody has": lambda: operations(replace(ADD, code=ExtensionCode("com.example", 0))),
    "too few inputs": lambda: operations(replace(ADD, inputs=(0, 1))),
    "too many inputs": lambda: operations(replace(ADD, inputs=(0, 1, 2, 2))),
    "no inputs": lambda: operations(replace(ADD, inputs=())),
    "no outputs": lambda: operations(replace(ADD, outputs=())),
    "too many outputs": lambda: replace(
        GOOD, operands=(*GOOD.operands, TEMPORARY), operations=(replace(ADD, outputs=(3, 4)),)
    ),
    "inputs of another type": lambda: typed(1, OperandCode.TENSOR_INT32, (4,)),
    "a type that the operation has not": lambda: replace(
        GOOD, operands=(BOOLS, BOOLS, NONE, replace(BOOLS, lifetime=Lifetime.SUBGRAPH_OUTPUT))
    ),
    "a tensor where a scalar belongs": lambda: operations(replace(ADD, inputs=(0, 1, 1))),
    "an activation that does not exist": lambda: constant(np.array(4, np.int32)),
    "a negative activation": lambda: constant(np.array(-1, np.int32)),
    "shapes that don't broadcast": lambda: typed(1, F32, (3,)),
    "output of another shape": lambda: typed(3, F32, (5,)),
    "output of another type": lambda: typed(3, OperandCode.TENSOR_INT32, (4,)),
    # order
    "nothing writes the output": lambda: operations(),
    "two writers": lambda: operations(ADD, ADD),
    "an input is written": lambda: operations(replace(ADD, outputs=(0,))),
    "a constant is written": lambda: operations(replace(ADD, outputs=(2,))),
    "read before written": lambda: Model(
        (IN, TEMPORARY, NONE, OUT), (ADD, Operation(OperationCode.NEG, (0,), (1,))), (0,), (3,)
    ),
    "an operation that feeds itself": lambda: Model((IN, TEMPORARY, NONE, OUT), (
        Operation(OperationCode.MAXIMUM, (0, 1), (1,)), ADD), (0,), (3,)),
    # referenced models
    "reference that is no model": lambda: branch(GOOD_BRANCH, FOUR),
    "reference to nothing": lambda: branch(None),
    "reference to a model that is hostile": lambda: branch(replace(GOOD_BRANCH, outputs=(7,))),
    "reference to a model of hostile types": lambda: branch(operand(GOOD_BRANCH, 0, type=OperandType(F32, (2**32,)))),
    "reference to a model that takes something else": lambda: branch(
        Model((IN, OUT), (Operation(OperationCode.NEG, (0,), (1,)),), (0,), (1,))
    ),
    "reference to a model that nobody uses, but hostile": lambda: replace(
        GOOD, operands=(*GOOD.operands, Operand(MODEL, Lifetime.SUBGRAPH, subgraph=replace(GOOD_BRANCH, outputs=(7,))))
    ),
}  # fmt: skip
GOOD_BRANCH = Model((IN, IN, OUT), (Operation(OperationCode.MAXIMUM, (0, 1), (2,)),), (0, 1), (2,))


def per_channel(scales: Sequence[float], dim: int) -> Model:
    type_ = OperandType(
        OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (4,), channel_quant=ChannelQuant(tuple(scales), dim)
    )
    value = Operand(type_, Lifetime.CONSTANT, np.zeros(4, np.int8))
    return replace(GOOD, operands=(*GOOD.operands, value))


def test_the_model_that_the_others_are_made_of_is_good(driver: IDevice) -> None:
    driver.prepare_model(GOOD, PrepareOptions())
    assert all(support.supported for support in driver.get_supported_operations(GOOD))


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_models_are_refused(driver: IDevice, make: Callable[[], Model]) -> None:
    model = make()
    with pytest.raises(NnapiError) as caught:
        driver.prepare_model(model, PrepareOptions())
    assert caught.value.code is ResultCode.BAD_DATA
    assert caught.value.reason


def _mutated(generator: random.Random, model: Model) -> Model:
    """The model with something in it replaced by something from a list of nasty things."""
    numbers = [-1, 0, 1, 2, 3, 4, 5, 7, 100, 2**31, 2**32, 2**63]
    codes = list(OperandCode)
    operands, made = list(model.operands), list(model.operations)
    inputs, outputs = list(model.inputs), list(model.outputs)
    for _ in range(generator.choice((1, 1, 2, 4))):
        match generator.randrange(8):
            case 0:
                at = generator.randrange(len(operands))
                shape = tuple(generator.choice(numbers) for _ in range(generator.randrange(4)))
                quant = generator.choice(((), (0.5,), (0.5, 3), (-1.0, 2**40)))
                operands[at] = replace(operands[at], type=OperandType(generator.choice(codes), shape, *quant))
            case 1:
                at = generator.randrange(len(operands))
                operands[at] = replace(operands[at], lifetime=generator.choice(list(Lifetime)))
            case 2:
                at = generator.randrange(len(operands))
                value = generator.choice((None, np.zeros(4, np.float32), np.array(0, np.int32), np.array(7, np.int32)))
                operands[at] = replace(operands[at], constant=value)
            case 3:
                made.append(
                    Operation(
                        generator.choice(list(OperationCode)),
                        tuple(generator.choice(numbers[:8]) for _ in range(generator.randrange(8))),
                        tuple(generator.choice(numbers[:8]) for _ in range(generator.randrange(4))),
                    )
                )
            case 4:
                at = generator.randrange(len(made)) if made else 0
                made[at : at + 1] = [replace(o, code=generator.choice(list(OperationCode))) for o in made[at : at + 1]]
            case 5:
                generator.shuffle(made)
            case 6:
                (inputs if generator.random() < 0.5 else outputs).append(generator.choice(numbers))
            case 7:
                operands.append(generator.choice(operands))
    return Model(tuple(operands), tuple(made), tuple(inputs), tuple(outputs))


@pytest.mark.parametrize("seed", range(4))
def test_mutated_models_are_prepared_or_refused(driver: IDevice, seed: int) -> None:
    """Whatever is wrong with a model: BAD_DATA, and no other error."""
    generator = random.Random(seed)
    for _ in range(150):
        model = _mutated(generator, generator.choice((GOOD, branch(GOOD_BRANCH))))
        try:
            driver.prepare_model(model, PrepareOptions())
        except NnapiError as error:
            assert error.code in (ResultCode.BAD_DATA, ResultCode.OUT_OF_MEMORY), error
