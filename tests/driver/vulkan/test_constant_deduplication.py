"""Constants that are alike are one."""

from __future__ import annotations

import numpy as np
import pytest
from builder import Builder

from nnvk.driver.vulkan.planning.constant_deduplication import with_deduplicated_constants
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType

F32, U8 = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_QUANT8_ASYMM


def adding(*constants: tuple[OperandType, np.ndarray]) -> Model:
    """A model that adds constants, one after the other, to what it is given."""
    build = Builder()
    given = total = build.operand(constants[0][0])
    for type_, value in constants:
        total = build.operation(OperationCode.ADD, [total, build.constant(type_, value)], type_.with_dimensions(()))
    return build.finish([given], [total]).frozen


def taken(model: Model) -> list[int]:
    """Which constants the operations of a model take."""
    return [operation.inputs[1] for operation in model.operations]


def floats(*numbers: float) -> tuple[OperandType, np.ndarray]:
    return OperandType(F32, (len(numbers),)), np.array(numbers, np.float32)


def test_the_first_stands_for_those_that_are_alike() -> None:
    long = np.arange(99, dtype=np.float32)
    other = long.copy()
    other[-1] = 0
    many = OperandType(F32, long.shape)
    model = with_deduplicated_constants(adding((many, long), (many, other), (many, long.copy()), (many, other.copy())))
    first, second, third, fourth = taken(model)
    assert (third, fourth) == (first, second)
    assert first != second


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (floats(0.0), floats(-0.0)),
        (floats(1.0, 2.0), floats(2.0, 1.0)),
        ((OperandType(U8, (2,), 0.5, 3), np.ones(2, np.uint8)), (OperandType(U8, (2,), 0.5, 4), np.ones(2, np.uint8))),
        ((OperandType(F32, (1, 2)), np.ones((1, 2), np.float32)), floats(1.0, 1.0)),
    ],
    ids=["zeros", "order", "zero points", "shapes"],
)
def test_what_differs_stays(one: tuple[OperandType, np.ndarray], other: tuple[OperandType, np.ndarray]) -> None:
    model = adding(one, other)
    assert with_deduplicated_constants(model) is model


def test_bits_count_not_numbers() -> None:
    """NaNs are alike where their bits are."""
    first, second = taken(with_deduplicated_constants(adding(floats(np.nan), floats(np.nan))))
    assert first == second
