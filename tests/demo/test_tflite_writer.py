"""The schema's own parser reads back the files that ``tools/tflite_writer.py`` writes."""

from __future__ import annotations

import numpy as np
import pytest
import tflite
from tflite_writer import BUFFER_ALIGNMENT, FILE_IDENTIFIER, Graph, Operator, Quantization, Tensor, serialize

WEIGHTS = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
BIAS = np.array([1, -2, 3], np.int32)


def small_graph() -> Graph:
    tensors = [
        Tensor("x", (1, 4), np.dtype(np.int8), quantization=Quantization((0.5,), (-3,))),
        Tensor("w", (3, 4), np.dtype(np.int8), WEIGHTS, Quantization((0.1, 0.2, 0.3), (0, 0, 0), 0)),
        Tensor("b", (3,), np.dtype(np.int32), BIAS),
        Tensor("y", (1, 3), np.dtype(np.int8), quantization=Quantization((0.25,), (7,))),
    ]
    options = {"FusedActivationFunction": tflite.ActivationFunctionType.RELU6}
    operator = Operator("FULLY_CONNECTED", (0, 1, 2), (3,), 4, "FullyConnectedOptions", options)
    return Graph("small", tensors, [operator], (0,), (3,))


@pytest.fixture
def model() -> tflite.Model:
    return tflite.Model.GetRootAsModel(serialize(small_graph(), "for a test"), 0)


def test_identifier_and_version(model: tflite.Model) -> None:
    data = serialize(small_graph(), "for a test")
    assert data[4:8] == FILE_IDENTIFIER
    assert model.Version() == 3
    assert model.Description() == b"for a test"


def test_tensors(model: tflite.Model) -> None:
    graph = model.Subgraphs(0)
    assert [graph.Tensors(i).Name() for i in range(graph.TensorsLength())] == [b"x", b"w", b"b", b"y"]
    assert [list(graph.Tensors(i).ShapeAsNumpy()) for i in range(4)] == [[1, 4], [3, 4], [3], [1, 3]]
    assert graph.Tensors(0).Type() == tflite.TensorType.INT8
    assert graph.Tensors(0).Buffer() == 0
    weights = graph.Tensors(1).Quantization()
    np.testing.assert_array_equal(weights.ScaleAsNumpy(), np.array([0.1, 0.2, 0.3], np.float32))
    assert list(weights.ZeroPointAsNumpy()) == [0, 0, 0]
    assert graph.Tensors(2).Quantization() is None
    assert graph.Tensors(3).Quantization().ZeroPoint(0) == 7


def test_constants_are_aligned(model: tflite.Model) -> None:
    graph = model.Subgraphs(0)
    whole = np.frombuffer(serialize(small_graph(), "for a test"), np.uint8)
    for index, expected in ((1, WEIGHTS), (2, BIAS)):
        data = model.Buffers(graph.Tensors(index).Buffer()).DataAsNumpy()
        np.testing.assert_array_equal(data.view(expected.dtype).reshape(expected.shape), expected)
        offset = whole.tobytes().index(expected.tobytes())
        assert offset % BUFFER_ALIGNMENT == 0


def test_operator(model: tflite.Model) -> None:
    graph = model.Subgraphs(0)
    operator = graph.Operators(0)
    code = model.OperatorCodes(operator.OpcodeIndex())
    assert (code.BuiltinCode(), code.Version()) == (tflite.BuiltinOperator.FULLY_CONNECTED, 4)
    assert list(operator.InputsAsNumpy()) == [0, 1, 2]
    assert list(operator.OutputsAsNumpy()) == [3]
    assert operator.BuiltinOptionsType() == tflite.BuiltinOptions.FullyConnectedOptions
    options = tflite.FullyConnectedOptions()
    table = operator.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    assert options.FusedActivationFunction() == tflite.ActivationFunctionType.RELU6


@pytest.mark.parametrize("data", [np.zeros((2, 2), np.int8), np.zeros((4,), np.float32)])
def test_constant_of_another_shape_or_type_is_refused(data: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"c: expected data int8\[4\]"):
        Tensor("c", (4,), np.dtype(np.int8), data)


def test_unpaired_scales_are_refused() -> None:
    with pytest.raises(ValueError, match="2 scales but 1 zero points"):
        Quantization((0.5, 0.25), (0,))
