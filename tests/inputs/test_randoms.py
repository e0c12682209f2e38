"""Random inputs."""

from __future__ import annotations

import numpy as np
import pytest
from builder import Builder

from nnvk import Compilation, Model, OperandCode, OperandType, OperationCode, run
from nnvk.demo.assets import DATA
from nnvk.importers import formats, tflite
from nnvk.inputs.randoms import random_array, random_inputs, random_ports
from nnvk.inputs.whole_numbers import limits_of_inputs


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


def test_whole_numbers_are_below_a_limit() -> None:
    type_ = OperandType(OperandCode.TENSOR_INT32, (999,))
    array = random_array(type_, np.random.default_rng(0), 7)
    assert array.dtype == np.int32
    assert set(array.tolist()) == set(range(7))


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


# --- indices ----------------------------------------------------------------------------------------------------------


def limits(nodes: list[object], inputs: dict[str, tuple[type, list[int]]], **constants: np.ndarray) -> list[int]:
    onnx_net = pytest.importorskip("onnx_net")
    data = onnx_net.model(nodes, inputs, ["y"], constants).SerializeToString()
    return limits_of_inputs(formats.load(data).model.frozen)


def op(kind: str, inputs: str, outputs: str, **attributes: object) -> object:
    return pytest.importorskip("onnx_net").op(kind, inputs, outputs, **attributes)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_indices_are_below_the_size_of_their_table(axis: int, dtype: type) -> None:
    table = np.zeros((7, 5), np.float32)
    assert limits([op("Gather", "w x", "y", axis=axis)], {"x": (dtype, [1, 4])}, w=table) == [(7, 5)[axis]]


def test_the_smallest_table_counts_behind_operations_that_move_indices() -> None:
    nodes = [
        op("Reshape", "x s", "flat"),
        op("Concat", "flat flat", "both", axis=0),
        op("Gather", "w both", "a", axis=0),
        op("Gather", "v x", "b", axis=0),
        op("ReduceSum", "a", "c"),
        op("ReduceSum", "b", "d"),
        op("Add", "c d", "y"),
    ]
    tables = {"w": np.zeros((9, 2), np.float32), "v": np.zeros((6, 3), np.float32), "s": np.array([-1])}
    assert limits(nodes, {"x": (np.int64, [1, 4])}, **tables) == [6]


def test_indices_of_several_dimensions() -> None:
    nodes = [op("GatherND", "w x", "y")]
    assert limits(nodes, {"x": (np.int64, [4, 2])}, w=np.zeros((9, 3, 8), np.float32)) == [3]


@pytest.mark.parametrize(("classes", "limit"), [([0, 1, 2, 3, 4], 5), ([0, 1], 2), ([1, 2, 3], 2), ([0, 2, 1], 2)])
@pytest.mark.parametrize("position", [0, 1])
def test_numbers_that_become_a_one_hot_code(classes: list[int], limit: int, position: int) -> None:
    """They are compared with all classes; with others they are a mask."""
    build = Builder()
    given = build.operand(OperandType(OperandCode.TENSOR_INT32, (7, 1)))
    known = build.constant(OperandType(OperandCode.TENSOR_INT32, (len(classes),)), classes)
    inputs = [given, known] if position == 0 else [known, given]
    result = build.operation(OperationCode.EQUAL, inputs, OperandType(OperandCode.TENSOR_BOOL8, (7, len(classes))))
    assert limits_of_inputs(build.finish([given], [result]).frozen) == [limit]


def test_a_mask_is_flags_and_another_number_is_0() -> None:
    nodes = [op("Cast", "mask", "m", to=1), op("Mul", "m x", "y")]
    assert limits(nodes, {"mask": (np.int64, [1, 4]), "x": (np.float32, [1, 4])}) == [2, 1]
    assert limits([op("Add", "x x", "y")], {"x": (np.int32, [4])}) == [1]


def test_random_indices_run(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, on a table whose rows are their own numbers."""
    onnx_net = pytest.importorskip("onnx_net")
    table = np.arange(5, dtype=np.float32)[:, None]
    data = onnx_net.model([op("Gather", "w x", "y")], {"x": (np.int64, [200])}, ["y"], {"w": table}).SerializeToString()
    imported = formats.load(data)
    (indices,) = random_ports(imported, 1)
    assert set(indices.tolist()) == set(range(5))
    compilation = Compilation(imported.model)
    compilation.finish()
    ((rows,), _) = imported.decode(run(compilation, imported.encode([indices])))
    assert (rows[:, 0] == indices).all()
