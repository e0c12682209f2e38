"""Random inputs."""

from __future__ import annotations

import numpy as np
import pytest
from builder import Builder

from nnvk import Model, OperandCode, OperandType, OperationCode
from nnvk.demo.assets import DATA
from nnvk.importers import tflite
from nnvk.inputs.randoms import random_array, random_inputs, random_ports


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        (OperandType(OperandCode.TENSOR_FLOAT32, (999,)), -1, 1),
        (OperandType(OperandCode.TENSOR_FLOAT16, (999,)), -1, 1),
        (OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (999,), 0.1, 3), 0, 255),
        (OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (999,), 0.1, 3), -128, 127),
        (OperandType(OperandCode.TENSOR_QUANT16_SYMM, (999,), 0.1), -32768, 32767),
        (OperandType(OperandCode.TENSOR_BOOL8, (999,)), 0, 1),
        (OperandType(OperandCode.TENSOR_INT32, (999,)), 0, 0),
    ],
)
def test_values(type_: OperandType, low: float, high: float) -> None:
    array = random_array(type_, np.random.default_rng(0))
    assert (array.dtype, array.shape) == (type_.dtype, (999,))
    assert low <= array.min() <= array.max() <= high
    assert len(np.unique(array)) > 100 or high - low < 2


def test_open_dimensions() -> None:
    with pytest.raises(ValueError, match="open"):
        random_array(OperandType(OperandCode.TENSOR_FLOAT32, (0, 3)), np.random.default_rng(0))


def twice() -> Model:
    build = Builder()
    type_ = OperandType(OperandCode.TENSOR_FLOAT32, (7, 3))
    inputs = [build.operand(type_), build.operand(type_)]
    scalar = build.constant(OperandType(OperandCode.INT32), 0)
    return build.finish(inputs, [build.operation(OperationCode.ADD, [*inputs, scalar], type_)])


def test_the_same_for_the_same_seed() -> None:
    first, again, other = (random_inputs(twice().frozen, seed) for seed in (5, 5, 6))
    for one, same, different in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, same)
        assert (one != different).any()
    assert (first[0] != first[1]).any(), "inputs differ from each other"


def test_as_the_file_has_them() -> None:
    imported = tflite.load(DATA / "digits_int8.tflite")
    (array,) = random_ports(imported, 3)
    assert (array.dtype, array.shape) == (imported.inputs[0].dtype, imported.inputs[0].shape)
    imported.encode([array])


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tflite.load(DATA / "digits_float.tflite").model.frozen
    monkeypatch.setattr("os.sysconf", lambda name: 32)
    with pytest.raises(MemoryError, match="inputs and outputs take 1064 bytes, the machine has 1024"):
        random_inputs(model)
