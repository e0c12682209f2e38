"""Types of few bits: BFLOAT16, real numbers of 8 and 4 bits, integers of 4 and 2 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ml_dtypes")

import ml_dtypes
import onnx
from in_turn import devices
from onnx import TensorProto, helper, numpy_helper
from onnx_net import element, model, op
from onnx_oracle import actual, check, expected, operations

from nnvk.importers.onnx import OnnxImportError, load
from nnvk.importers.onnx.narrow import narrow_of
from nnvk.ops.extension.round_float import Overflow

F = np.float32
REALS = {
    "BFLOAT16": "bfloat16",
    "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
}

CASTS = [(1, name) for name in REALS] + [(0, name) for name in REALS if name != "BFLOAT16"]


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def net(nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: dict[str, int], constants: Any = ()) -> Any:
    graph = helper.make_graph(
        nodes,
        "narrow",
        [helper.make_tensor_value_info(name, element(one.dtype), one.shape) for name, one in inputs.items()],
        [helper.make_tensor_value_info(name, type_, None) for name, type_ in outputs.items()],
        list(constants),
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    made.ir_version = 10
    return made


@pytest.mark.parametrize("saturate, name", CASTS)
def test_casts_there_and_back(saturate: int, name: str) -> None:
    """They round as onnxruntime does, beyond the largest number too."""
    x = np.ldexp(drawn(2000), np.random.default_rng(1).integers(-20, 20, 2000)).astype(F)
    if name == "FLOAT8E5M2" and not saturate:
        x = x[(np.abs(x) < 61440) | (np.abs(x) >= 65536)]  # onnxruntime gives NaN between, infinity beyond
    nodes = [op("Cast", "x", "n", to=TensorProto.DataType.Value(name), saturate=saturate), op("Cast", "n", "y", to=1)]
    found = net(nodes, {"x": x}, {"y": TensorProto.FLOAT})
    imported = load(found.SerializeToString())
    for device in devices():
        np.testing.assert_array_equal(actual(imported, {"x": x}, device)[0], expected(found, {"x": x})[0])
    assert operations(imported) == ["ROUND_FLOAT"]


@pytest.mark.parametrize("name", REALS)
def test_inputs_and_outputs(name: str) -> None:
    dtype = np.dtype(REALS[name])
    x = drawn(3, 5).astype(dtype)
    imported = load(net([op("Relu", "x", "y")], {"x": x}, {"y": element(dtype)}).SerializeToString())
    assert imported.inputs[0].dtype == imported.outputs[0].dtype == dtype
    for device in devices():
        (y,) = actual(imported, {"x": x}, device)
        assert y.dtype == dtype
        assert np.array_equal(y.astype(F), np.maximum(x.astype(F), 0))


def weights(dtype: str, *shape: int) -> np.ndarray:
    info = ml_dtypes.iinfo(dtype)
    return np.random.default_rng(3).integers(int(info.min), int(info.max) + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("has_points", [False, True])
def test_weights_in_blocks(has_points: bool, dtype: str) -> None:
    w, scales = weights(dtype, 64, 24), np.abs(drawn(4, 24, seed=1))
    points = weights(dtype, 4, 24)
    constants = [numpy_helper.from_array(one, name) for name, one in (("w", w), ("s", scales), ("z", points))]
    names = "w s z" if has_points else "w s"
    # Abs lies between, because onnxruntime rounds the rows of a product of 4-bit weights to 8 bits.
    nodes = [op("DequantizeLinear", names, "r", axis=0, block_size=16), op("Abs", "r", "a"), op("MatMul", "x a", "y")]
    x = drawn(3, 64, seed=2)
    check(net(nodes, {"x": x}, {"y": TensorProto.FLOAT}, constants), {"x": x}, tolerance=2e-6)


@pytest.mark.parametrize("kind", ["MatMul", "MatMul of Transpose", "Gemm", "Gemm, transB"])
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("has_points", [False, True])
def test_weights_in_blocks_stay_4_bits(has_points: bool, dtype: str, kind: str) -> None:
    """Results are those of the unpacked weights; onnxruntime rounds the rows of such products to 8 bits."""
    by_row = kind in ("MatMul of Transpose", "Gemm, transB")
    units = 24 if kind != "MatMul of Transpose" else 400  # a small constant is transposed at once
    w, scales, points = weights(dtype, 60, units), np.abs(drawn(4, units, seed=1)), weights(dtype, 4, units)
    real = w.astype(F) - (np.repeat(points.astype(F), 16, 0)[:60] if has_points else 0)
    real *= np.repeat(scales, 16, 0)[:60]
    arrays = {"w": w, "s": scales, "z": points, "b": drawn(units, seed=4)}
    laid = {name: np.ascontiguousarray(one.T) if by_row else one for name, one in arrays.items()}
    constants = [numpy_helper.from_array(one, name) for name, one in laid.items()]
    nodes = [op("DequantizeLinear", "w s z" if has_points else "w s", "r", axis=int(by_row), block_size=16)]
    if kind.startswith("Gemm"):
        nodes.append(op("Gemm", "x r b", "y", transB=int(by_row)))
    else:
        nodes += [op("Transpose", "r", "t", perm=[1, 0])] * by_row + [op("MatMul", "x t" if by_row else "x r", "y")]
    x = drawn(3, 60, seed=2)
    imported = load(net(nodes, {"x": x}, {"y": TensorProto.FLOAT}, constants).SerializeToString())
    assert operations(imported) == ["BLOCK_QUANTIZED_FULLY_CONNECTED"]
    want = x.astype(np.float64) @ real + (arrays["b"] if kind.startswith("Gemm") else 0)
    for device in devices():
        (y,) = actual(imported, {"x": x}, device)
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_levels_are_rounded_and_saturate(dtype: str) -> None:
    x = 8 * drawn(40)
    constants = [numpy_helper.from_array(np.array(0.5, F), "s"), numpy_helper.from_array(np.array(3, dtype), "z")]
    nodes = [op("QuantizeLinear", "x s z", "q"), op("DequantizeLinear", "q s z", "y")]
    check(net(nodes, {"x": x}, {"y": TensorProto.FLOAT}, constants), {"x": x}, tolerance=0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "int4", "uint2"])
def test_constants_beside_the_model(tmp_path: Path, dtype: str) -> None:
    w = weights(dtype, 3, 7) if "int" in dtype else drawn(3, 7).astype(dtype)
    tensor = numpy_helper.from_array(w, "w")
    nbytes = len(tensor.raw_data)
    (tmp_path / "weights").write_bytes(b"\0" * 16 + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "weights", "offset": "16", "length": str(nbytes)}.items():
        tensor.external_data.add(key=key, value=value)
    x = drawn(3, 7)
    made = net([op("Cast", "w", "r", to=1), op("Add", "x r", "y")], {"x": x}, {"y": TensorProto.FLOAT}, [tensor])
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    for device in devices():
        assert np.array_equal(actual(load(path), {"x": x}, device)[0], x + w.astype(F))


def test_too_few_bytes() -> None:
    tensor = numpy_helper.from_array(weights("int4", 5), "w")
    tensor.raw_data = tensor.raw_data[:-1]
    made = net([op("Cast", "w", "r", to=1), op("Add", "x r", "y")], {"x": drawn(5)}, {"y": TensorProto.FLOAT}, [tensor])
    with pytest.raises(OnnxImportError, match="needs 3 bytes, it has 2"):
        load(made.SerializeToString())


def test_a_model_of_bfloat16_is_computed_in_float32() -> None:
    """Only outputs are rounded, as those of FLOAT16 are."""
    x, w = drawn(4, 6).astype("bfloat16"), drawn(6, 5, seed=1).astype("bfloat16")
    nodes = [op("MatMul", "x w", "m"), op("Softmax", "m", "y")]
    made = net(nodes, {"x": x}, {"y": TensorProto.BFLOAT16}, [numpy_helper.from_array(w, "w")])
    product = x.astype(F) @ w.astype(F)
    power = np.exp(product - product.max(-1, keepdims=True))
    wanted = power / power.sum(-1, keepdims=True)
    for device in devices():
        (y,) = actual(load(made.SerializeToString()), {"x": x}, device)
        assert y.dtype == np.dtype("bfloat16")
        np.testing.assert_allclose(y.astype(F), wanted, rtol=2**-8)


def test_plain_models_have_no_such_types() -> None:
    imported = load(model([op("Relu", "x", "y")], {"x": (F, [2])}, ["y"]).SerializeToString())
    assert imported.inputs[0].array_type is None


def test_formats() -> None:
    """They are those of ml_dtypes; a file has each element in as many bits."""
    real = [*REALS.values(), "float4_e2m1fn"]
    for name in real:
        narrow, info = narrow_of(np.dtype(getattr(ml_dtypes, name))), ml_dtypes.finfo(name)
        assert narrow is not None and narrow.format is not None
        assert narrow.carrier == F
        found = narrow.format.mantissa_bits, narrow.format.least_exponent, narrow.format.largest, narrow.bits
        assert found == (info.nmant, info.minexp, float(info.max), info.bits), name
        beyond = np.array([1e38], F).astype(narrow.dtype).astype(F)[0] if name != "bfloat16" else np.inf
        kinds = {Overflow.INFINITY: np.isinf(beyond), Overflow.NAN: np.isnan(beyond), Overflow.SATURATE: beyond == 6}
        assert kinds[narrow.format.overflow], name
    for name, limits in {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}.items():
        narrow = narrow_of(np.dtype(getattr(ml_dtypes, name)))
        assert narrow is not None and narrow.format is None
        assert (narrow.limits, narrow.bits, narrow.carrier.itemsize) == (limits, int(name[-1]), 1)
    assert narrow_of(np.dtype(F)) is None
