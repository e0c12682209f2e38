"""Models of FLOAT16 in ONNX: what leaves its range between operators, as onnxruntime computes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_turn import devices
from onnx_net import model, op, subgraph
from onnx_oracle import actual, check, expected

from nnvk import OperandCode
from nnvk.importers.onnx import load

F, H = np.float32, np.float16
_AXIS = {"axes": np.array([-1])}

CHAINS: Mapping[str, tuple[list[Any], Mapping[str, np.ndarray]]] = {
    "norm": (
        [op("Mul", "x x", "s"), op("ReduceSum", "s axes", "t"), op("Sqrt", "t", "r"), op("Div", "x r", "y")],
        _AXIS,
    ),
    "root mean square": (
        [
            op("Pow", "x two", "s"),
            op("ReduceMean", "s axes", "m"),
            op("Sqrt", "m", "r"),
            op("Reciprocal", "r", "q"),
            op("Mul", "x q", "y"),
        ],
        {**_AXIS, "two": np.array(2, H)},
    ),
    "layer normalisation": (
        [
            op("ReduceMean", "x axes", "m"),
            op("Sub", "x m", "d"),
            op("Pow", "d two", "s"),
            op("ReduceMean", "s axes", "v"),
            op("Add", "v small", "e"),
            op("Sqrt", "e", "r"),
            op("Div", "d r", "y"),
        ],
        {**_AXIS, "two": np.array(2, H), "small": np.array(1e-5, H)},
    ),
    "softmax": (
        [op("Exp", "x", "e"), op("ReduceSum", "e axes", "s"), op("Div", "e s", "p"), op("Mul", "p k", "y")],
        {**_AXIS, "k": np.array(0.5, H)},
    ),
    "scores": (
        [
            op("Transpose", "x", "t", perm=[0, 2, 1]),
            op("MatMul", "x t", "s"),
            op("Reshape", "s shape", "f"),
            op("Mul", "f k", "d"),
            op("Softmax", "d", "y", axis=-1),
        ],
        {"shape": np.array([1, 4, 4]), "k": np.array(1e-4, H)},
    ),
    "a sum and its mean": ([op("ReduceSum", "x axes", "s"), op("Mul", "s k", "y")], {**_AXIS, "k": np.array(0.01, H)}),
    "a product and a clip": (
        [op("Gemm", "f w", "g"), op("Relu", "g", "r"), op("Clip", "r low high", "c"), op("Sqrt", "c", "y")],
        {"w": np.full((64, 3), 40, H), "low": np.array(0, H), "high": np.array(6e4, H)},
    ),
    "a convolution and its scale": (
        [op("Conv", "x4 w", "c", kernel_shape=[1, 1]), op("Mul", "c k", "y")],
        {"w": np.full((3, 4, 1, 1), 300, H), "k": np.array(1e-3, H)},
    ),
    "concatenated": (
        [op("Mul", "x x", "s"), op("Concat", "s x", "c", axis=-1), op("Mul", "c k", "y")],
        {"k": np.array(1e-3, H)},
    ),
    "a cast": ([op("Mul", "x x", "s"), op("Cast", "s", "y", to=1)], {}),
}


@pytest.mark.parametrize("name", CHAINS)
def test_what_leaves_the_range_between_operators(name: str) -> None:
    nodes, constants = CHAINS[name]
    x = np.random.default_rng(1).uniform(200, 900, (1, 4, 64)).astype(H)
    if name == "softmax":
        x = np.random.default_rng(1).uniform(10, 14, (1, 4, 64)).astype(H)
    read = {one for node in nodes for one in node.input}
    shapes = {"x": (1, 4, 64), "f": (4, 64), "x4": (1, 4, 8, 8)}
    inputs = {one: (H, list(shape)) for one, shape in shapes.items() if one in read and one not in constants}
    inputs = {one: given for one, given in inputs.items() if not any(one in node.output for node in nodes)}
    net = model(nodes, inputs, ["y"], dict(constants), opset=18)
    feeds = {one: x.reshape(shapes[one]) for one in inputs}
    assert np.isfinite(expected(net, feeds)[0]).all()
    check(net, feeds, tolerance=1e-3)


def test_only_inputs_and_outputs_are_of_16_bits() -> None:
    net = model([op("Identity", "x", "y"), op("Mul", "x w", "z")], {"x": (H, [2, 3, 2, 2, 5])}, ["y", "z"], {"w": H(3)})
    imported = check(net, {"x": np.arange(120, dtype=H).reshape(2, 3, 2, 2, 5)}, tolerance=0)
    ports = [*imported.inputs, *imported.outputs]
    assert {port.type.code for port in ports} == {OperandCode.TENSOR_FLOAT16}
    assert {port.dtype for port in ports} == {np.dtype(H)}


@pytest.mark.parametrize("after", [op("Cast", "h", "y", to=1), op("Sqrt", "h", "y"), op("Identity", "h", "y")])
@pytest.mark.parametrize("dtype", [F, np.int32])
def test_a_cast_rounds_where_another_one_follows(dtype: Any, after: Any) -> None:
    """Other operators take the numbers as they are; an output of the model is rounded."""
    net = model([op("Cast", "x", "h", to=10), after], {"x": (dtype, [3])}, ["y"])
    feeds = {"x": np.array([2049, 70000, 7], dtype)}
    (wanted,) = expected(net, feeds)
    for device in devices():
        (given,) = actual(load(net.SerializeToString()), feeds, device)
        assert given.dtype == wanted.dtype
        np.testing.assert_array_equal(given, wanted)


def test_what_is_infinite_in_16_bits() -> None:
    nodes = [op("Mul", "x x", "s"), op("IsInf", "s", "y"), op("IsInf", "s", "z", detect_positive=0)]
    net = model(nodes, {"x": (H, [3])}, ["y", "z"], opset=20)
    feeds = {"x": np.array([255, 256, -300], H)}
    for device in devices():
        for one, other in zip(actual(load(net.SerializeToString()), feeds, device), expected(net, feeds), strict=True):
            np.testing.assert_array_equal(one, other)


def test_branches() -> None:
    branches = {
        "then_branch": subgraph([op("Mul", "s k", "o")], ["o"], types={"o": (H, [3])}),
        "else_branch": subgraph([op("Neg", "s", "o")], ["o"], types={"o": (H, [3])}),
    }
    nodes = [op("Mul", "x x", "s"), op("If", "f", "b", **branches), op("Mul", "b k", "y")]
    net = model(nodes, {"x": (H, [3]), "f": (np.bool_, [1])}, ["y"], {"k": H(0.25)})
    check(net, {"x": np.array([1, 2, 200], H), "f": np.array([True])}, tolerance=0)
