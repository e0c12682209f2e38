"""Tensors of onnxruntime whose elements share a byte, as inputs, outputs and weights of parts."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, load, numpy_helper
from ort_session import ort, parts, provider, session

from nnvk.importers.onnx.stored import StoredTensor, stored_bytes

_SHAPE = (3, 5)
_NUMBERS = {
    "INT4": np.arange(-8, 7),
    "UINT4": np.arange(15),
    "INT2": np.arange(15) % 4 - 2,
    "UINT2": np.arange(15) % 4,
    "FLOAT4E2M1": np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6]),
    "FLOAT8E8M0": 2.0 ** np.arange(-7, 8),
}
"""Numbers of each type; FLOAT8E8M0 is one of those whose number in onnxruntime is not ONNX's."""


def _array(name: str) -> np.ndarray:
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))
    return _NUMBERS[name].reshape(_SHAPE).astype(np.float32).astype(dtype)


def _model(
    nodes: Any, inputs: dict[str, int], outputs: dict[str, int], constants: Any = (), shapes: Any = None
) -> bytes:
    """A model of one node, or of several."""
    sizes = shapes or {}
    edges = [[helper.make_tensor_value_info(name, type_, sizes.get(name, _SHAPE)) for name, type_ in side.items()]
             for side in (inputs, outputs)]  # fmt: skip
    graph = helper.make_graph(nodes if isinstance(nodes, list) else [nodes], "graph", *edges, constants)
    made: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12)
    return made.SerializeToString()


def _value(array: np.ndarray) -> Any:
    tensor = numpy_helper.from_array(array)
    value = ort.OrtValue.ortvalue_from_shape_and_type(array.shape, tensor.data_type)
    ctypes.memmove(value.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return value


def _elements(value: Any) -> np.ndarray:
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    array: np.ndarray = numpy_helper.to_array(
        TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=data)
    )
    return array


@pytest.mark.parametrize("name", _NUMBERS)
def test_input_of_type(name: str) -> None:
    if name == "FLOAT8E8M0" and tuple(map(int, ort.__version__.split(".")[:2])) < (1, 27):
        pytest.skip("onnxruntime has FLOAT8E8M0 from 1.27 on")
    array = _array(name)
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    made = session(_model(node, {"x": getattr(TensorProto, name)}, {"y": TensorProto.FLOAT}), take_all="1")
    assert parts(made) == [["Cast"]]
    for given in array, array[::-1].copy():  # the second run has a bound execution
        (got,) = made.run_with_ort_values(None, {"x": _value(given)})
        np.testing.assert_array_equal(got.numpy(), given.astype(np.float32))


@pytest.mark.parametrize("name", [name for name in _NUMBERS if name != "FLOAT8E8M0"])
def test_output_of_type(name: str) -> None:
    array = _array(name)
    node = helper.make_node("Cast", ["x"], ["y"], to=getattr(TensorProto, name))
    made = session(_model(node, {"x": TensorProto.FLOAT}, {"y": getattr(TensorProto, name)}), take_all="1")
    assert parts(made) == [["Cast"]]
    for given in array, array[::-1].copy():
        (got,) = made.run_with_ort_values(None, {"x": _value(given.astype(np.float32))})
        np.testing.assert_array_equal(_elements(got).astype(np.float32), given.astype(np.float32))


@pytest.mark.parametrize("name", [name for name in _NUMBERS if name != "FLOAT8E8M0"])
def test_weights_of_type(name: str) -> None:
    array = _array(name)
    node = helper.make_node("DequantizeLinear", ["w", "scale"], ["y"], axis=1)
    scale = np.array([0.5, 1, 2, 4, 8], np.float32)
    graph = {"scale": TensorProto.FLOAT}, {"y": TensorProto.FLOAT}
    made = session(_model(node, *graph, [numpy_helper.from_array(array, "w")], {"scale": (5,)}), values_at_run="1")
    assert parts(made) == [["DequantizeLinear"]]
    (got,) = made.run(None, {"scale": scale})
    np.testing.assert_array_equal(got, array.astype(np.float32) * scale)


@pytest.mark.parametrize("name", ["INT4", "UINT4"])
def test_part_that_is_not_saved(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A part with such an edge has its nodes in the compiled model: onnxruntime could not load an EPContext node."""
    path, type_ = tmp_path / "compiled.onnx", getattr(TensorProto, name)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Cast", ["t"], ["y"], to=TensorProto.FLOAT),
        helper.make_node("Softmax", ["a"], ["b"]),
    ]
    dtypes = {"x": type_, "a": TensorProto.FLOAT}, {"y": TensorProto.FLOAT, "b": TensorProto.FLOAT}
    model = _model(nodes, *dtypes, shapes={"y": _SHAPE[::-1]})
    options = _compiling(path)
    options.log_severity_level = 2
    made = ort.InferenceSession(model, options, enable_fallback=0)
    assert f"no elements of ONNX's type {type_}, which 'x' has" in capfd.readouterr().err
    assert parts(made) == [["Softmax"]]
    assert sorted(node.op_type for node in load(path).graph.node) == ["Cast", "EPContext", "Transpose"]
    feed = {"x": _value(_array(name)), "a": ort.OrtValue.ortvalue_from_numpy(np.ones(_SHAPE, np.float32))}
    for one in made, session(path.read_bytes()):
        got = [value.numpy() for value in one.run_with_ort_values(None, feed)]
        np.testing.assert_array_equal(got[0], _array(name).astype(np.float32).T)
        np.testing.assert_allclose(got[1], np.full(_SHAPE, 0.2), rtol=1e-6)


@pytest.mark.parametrize("name", ["INT4", "UINT2", "FLOAT4E2M1"])
def test_such_an_edge_inside_a_part_is_saved(name: str, tmp_path: Path) -> None:
    path = tmp_path / "compiled.onnx"
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], to=getattr(TensorProto, name)),
        helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    model = _model(nodes, {"x": TensorProto.FLOAT}, {"y": TensorProto.FLOAT})
    assert parts(ort.InferenceSession(model, _compiling(path), enable_fallback=0)) == [["Cast", "Cast"]]
    array = _array(name).astype(np.float32)
    np.testing.assert_array_equal(session(path.read_bytes()).run(None, {"x": array})[0], array)


def _compiling(path: Path) -> Any:
    """The options of a session that writes a compiled model."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    provider.record_assignment(options)
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_embed_mode", "1")
    options.add_session_config_entry("ep.context_file_path", str(path))
    provider.register()
    options.add_provider_for_devices(provider.devices(), {"take_all": "1"})
    return options


@pytest.mark.parametrize("name", ["INT4", "UINT2"])
def test_output_whose_shape_comes_at_run(name: str) -> None:
    """The elements are in the server's reply."""
    array, type_ = _array(name), getattr(TensorProto, name)
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    graph = {"x": type_, "shape": TensorProto.INT64}, {"y": type_}
    made = session(_model(node, *graph, shapes={"shape": (2,), "y": (None, None)}), take_all="1", values_at_run="1")
    assert parts(made) == [["Reshape"]]
    shape = ort.OrtValue.ortvalue_from_numpy(np.array([5, 3]))
    (got,) = made.run_with_ort_values(None, {"x": _value(array), "shape": shape})
    np.testing.assert_array_equal(_elements(got).astype(np.float32), array.reshape(5, 3).astype(np.float32))


@pytest.mark.parametrize("name", _NUMBERS)
@pytest.mark.parametrize("shape", [(15,), (3, 5), (7, 2), (1,), ()], ids=str)
def test_stored_tensor(name: str, shape: tuple[int, ...]) -> None:
    array = np.resize(_array(name), shape)
    memory = memoryview(bytearray(stored_bytes(array.dtype, shape)))
    tensor = StoredTensor(memory, array.dtype, shape)
    tensor.write(array)
    assert bytes(memory) == numpy_helper.from_array(array).raw_data
    np.testing.assert_array_equal(tensor.read().astype(np.float32), array.astype(np.float32))
