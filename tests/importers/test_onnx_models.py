"""Models in ONNX against onnxruntime: layouts, quantisation, sequences, control flow; their edge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
from onnx import helper, numpy_helper
from onnx_net import model, op, subgraph
from onnx_oracle import DEVICES, actual, check, expected, operations

from nnvk import NnapiError, OperandCode
from nnvk.importers.onnx import OnnxImportError, load, supported_operators
from nnvk.types.model import Lifetime

F = np.float32


def drawn(*shape: int, seed: int = 0, dtype: Any = F) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# --- the edge ------------------------------------------------------------------------------------------------


def test_inputs_and_outputs_have_the_types_of_the_file() -> None:
    net = model(
        [op("ArgMax", "x", "place", axis=1, keepdims=0), op("Cast", "place", "small", to=2)],
        {"x": (np.float64, ["batch", 5])},
        ["place", "small"],
    )
    imported = check(net, {"x": drawn(3, 5, dtype=np.float64)}, shapes={"x": (3, 5)})
    (x,) = imported.inputs
    assert (x.name, x.dtype, x.shape, x.signature, x.file_type) == ("x", np.float64, (3, 5), (-1, 5), "FLOAT64")
    assert x.type.code is OperandCode.TENSOR_FLOAT32
    assert [port.dtype for port in imported.outputs] == [np.int64, np.uint8]


def test_a_whole_number_of_more_than_32_bits_is_refused_when_it_comes() -> None:
    imported = load(model([op("Abs", "x", "y")], {"x": (np.int64, [1])}, ["y"]).SerializeToString())
    with pytest.raises(NnapiError, match="must have values of 32 bits"):
        imported.encode([np.array([1 << 40])])


def test_sizes_of_one_name_are_one_size() -> None:
    net = model([op("Add", "a b", "y")], {"a": (F, ["n", 3]), "b": (F, ["n", 3])}, ["y"])
    imported = check(net, {"a": drawn(7, 3), "b": drawn(7, 3, seed=1)}, shapes={"a": (7, 3)})
    assert imported.inputs[1].shape == (7, 3)
    assert load(net.SerializeToString()).inputs[0].shape == (1, 3)


def test_constants_are_no_inputs() -> None:
    net = model([op("ReduceSum", "x axes", "y")], {"x": (F, [2, 3, 4]), "axes": (np.int64, [1])}, ["y"])
    data = net.SerializeToString()
    hint = r"'axes' is not known at import, --constant or load\(\.\.\., constants="
    with pytest.raises(OnnxImportError, match=hint) as raised:
        load(data)
    assert raised.value.unknown == ("axes",)
    imported = load(data, constants={"axes": [1]})
    assert [port.name for port in imported.inputs] == ["x"]
    x = drawn(2, 3, 4)
    np.testing.assert_allclose(actual(imported, {"x": x}, "vulkan-0")[0], x.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"other": [1]}, "no input of the model is called 'other'"),
        ({"axes": [1, 2]}, r"'axes' must be int64 \[1\], got int64 \[2\]"),
        ({"axes": np.zeros(1, F)}, "'axes' must be int64"),
        ({"axes": [0.5]}, "'axes' must be int64"),
    ],
)
def test_constants_that_do_not_fit(constants: dict[str, Any], message: str) -> None:
    net = model([op("ReduceSum", "x axes", "y")], {"x": (F, [2, 3]), "axes": (np.int64, [1])}, ["y"])
    with pytest.raises(NnapiError, match=message):
        load(net.SerializeToString(), constants=constants)


def test_operations_know_their_nodes() -> None:
    net = model([op("Exp", "x", "e", name="first"), op("Neg", "e", "y")], {"x": (F, [3])}, ["y"])
    imported = load(net.SerializeToString())
    known = [(one.number, one.operator, one.name) for one in imported.sources if one is not None]
    assert known[:2] == [(0, "Exp", "first"), (1, "Neg", "y")]
    assert {"x", "e", "y"} <= imported.tensors.keys()


@pytest.mark.parametrize("opset", range(11, 22))
def test_opsets(opset: int) -> None:
    axes = "axes" if opset >= 13 else None
    squeeze = op("Squeeze", f"p {axes}", "s") if axes else op("Squeeze", "p", "s", axes=[2, 3])
    nodes = [
        op("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        op("Relu", "c", "r"),
        op("GlobalAveragePool", "r", "p"),
        squeeze,
        op("Softmax", "s", "y", axis=1),
    ]
    constants = {"w": drawn(4, 3, 3, 3), "b": drawn(4, seed=2), **({"axes": np.array([2, 3])} if axes else {})}
    check(model(nodes, {"x": (F, [2, 3, 7, 5])}, ["y"], constants, opset=opset), {"x": drawn(2, 3, 7, 5)})


def test_constants_of_one_number_are_there_once() -> None:
    nodes = [op("Sign", f"t{place}", f"t{place + 1}") for place in range(30)]  # each compares, and chooses by it
    imported = load(model(nodes, {"t0": (F, [1, 128, 2048])}, ["t30"]).SerializeToString())
    large = [
        one for one in imported.model.frozen.operands if one.lifetime is Lifetime.CONSTANT and one.value.size > 1e5
    ]
    assert len(large) == len({one.value.tobytes() for one in large}) < 8


def test_nodes_may_stand_in_any_order() -> None:
    nodes = [op("Relu", "b", "c"), op("Mul", "a a", "b"), op("Neg", "c", "y"), op("Exp", "x", "a")]
    nodes += [
        op(
            "If",
            "f",
            "z",
            then_branch=subgraph([op("Abs", "e", "o")], ["o"]),
            else_branch=subgraph([op("Neg", "e", "o")], ["o"]),
        )
    ]
    nodes += [op("Sub", "x y", "e")]
    net = model(nodes, {"x": (F, [3]), "f": (np.bool_, [1])}, ["y", "z"])
    ordered = model([nodes[place] for place in (3, 1, 0, 2, 5, 4)], {"x": (F, [3]), "f": (np.bool_, [1])}, ["y", "z"])
    feeds = {"x": drawn(3), "f": np.array([False])}
    wanted = expected(ordered, feeds)
    for one, other in zip(actual(load(net.SerializeToString()), feeds, "vulkan-0"), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("dtype", [F, np.float16])
@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "Conv"])
def test_weights_that_nodes_share_are_there_once(kind: str, dtype: Any) -> None:
    size = 64
    shape, weights = ([3, size], drawn(size, size)) if kind != "Conv" else ([1, size, 2, 2], drawn(size, size, 1, 1))
    nodes = [op(kind, f"t{place} w", f"t{place + 1}") for place in range(4)]
    net = model(nodes, {"t0": (dtype, shape)}, ["t4"], {"w": (weights / 8).astype(dtype)})
    imported = check(net, {"t0": drawn(*shape).astype(dtype)}, tolerance=1e-5 if dtype is F else 1e-2)
    constants = [one for one in imported.model.frozen.operands if one.lifetime is Lifetime.CONSTANT]
    assert sum(one.value.size == size * size for one in constants) == 1


def test_weights_of_whole_numbers_that_nodes_share_are_there_once() -> None:
    """Layers of a transformer may share their weights. Two nodes have one zero point, and one has another."""
    random, size = np.random.default_rng(0), 64
    constants: dict[str, np.ndarray] = {"w": random.integers(0, 255, (size, size), np.uint8)}
    constants |= {"p": np.array(3, np.uint8), "z": np.array(100, np.uint8), "other": np.array(7, np.uint8)}
    nodes = [op("MatMulInteger", f"x w p {zero}", f"y{place}") for place, zero in enumerate(("z", "z", "other"))]
    net = model(nodes, {"x": (np.uint8, [3, size])}, [f"y{place}" for place in range(3)], constants)
    imported = check(net, {"x": random.integers(0, 255, (3, size), np.uint8)})
    kept = [one for one in imported.model.frozen.operands if one.lifetime is Lifetime.CONSTANT]
    assert sum(one.value.size == size * size for one in kept) == 2


def test_what_is_computed_at_import_counts_as_large_as_it_is() -> None:
    """40 casts of half-precision weights of 2 MB, of which the budget is 4 MB each, not 8."""
    nodes, total = [], "x"
    for place in range(40):
        nodes += [op("Cast", "w", f"c{place}", to=1), op("ReduceSum", f"c{place}", f"s{place}", keepdims=0)]
        nodes += [op("Add", f"{total} s{place}", f"t{place}")]
        total = f"t{place}"
    net = model(nodes, {"x": (F, [1])}, [total], {"w": np.ones(1 << 20, np.float16)}, opset=13)
    assert len(load(net.SerializeToString()).model.frozen.operations) == 40


# --- convolutions --------------------------------------------------------------------------------------------

CONVOLUTIONS = {
    "plain": ((1, 3, 9, 7), (5, 3, 3, 3), {}),
    "strides": ((2, 3, 11, 13), (5, 3, 3, 5), {"strides": [2, 3], "pads": [1, 2, 0, 1]}),
    "dilated": ((1, 4, 11, 13), (3, 4, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
    "depthwise": ((1, 6, 7, 7), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
    "multiplied": ((1, 3, 7, 7), (9, 1, 3, 3), {"group": 3, "strides": [2, 2]}),
    "groups": ((1, 6, 7, 7), (4, 3, 3, 3), {"group": 2}),
    "dilated groups": ((1, 6, 9, 9), (4, 3, 3, 3), {"group": 2, "dilations": [2, 2]}),
    "same upper": ((1, 3, 8, 5), (2, 3, 4, 2), {"auto_pad": "SAME_UPPER", "strides": [3, 2]}),
    "same lower": ((1, 3, 8, 5), (2, 3, 4, 2), {"auto_pad": "SAME_LOWER"}),
    "rows": ((2, 3, 17), (5, 3, 5), {"strides": [2], "pads": [3, 1]}),
    "depthwise rows": ((2, 4, 17), (4, 1, 5), {"group": 4, "dilations": [3]}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "plain"])
def test_convolution(name: str, bias: bool) -> None:
    shape, filters, attributes = CONVOLUTIONS[name]
    constants = {"w": drawn(*filters), **({"b": drawn(filters[0], seed=3)} if bias else {})}
    net = model([op("Conv", "x w b" if bias else "x w", "y", **attributes)], {"x": (F, shape)}, ["y"], constants)
    imported = check(net, {"x": drawn(*shape, seed=1)})
    assert "TRANSPOSE" not in operations(imported)


TRANSPOSED = {
    "plain": ((1, 3, 4, 5), (3, 2, 3, 3), {}),
    "strides": ((1, 3, 4, 5), (3, 2, 3, 4), {"strides": [2, 3], "pads": [1, 0, 0, 1]}),
    "output padding": ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [3, 2], "output_padding": [2, 1]}),
    "output shape": ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [3, 2], "output_shape": [10, 8]}),
    "groups": ((1, 4, 4, 5), (4, 3, 3, 3), {"group": 2, "strides": [2, 2]}),
    "dilated": ((1, 3, 4, 5), (3, 2, 3, 3), {"dilations": [2, 3]}),
    "rows": ((2, 3, 9), (3, 4, 5), {"strides": [2], "pads": [1, 2]}),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolution(name: str) -> None:
    shape, filters, attributes = TRANSPOSED[name]
    constants = {"w": drawn(*filters), "b": drawn(filters[1] * attributes.get("group", 1), seed=3)}
    net = model([op("ConvTranspose", "x w b", "y", **attributes)], {"x": (F, shape)}, ["y"], constants)
    check(net, {"x": drawn(*shape, seed=1)})


def test_batch_normalisation_goes_into_the_convolution() -> None:
    nodes = [op("Conv", "x w", "c"), op("BatchNormalization", "c s b m v", "n"), op("Relu", "n", "y")]
    numbers = {name: np.abs(drawn(5, seed=seed)) + F(0.1) for seed, name in enumerate("sbmv")}
    net = model(nodes, {"x": (F, [1, 3, 6, 6])}, ["y"], {"w": drawn(5, 3, 3, 3), **numbers})
    assert operations(check(net, {"x": drawn(1, 3, 6, 6)})) == ["CONV_2D", "RELU"]


def test_a_convolution_that_others_read_keeps_its_result() -> None:
    nodes = [op("Conv", "x w", "c"), op("BatchNormalization", "c s b m v", "n"), op("Add", "n c", "y")]
    numbers = {name: np.abs(drawn(5, seed=seed)) + F(0.1) for seed, name in enumerate("sbmv")}
    net = model(nodes, {"x": (F, [1, 3, 6, 6])}, ["y", "c"], {"w": drawn(5, 3, 3, 3), **numbers})
    check(net, {"x": drawn(1, 3, 6, 6)})


POOLS = {
    "max": ("MaxPool", (1, 3, 9, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "max ceil": ("MaxPool", (1, 3, 8, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "max rows": ("MaxPool", (2, 3, 11), {"kernel_shape": [3], "strides": [2]}),
    "max volume": ("MaxPool", (1, 2, 5, 6, 7), {"kernel_shape": [2, 3, 3], "strides": [1, 2, 2]}),
    "average": ("AveragePool", (1, 3, 9, 7), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "average counting": (
        "AveragePool",
        (1, 3, 9, 7),
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1, "strides": [2, 2]},
    ),
    "average volume": ("AveragePool", (1, 2, 5, 6, 7), {"kernel_shape": [2, 3, 2], "pads": [1, 1, 0, 0, 1, 1]}),
}


@pytest.mark.parametrize("name", POOLS)
def test_pool(name: str) -> None:
    kind, shape, attributes = POOLS[name]
    check(model([op(kind, "x", "y", **attributes)], {"x": (F, shape)}, ["y"]), {"x": drawn(*shape)})


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("negative", [0, 1])
def test_infinities_of_either_sign(positive: int, negative: int) -> None:
    x = np.array([0, np.inf, -np.inf, np.nan, 3e38, -3e38], F)
    node = op("IsInf", "x", "y", detect_positive=positive, detect_negative=negative)
    check(model([node], {"x": (F, x.shape)}, ["y"]), {"x": x})


@pytest.mark.parametrize("axis", [0, 1, 2, None])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_along_an_axis_and_all_behind_it(kind: str, axis: int | None) -> None:
    """As these operators were before version 13, where 1 is the default."""
    node = op(kind, "x", "y", **({} if axis is None else {"axis": axis}))
    check(model([node], {"x": (F, [3, 4, 5])}, ["y"], opset=11), {"x": drawn(3, 4, 5)})


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
@pytest.mark.parametrize("kind", ["Relu", "Sigmoid"])
def test_single_elements_keep_their_rank(kind: str, shape: tuple[int, ...]) -> None:
    check(model([op(kind, "x", "y")], {"x": (F, shape)}, ["y"]), {"x": drawn(*shape)})


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize(("size", "most"), [(258, 255), (259, 255), (1024, 255), (2000, 30)], ids=str)
def test_products_of_bytes_are_exact(size: int, most: int, is_constant: bool) -> None:
    """The largest that there are: their sums need more bits than FLOAT32 has."""
    feeds = {"a": np.full((3, size), 255, np.uint8), "b": np.full((size, 2), most, np.uint8)}
    feeds["a"][1, 0], feeds["b"][:, 1] = 254, 1
    constants = {"b": feeds.pop("b")} if is_constant else {}
    inputs = {name: (np.uint8, array.shape) for name, array in feeds.items()}
    check(model([op("MatMulInteger", "a b", "y")], inputs, ["y"], constants), feeds)


# Products in each window, whether the weights are constants, and their largest number: 2^24 / 255 is 65,793.
WINDOWS = [
    (258, True, 255),
    (259, True, 255),
    (1300, True, 50),
    (1316, True, 50),
    (258, False, 255),
    (2560, False, 255),
]


@pytest.mark.parametrize("products, is_constant, most", WINDOWS)
def test_convolutions_of_bytes_are_exact(products: int, is_constant: bool, most: int) -> None:
    feeds = {"x": np.full((1, products, 1, 1), 255, np.uint8), "w": np.full((2, products, 1, 1), most, np.uint8)}
    feeds["x"][0, 0], feeds["w"][1] = 254, 1
    constants = {"w": feeds.pop("w")} if is_constant else {}
    inputs = {name: (np.uint8, array.shape) for name, array in feeds.items()}
    check(model([op("ConvInteger", "x w", "y")], inputs, ["y"], constants), feeds)


# Channels, groups, height and width of the windows, and the convolutions that constant and other weights become.
LARGE_WINDOWS = [(64, 1, 3, 3, (2, 3)), (3, 1, 19, 17, (3, 4)), (2, 1, 19, 20, (3, 3)), (8, 2, 11, 9, (2, 2))]


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("channels, groups, height, width, count", LARGE_WINDOWS)
def test_large_windows_of_bytes_are_exact(
    channels: int, groups: int, height: int, width: int, count: tuple[int, int], is_constant: bool
) -> None:
    rng = np.random.default_rng(height)
    feeds = {
        "x": rng.integers(128, 256, (1, channels, 20, 21)).astype(np.uint8),
        "w": rng.integers(128, 256, (4, channels // groups, height, width)).astype(np.uint8),
    }
    constants = {"w": feeds.pop("w")} if is_constant else {}
    inputs = {name: (np.uint8, array.shape) for name, array in feeds.items()}
    node = op("ConvInteger", "x w", "y", group=groups, pads=[1, 0, 0, 1])
    imported = check(model([node], inputs, ["y"], constants), feeds)
    assert sum("CONV_2D" in name for name in operations(imported)) == count[not is_constant]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_convolutions_of_bytes_less_zero_points(dtype: Any) -> None:
    limits, rng = np.iinfo(dtype), np.random.default_rng(4)
    x, w = (rng.integers(limits.min, limits.max + 1, shape).astype(dtype) for shape in ((1, 3, 9, 8), (4, 3, 3, 2)))
    constants = {"w": w, "s": np.array(100, dtype), "t": np.array(7, dtype)}
    node = op("ConvInteger", "x w s t", "y", strides=[2, 1], pads=[1, 0, 0, 1])
    check(model([node], {"x": (dtype, x.shape)}, ["y"], constants), {"x": x})


# --- 8 bits --------------------------------------------------------------------------------------------------


def quantised_net(dtype: Any, per_channel: bool, relu: bool) -> onnx.ModelProto:
    """x, quantised, by a convolution and a pool to a matrix: QuantizeLinear and DequantizeLinear around all."""
    point = np.array(3 if dtype == np.int8 else 131, dtype)
    weights = np.random.default_rng(2).integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    scales = np.array([0.01, 0.02, 0.015, 0.005] if per_channel else 0.01, F)
    zeros = np.zeros(scales.shape, np.int8)
    bias = np.array([100, -200, 0, 50], np.int32)
    low = np.array(-128 if dtype == np.int8 else 0, dtype)
    constants = {
        **{"xs": np.array(0.02, F), "xz": point, "w": weights, "ws": scales, "wz": zeros},
        **{"b": bias, "bs": F(0.02) * scales, "bz": np.zeros(scales.shape, np.int32)},
        **{"ys": np.array(0.1, F), "yz": low if relu else point},
        **{"m": np.random.default_rng(3).integers(-127, 128, (4, 6)).astype(np.int8), "ms": np.array(0.01, F)},
        **{"mz": np.array(0, np.int8), "os": np.array(0.05, F), "flat": np.array([2, 4])},
    }
    axis = {"axis": 0} if per_channel else {}
    nodes = [
        op("QuantizeLinear", "x xs xz", "xq"),
        op("DequantizeLinear", "xq xs xz", "xd"),
        op("DequantizeLinear", "w ws wz", "wd", **axis),
        op("DequantizeLinear", "b bs bz", "bd", **axis),
        op("Conv", "xd wd bd", "c", pads=[1, 1, 1, 1]),
        *([op("Relu", "c", "r")] if relu else []),
        op("QuantizeLinear", "r ys yz" if relu else "c ys yz", "yq"),
        op("DequantizeLinear", "yq ys yz", "yd"),
        op("MaxPool", "yd", "p", kernel_shape=[5, 7]),
        op("Reshape", "p flat", "f"),
        op("DequantizeLinear", "m ms mz", "md"),
        op("MatMul", "f md", "o"),
        op("QuantizeLinear", "o os yz", "oq"),
    ]
    return model(nodes, {"x": (F, [2, 3, 5, 7])}, ["oq"], constants)


@pytest.mark.parametrize("relu", [True, False], ids=["relu", "plain"])
@pytest.mark.parametrize("per_channel", [True, False], ids=["channels", "one"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantised_model_runs_in_steps(dtype: Any, per_channel: bool, relu: bool) -> None:
    imported = check(quantised_net(dtype, per_channel, relu), {"x": drawn(2, 3, 5, 7)}, steps=1)
    assert "DEQUANTIZE" not in operations(imported)
    assert operations(imported).count("QUANTIZE_TIES_TO_EVEN") == 1
    code = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED if dtype == np.int8 else OperandCode.TENSOR_QUANT8_ASYMM
    assert imported.outputs[0].type.code is code
    assert (imported.outputs[0].scale, imported.outputs[0].dtype) == (pytest.approx(0.05), dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_qlinear_operators(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    limits = np.iinfo(dtype)
    point = np.array(0 if dtype == np.int8 else 128, dtype)
    constants = {
        **{"s": np.array(0.02, F), "z": point, "ws": np.array(0.01, F), "t": np.array(0.1, F)},
        "w": rng.integers(limits.min, limits.max, (4, 3, 3, 3)).astype(dtype),
        "b": rng.integers(-500, 500, 4).astype(np.int32),
        "m": rng.integers(limits.min, limits.max, (5, 6)).astype(dtype),
        "shape": np.array([2, -1, 5]),
    }
    nodes = [
        op("QLinearConv", "x s z w ws z t z b", "c"),
        op("Reshape", "c shape", "r"),
        op("QLinearMatMul", "r t z m ws z t z", "y"),
    ]
    net = model(nodes, {"x": (dtype, [2, 3, 5, 7])}, ["y", "c"], constants)
    x = rng.integers(limits.min, limits.max, (2, 3, 5, 7)).astype(dtype)
    # onnxruntime has no products of signed bytes and the unsigned ones that it would make of the weights.
    imported = check(net, {"x": x}, steps=1, exact=dtype == np.uint8)
    assert "DEQUANTIZE" not in operations(imported)
    assert imported.inputs[0].scale == pytest.approx(0.02)


def test_whole_number_products_are_exact() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 255, (3, 3001)).astype(np.uint8), rng.integers(-128, 127, (3001, 5)).astype(np.int8)
    nodes = [op("MatMulInteger", "a b za", "y")]
    constants = {"b": b, "za": np.array(7, np.uint8)}
    check(model(nodes, {"a": (np.uint8, a.shape)}, ["y"], constants), {"a": a})


# --- sequences -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU after", "RNN"])
def test_recurrent(kind: str, direction: str) -> None:
    name, _, after = kind.partition(" ")
    gates, count = {"LSTM": 4, "GRU": 3, "RNN": 1}[name], 2 if direction == "bidirectional" else 1
    time, batch, size, units = 5, 3, 4, 6
    constants = {
        "w": drawn(count, gates * units, size),
        "r": drawn(count, gates * units, units, seed=1) * F(0.5),
        "b": drawn(count, 2 * gates * units, seed=2),
        "h": drawn(count, batch, units, seed=3),
        **({"c": drawn(count, batch, units, seed=4), "p": drawn(count, 3 * units, seed=5)} if name == "LSTM" else {}),
    }
    more = {"linear_before_reset": 1} if after else {}
    outputs = "y yh yc" if name == "LSTM" else "y yh"
    node = op(name, "x w r b - h c p" if name == "LSTM" else "x w r b - h", outputs, hidden_size=units, **more)
    node.attribute.append(helper.make_attribute("direction", direction))
    net = model([node], {"x": (F, [time, batch, size])}, outputs.split(), constants, opset=14)
    check(net, {"x": drawn(time, batch, size, seed=6)})


# --- control flow and functions ------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [True, False])
def test_if_decides_when_the_model_runs(flag: bool) -> None:
    then = subgraph([op("Mul", "x two", "t")], ["t"])
    other = subgraph([op("Sub", "x two", "e")], ["e"])
    nodes = [op("If", "flag", "r", then_branch=then, else_branch=other), op("Neg", "r", "y")]
    net = model(nodes, {"flag": (np.bool_, []), "x": (F, [2, 3])}, ["y"], {"two": np.array(2, F)})
    imported = check(net, {"flag": np.array(flag), "x": drawn(2, 3)})
    assert "IF" in operations(imported)
    known = load(net.SerializeToString(), constants={"flag": flag})
    assert "IF" not in operations(known)
    np.testing.assert_allclose(
        actual(known, {"x": drawn(2, 3)}, "vulkan-0")[0], expected(net, {"flag": np.array(flag), "x": drawn(2, 3)})[0]
    )


def test_a_branch_that_does_not_fit_asks_for_the_condition() -> None:
    then = subgraph([op("Mul", "x x", "t")], ["t"])
    other = subgraph([op("Concat", "x x", "e", axis=0)], ["e"])
    net = model(
        [op("If", "flag", "y", then_branch=then, else_branch=other)], {"flag": (np.bool_, []), "x": (F, [3])}, ["y"]
    )
    with pytest.raises(OnnxImportError, match="its branches give") as raised:
        load(net.SerializeToString())
    assert raised.value.unknown == ("flag",)
    assert load(net.SerializeToString(), constants={"flag": False}).outputs[0].shape == (6,)


def test_loop_is_unrolled() -> None:
    body = subgraph(
        [op("Add", "s x", "t"), op("Mul", "t t", "q"), op("Identity", "k", "more")],
        ["more", "t", "q"],
        {"i": (np.int64, []), "k": (np.bool_, []), "s": (F, [2, 3])},
        {"more": (np.bool_, [])},
    )
    net = model(
        [op("Loop", "n yes x", "last all", body=body)],
        {"x": (F, [2, 3])},
        ["last", "all"],
        {"n": np.array(4), "yes": np.array(True)},
    )
    check(net, {"x": drawn(2, 3)})


def test_functions_of_the_model() -> None:
    function = helper.make_function(
        "own",
        "ScaledSum",
        ["a", "b"],
        ["y"],
        [
            op("Add", "a b", "s"),
            helper.make_node("LeakyRelu", ["s"], ["y"]),
        ],
        [helper.make_opsetid("", 17)],
        ["alpha"],
    )
    reference = function.node[1].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "alpha", onnx.AttributeProto.FLOAT
    nodes = [op("ScaledSum", "a b", "y", domain="own", alpha=0.3)]
    net = model(nodes, {"a": (F, [3, 4]), "b": (F, [4])}, ["y"], functions=[function])
    check(net, {"a": drawn(3, 4), "b": drawn(4, seed=1)})


# --- others --------------------------------------------------------------------------------------------------

EQUATIONS = ["ij,jk->ik", "bhid,bhjd->bhij", "...ij,...jk->...ik", "ij->ji", "ij->i", "ii->i", "i,j->ij", "bij,bij->b"]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str) -> None:
    sizes = dict(zip("bhijkd", (2, 3, 4, 5, 6, 7), strict=True))
    if equation == "ii->i":
        shapes = [(4, 4)]
    else:
        terms = equation.partition("->")[0].split(",")
        shapes = [
            (2, *(sizes[one] for one in term[3:])) if "." in term else tuple(sizes[one] for one in term)
            for term in terms
        ]
    names = "ab"[: len(shapes)]
    inputs = {name: (F, shape) for name, shape in zip(names, shapes, strict=True)}
    feeds = {name: drawn(*shape, seed=seed) for seed, (name, (_, shape)) in enumerate(inputs.items())}
    check(model([op("Einsum", " ".join(names), "y", equation=equation)], inputs, ["y"]), feeds)


@pytest.mark.parametrize(("dtype", "of_nan"), [(F, np.nan), (np.float16, 0)])
def test_the_sign_of_nan_is_that_of_onnxruntime(dtype: Any, of_nan: float) -> None:
    net = model([op("Sign", "x", "y")], {"x": (dtype, [4])}, ["y"])
    feeds = {"x": np.array([np.nan, 0, np.inf, -3], dtype)}
    imported = load(net.SerializeToString())
    for result in (expected(net, feeds)[0], *(actual(imported, feeds, device)[0] for device in DEVICES)):
        np.testing.assert_array_equal(result, [of_nan, 0, 1, -1])


def test_half_precision() -> None:
    nodes = [op("MatMul", "x w", "m"), op("Softmax", "m", "s", axis=-1), op("MatMul", "s v", "y")]
    constants = {"w": drawn(7, 5, dtype=np.float16)}
    inputs = {"x": (np.float16, [3, 7]), "v": (np.float16, [5, 2])}
    feeds = {"x": drawn(3, 7, seed=1, dtype=np.float16), "v": drawn(5, 2, seed=2, dtype=np.float16)}
    check(model(nodes, inputs, ["y"], constants), feeds, tolerance=2e-3)


def test_erf_is_exact_to_a_millionth() -> None:
    x = np.linspace(-6, 6, 4097, dtype=F)
    net = model([op("Erf", "x", "y")], {"x": (F, x.shape)}, ["y"])
    check(net, {"x": x}, tolerance=5e-7)


def test_constants_beside_the_model(tmp_path: Path) -> None:
    net = model([op("MatMul", "x w", "y")], {"x": (F, [2, 64])}, ["y"], {"w": drawn(64, 32)})
    path = tmp_path / "model.onnx"
    onnx.save(net, path, save_as_external_data=True, location="weights.bin", size_threshold=16)
    imported = load(path)
    x = drawn(2, 64, seed=1)
    weights = numpy_helper.to_array(onnx.load(path).graph.initializer[0])
    np.testing.assert_allclose(actual(imported, {"x": x}, "nnapi-reference")[0], x @ weights, rtol=1e-4, atol=1e-4)


def test_all_operators_are_named() -> None:
    assert {"Conv", "QLinearConv", "Einsum", "LSTM", "com.microsoft.Gelu"} <= supported_operators()
