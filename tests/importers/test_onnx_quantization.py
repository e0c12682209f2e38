"""QuantizeLinear, DequantizeLinear and what surrounds products with them, against onnxruntime, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import check, operations

from nnvk.importers.onnx import OnnxImportError, load

F, H = np.float32, np.float16
_SPECIAL = [np.nan, np.inf, -np.inf, 1e30, 3e9, -1e10]
TIES = np.concatenate([_SPECIAL, np.arange(-300, 300) / 8]).astype(F)
"""Half of them as near to one step of 1/4, 1/2 or 1 as to the next."""


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize(("scale", "point"), [(1, 0), (0.5, 3), (0.25, 5)])
@pytest.mark.parametrize("real", [F, H])
def test_ties_go_to_the_even_step(dtype: Any, scale: float, point: int, real: Any) -> None:
    constants = {"s": np.array(scale, real), "z": np.array(point, dtype)}
    net = model([op("QuantizeLinear", "x s z", "y")], {"x": (real, TIES.shape)}, ["y"], constants, opset=21)
    with np.errstate(over="ignore"):
        imported = check(net, {"x": TIES.astype(real)})
    assert ("QUANTIZE_TIES_TO_EVEN" in operations(imported)) == (np.dtype(dtype).itemsize == 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_ties_of_channels(dtype: Any) -> None:
    constants = {"s": np.array([1, 0.5, 0.25], F), "z": np.array([0, 3, 7], dtype)}
    x = np.stack([TIES, TIES, TIES])
    net = model([op("QuantizeLinear", "x s z", "y", axis=0)], {"x": (F, x.shape)}, ["y"], constants)
    check(net, {"x": x})


def test_ties_at_scales_that_the_model_gets() -> None:
    inputs = {"x": (F, TIES.shape), "s": (F, []), "z": (np.int8, [])}
    net = model([op("QuantizeLinear", "x s z", "y")], inputs, ["y"])
    check(net, {"x": TIES, "s": np.array(0.25, F), "z": np.array(-3, np.int8)})


@pytest.mark.parametrize("given", ["s", "z"])
def test_ties_where_the_model_gets_scale_or_zero_point(given: str) -> None:
    numbers = {"s": np.array(0.25, F), "z": np.array(-3, np.int8)}
    feeds = {"x": TIES, given: numbers.pop(given)}
    inputs = {name: (array.dtype, array.shape) for name, array in feeds.items()}
    check(model([op("QuantizeLinear", "x s z", "y")], inputs, ["y"], numbers), feeds)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("given", ["w b", "w", "b"])
def test_a_convolution_of_steps_of_which_the_model_gets_more(given: str, rank: int) -> None:
    """It is computed in real numbers then."""
    rng = np.random.default_rng(3)
    window = (3, 2)[:rank]
    arrays = {
        "w": rng.integers(-90, 91, (4, 3, *window)).astype(np.int8),
        "b": rng.integers(-900, 901, 4).astype(np.int32),
    }
    feeds = {"x": rng.integers(0, 256, (2, 3, 9, 7)[: 2 + rank]).astype(np.uint8)}
    feeds |= {name: arrays.pop(name) for name in given.split()}
    numbers = {"s": F(0.02), "z": np.uint8(120), "u": np.array([0.01, 0.02, 0.005, 0.01], F), "v": np.zeros(4, np.int8)}
    constants = {**arrays, **numbers, "t": F(0.3), "o": np.uint8(131)}
    inputs = {name: (array.dtype, array.shape) for name, array in feeds.items()}
    check(model([op("QLinearConv", "x s z w u v t o b", "y")], inputs, ["y"], constants), feeds, steps=1)


def test_ties_of_steps_that_data_decide() -> None:
    net = model([op("DynamicQuantizeLinear", "x", "y s z")], {"x": (F, [8])}, ["y", "s", "z"])
    check(net, {"x": np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 200, -55], F)})


@pytest.mark.parametrize(("size", "parts"), [(300, 1), (700, 2), (1500, 3)])
def test_dynamic_quantisation(size: int, parts: int) -> None:
    """As onnxruntime's quantiser writes it. Long sums are made of several in FLOAT32, and keep their bits."""
    rng = np.random.default_rng(size)
    constants = {
        "w": rng.integers(100, 128, (size, 5)).astype(np.int8),
        **{"v": np.int8(0), "c": F(0.013), "b": rng.standard_normal(5).astype(F)},
    }
    nodes = [
        op("DynamicQuantizeLinear", "x", "q s z"),
        op("MatMulInteger", "q w z v", "i"),
        op("Cast", "i", "r", to=1),
        op("Mul", "s c", "f"),
        op("Mul", "r f", "m"),
        op("Add", "m b", "y"),
    ]
    x = rng.uniform(-0.1, 3, (3, size)).astype(F)
    imported = check(model(nodes, {"x": (F, [3, size])}, ["y"], constants), {"x": x}, steps=0)
    codes = operations(imported)
    assert codes[0] == "DYNAMIC_QUANTIZE" and codes.count("FULLY_CONNECTED") == parts
    assert ("CAST" in codes) == (parts > 2)


def test_dynamic_quantisation_of_an_image_whose_levels_others_read_too() -> None:
    rng = np.random.default_rng(5)
    constants = {"w": rng.integers(-127, 128, (4, 3, 3, 2)).astype(np.int8)}
    nodes = [
        op("DynamicQuantizeLinear", "x", "q s z"),
        op("ConvInteger", "q w z", "i", pads=[1, 0, 2, 1]),
        op("DequantizeLinear", "q s z", "d"),
    ]
    net = model(nodes, {"x": (F, [2, 3, 7, 5])}, ["i", "d", "q", "s", "z"], constants)
    check(net, {"x": rng.normal(0.4, 2, (2, 3, 7, 5)).astype(F)}, steps=0)


def test_ties_behind_steps_and_operators_on_steps() -> None:
    """From one scale to another, and what com.microsoft's operators give."""
    steps = np.arange(256).astype(np.uint8)
    constants = {"a": F(0.125), "b": F(0.25), "z": np.uint8(3), "c": F(0.5)}
    nodes = [
        op("DequantizeLinear", "x a z", "r"),
        op("QuantizeLinear", "r b z", "y"),
        op("QLinearLeakyRelu", "x a z c z", "l", domain="com.microsoft", alpha=0.5),
    ]
    net = model(nodes, {"x": (np.uint8, [256])}, {"y": None, "l": None}, constants)
    net.opset_import.add(domain="com.microsoft", version=1)
    check(net, {"x": steps})


def test_blocks_that_become_one_operation_stay_one() -> None:
    constants = {
        "w": np.arange(-12, 12).reshape(4, 6).astype(np.int8),
        **{"s": F(0.1), "t": F(0.2), "u": F(0.9)},
        **{"z": np.uint8(9), "n": np.int8(0), "o": np.uint8(100)},
    }
    nodes = [
        op("QuantizeLinear", "x s z", "q"),
        op("DequantizeLinear", "q s z", "d"),
        op("DequantizeLinear", "w t n", "e"),
        op("MatMul", "d e", "m"),
        op("QuantizeLinear", "m u o", "y"),
    ]
    net = model(nodes, {"x": (F, [3, 4])}, ["y"], constants)
    imported = check(net, {"x": np.random.default_rng(0).standard_normal((3, 4)).astype(F)}, steps=1)
    assert operations(imported) == ["QUANTIZE_TIES_TO_EVEN", "FULLY_CONNECTED"]


# --- blocks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["x", "x s z", "", "s z"])
@pytest.mark.parametrize(
    ("shape", "axis", "size"), [((3, 4), 1, 2), ((3, 5), -1, 2), ((7, 2, 3), 0, 3), ((6,), 0, 2), ((2, 3), 1, 1)]
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("kind", ["DequantizeLinear", "QuantizeLinear"])
def test_blocks(kind: str, dtype: Any, shape: tuple[int, ...], axis: int, size: int, given: str) -> None:
    """``given``: the inputs of the node that are inputs of the model; the others are constants."""
    rng = np.random.default_rng(0)
    blocks = list(shape)
    blocks[axis] = -(-blocks[axis] // size)
    arrays = {
        "x": rng.integers(-9, 9, shape).astype(dtype) if kind[0] == "D" else (4 * rng.standard_normal(shape)).astype(F),
        "s": rng.choice(np.array([0.25, 0.5, 1], F), blocks),
        "z": rng.integers(0, 9, blocks).astype(dtype),
        "one": np.array(1, F),
    }
    nodes = [op(kind, "x s z", "r", axis=axis, block_size=size)]
    nodes += [op("Add", "r one", "y") if kind[0] == "D" else op("Identity", "r", "y")]
    inputs = {name: (array.dtype, array.shape) for name, array in arrays.items() if name in given.split()}
    if not given:  # a model has an input
        inputs["one"] = (F, [])
        nodes += [op("Identity", "one", "v")]
    outputs = ["y"] if given else ["y", "v"]
    constants = {name: array for name, array in arrays.items() if name not in inputs}
    check(model(nodes, inputs, outputs, constants, opset=21), {name: arrays[name] for name in inputs})


def test_blocks_of_a_wrong_shape_are_refused() -> None:
    constants = {"s": np.ones((3, 3), F)}
    net = model(
        [op("DequantizeLinear", "x s", "y", block_size=2)], {"x": (np.int8, [3, 4])}, ["y"], constants, opset=21
    )
    with pytest.raises(
        OnnxImportError, match=r"scales of blocks of 2 along axis 1 must have shape \[3, 2\], got \[3, 3\]"
    ):
        load(net.SerializeToString())


def test_constants_of_channels() -> None:
    constants = {"c": 9 * TIES[6:12].reshape(2, 3), "s": np.array([1, 0.5, 0.25], F), "z": np.array([1, 2, 3], np.int8)}
    nodes = [op("QuantizeLinear", "c s z", "q", axis=1), op("Cast", "q", "r", to=1), op("Add", "r x", "y")]
    check(model(nodes, {"x": (F, [1])}, ["y"], constants), {"x": np.ones(1, F)})
