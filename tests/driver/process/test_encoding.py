"""Models, options and results that pass between a driver's process and this one arrive unchanged, or are refused."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from builder import Builder
from generators import Draw, draw_case, frozen, generators
from samples import if_model, while_model

from nnvk.base import fields
from nnvk.base.errors import NnapiError, ResultCode
from nnvk.base.fields import Field
from nnvk.base.packets import Malformed, Reader, Writer
from nnvk.driver.process.protocol import PREPARE_OPTIONS, RESULT
from nnvk.types.codes import ExtensionCode, OperandCode, OperationCode, PreferenceCode, PriorityCode
from nnvk.types.encoding import read_model, write_model
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType
from nnvk.types.request import ExecutionResult, OutputShape, PrepareOptions, Redundancy, Timing

T = TypeVar("T")


def encoded(model: Model) -> bytes:
    writer = Writer()
    write_model(writer, model)
    return b"".join(writer.parts)


def decoded(content: bytes) -> Model:
    reader = Reader(memoryview(content))
    model = read_model(reader)
    reader.end()
    return model


def there_and_back(field: Field[T], value: T) -> T:
    reader = Reader(memoryview(fields.encoded(field.write, value)))
    read = field.read(reader)
    reader.end()
    return read


def check_same(one: Model, other: Model) -> None:
    """Compare what two models have, but for which objects they are."""
    assert one.operations == other.operations
    assert (one.inputs, one.outputs, one.relaxed) == (other.inputs, other.outputs, other.relaxed)
    assert one.input_names == other.input_names
    assert len(one.operands) == len(other.operands)
    for first, second in zip(one.operands, other.operands, strict=True):
        assert (first.type, first.lifetime) == (second.type, second.lifetime)
        assert (first.value is None) == (second.value is None)
        if first.value is not None and second.value is not None:
            assert first.value.dtype == second.value.dtype and first.value.shape == second.value.shape
            assert first.value.tobytes() == second.value.tobytes()
            assert not second.value.flags.writeable
        assert (first.subgraph is None) == (second.subgraph is None)
        if first.subgraph is not None and second.subgraph is not None:
            check_same(first.subgraph, second.subgraph)


@pytest.mark.parametrize("code", generators(), ids=lambda code: code.name)
@pytest.mark.parametrize("seed", range(3))
def test_a_model_of_each_operation(code: OperationCode, seed: int) -> None:
    model = frozen(draw_case(Draw(seed), code))
    check_same(model, decoded(encoded(model)))


@pytest.mark.parametrize("make", [if_model, while_model])
def test_control_flow(make: type) -> None:
    model = make().frozen
    check_same(model, decoded(encoded(model)))


def test_a_model_that_is_referred_to_twice_stays_one() -> None:
    inner = if_model().frozen
    subgraph = Operand(OperandType(OperandCode.MODEL), Lifetime.SUBGRAPH, subgraph=inner)
    model = decoded(encoded(Model((subgraph, subgraph), (), (), ())))
    assert model.operands[0].subgraph is model.operands[1].subgraph


def test_extensions_names_and_exact_numbers() -> None:
    type_ = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (2, 0), 0.1, 3)
    operation = Operation(ExtensionCode("com.example.ü", 7), (0,), (1,))
    operands = (Operand(type_, Lifetime.SUBGRAPH_INPUT), Operand(type_, Lifetime.SUBGRAPH_OUTPUT))
    model = Model(operands, (operation,), (0,), (1,), True, ("input/ü",))
    check_same(model, decoded(encoded(model)))


def test_options() -> None:
    for options in (
        PrepareOptions(),
        PrepareOptions(PreferenceCode.SUSTAINED_SPEED, PriorityCode.HIGH, 2**62, Path("/tmp/ü b")),
        PrepareOptions(redundancy=Redundancy.CHECKSUMS),
        PrepareOptions(redundancy=Redundancy.DUPLICATION),
        PrepareOptions(redundancy=Redundancy.CHECKSUMS, other_strategies=True),
    ):
        assert there_and_back(PREPARE_OPTIONS, options) == options
    assert there_and_back(PREPARE_OPTIONS, PrepareOptions(cache=Path("here"))).cache == Path.cwd() / "here"


def test_results() -> None:
    shapes = (OutputShape(()), OutputShape((2, 2**32 - 1), False))
    for result in (
        ExecutionResult(ResultCode.NO_ERROR, ()),
        ExecutionResult(ResultCode.OUTPUT_INSUFFICIENT_SIZE, shapes, Timing(1, 2)),
        ExecutionResult(ResultCode.NO_ERROR, shapes, Timing(1, 2**63), Timing(3, 4)),
    ):
        assert there_and_back(RESULT, result) == result


def test_what_can_not_be_told() -> None:
    build = Builder()
    source = build.operand(OperandType(OperandCode.TENSOR_FLOAT32, (2,)))
    model = build.finish(
        [source], [build.operation(OperationCode.RELU, [source], OperandType(OperandCode.TENSOR_FLOAT32, (2,)))]
    ).frozen
    objects = dataclasses.replace(model.operands[0], constant=np.array([object()]))
    with pytest.raises(NnapiError, match="no operand has elements of type object"):
        encoded(dataclasses.replace(model, operands=(objects, *model.operands[1:])))


@pytest.mark.parametrize("seed", range(60))
def test_damaged_models(seed: int) -> None:
    """A packet that was cut, or has other bytes, is refused, or another model; nothing else happens."""
    generator = random.Random(seed)
    models = [if_model().frozen, while_model().frozen, frozen(draw_case(Draw(seed), OperationCode.CONV_2D))]
    content = bytearray(encoded(generator.choice(models)))
    for _ in range(30):
        damaged = bytearray(content)
        if generator.random() < 0.3:
            del damaged[generator.randrange(len(damaged)) :]
        for _ in range(generator.randint(1, 4)):
            if damaged:
                damaged[generator.randrange(len(damaged))] = generator.choice((0, 1, 127, 128, 255))
        with contextlib.suppress(Malformed, NnapiError, TypeError, ValueError, MemoryError):
            decoded(bytes(damaged))
