"""Variants of operators that types, attributes and absent inputs choose, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op, subgraph
from onnx_oracle import check, operations

F, I32, I64, U8 = np.float32, np.int32, np.int64, np.uint8
MICROSOFT = "com.microsoft"


def reals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def whole(*shape: int, most: int = 9, seed: int = 0, dtype: Any = I32) -> np.ndarray:
    limits = (0 if np.dtype(dtype).kind == "u" else -most, most + 1)
    return np.random.default_rng(seed).integers(*limits, shape).astype(dtype)


def compared(
    kind: str,
    feeds: dict[str, np.ndarray],
    constants: dict[str, np.ndarray] | None = None,
    *,
    names: str | None = None,
    outputs: str = "y",
    opset: int = 18,
    **attributes: Any,
) -> None:
    """One node, of these inputs and constants unless ``names`` puts them in another order, must agree."""
    known = constants or {}
    node = op(kind, names or " ".join((*feeds, *known)), outputs, **attributes)
    inputs = {name: (one.dtype, one.shape) for name, one in feeds.items()}
    net = model([node], inputs, [name for name in outputs.split() if name != "-"], known, opset=opset)
    if attributes.get("domain"):
        net.opset_import.add(domain=attributes["domain"], version=1)
    check(net, feeds)


# --- elements ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F, I32, np.int8, U8])
@pytest.mark.parametrize(("lambd", "bias"), [(2.0, 0.0), (1.0, 1.0), (3.0, -2.0)])
def test_shrink(dtype: Any, lambd: float, bias: float) -> None:
    x = np.arange(0 if dtype is U8 else -5, 6).astype(dtype)
    compared("Shrink", {"x": x}, lambd=lambd, bias=bias)


def test_shrink_by_default() -> None:
    compared("Shrink", {"x": np.array([-0.6, -0.5, -0.4, 0.0, 0.4, 0.5, 0.6], F)})


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_not(shape: tuple[int, ...]) -> None:
    compared("Not", {"x": np.asarray(whole(*shape) > 0)})


@pytest.mark.parametrize("kind", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
@pytest.mark.parametrize("shape", [(2, 3), (3,), (2, 1)])
def test_bits_of_more_than_32_bits(kind: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x, mask = (rng.integers(-(2**31), 2**31, size) for size in ((2, 3), shape))
    nodes = [op("Mul", "x x", "z"), op(kind, "z m", "y")]
    check(model(nodes, {"x": (I64, (2, 3)), "m": (I64, shape)}, ["y"], opset=18), {"x": x, "m": mask})


@pytest.mark.parametrize("kind", ["FastGelu", "BiasGelu"])
def test_gelu_with_a_bias(kind: str) -> None:
    compared(kind, {"x": 2 * reals(3, 5)}, {"b": reals(5, seed=1)}, domain=MICROSOFT)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.0, None), (0.0, 6.0), (0.0, 1.0), (-1.0, 1.0), (0.0, 5.0), (None, 1.0), (0.5, None), (-1.0, 6.0)],
)
@pytest.mark.parametrize("dtype", [F, I32])
def test_clip(low: float | None, high: float | None, dtype: Any) -> None:
    x = (4 * reals(3, 5)).astype(dtype)
    limits = {name: np.array(one, dtype) for name, one in (("l", low), ("h", high)) if one is not None}
    compared("Clip", {"x": x}, limits, names=f"x {'l' if low is not None else '-'} {'h' if high is not None else '-'}")


@pytest.mark.parametrize(("low", "high"), [(-0.5, 0.5), (0.0, None), (None, 0.0)])
def test_clip_by_attributes(low: float | None, high: float | None) -> None:
    limits = {name: one for name, one in (("min", low), ("max", high)) if one is not None}
    compared("Clip", {"x": reals(3, 5)}, opset=10, **limits)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0, 4.0, -1.0])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_powers_of_one_number(exponent: float, shape: tuple[int, ...]) -> None:
    compared("Pow", {"x": np.abs(reals(2, 3)) + F(0.1)}, {"e": np.full(shape, exponent, F)})


# --- elements that are taken ---------------------------------------------------------------------------------


@pytest.mark.parametrize("attributes", [{}, {"axis": 0}, {"axis": -1}])
@pytest.mark.parametrize("known", [True, False])
def test_compress(attributes: dict[str, int], known: bool) -> None:
    flags = np.array([True, False, True, True, False][: 3 if attributes.get("axis") == 0 else 5])
    feeds = {"x": reals(3, 5)}
    if known:
        compared("Compress", feeds, {"c": flags}, **attributes)
    else:
        compared("Compress", feeds | {"c": flags}, **attributes)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
@pytest.mark.parametrize("known", [True, False])
def test_array_feature_extractor(shape: tuple[int, ...], known: bool) -> None:
    places, x = np.array([4, 0, 2]), reals(*shape)
    node = op("ArrayFeatureExtractor", "x i", "y", domain="ai.onnx.ml")
    inputs = {"x": (F, shape)} | ({} if known else {"i": (I64, (3,))})
    net = model([node], inputs, ["y"], {"i": places} if known else {})
    net.opset_import.add(domain="ai.onnx.ml", version=1)
    check(net, {"x": x} | ({} if known else {"i": places}))


@pytest.mark.parametrize("wants_lengths", [True, False])
def test_embeddings_at_given_places(wants_lengths: bool) -> None:
    feeds = {"ids": np.abs(whole(2, 5)), "at": np.abs(whole(2, 5, most=6, seed=1))}
    constants = {"words": reals(11, 8), "places": reals(7, 8, seed=1), "g": reals(8, seed=2), "b": reals(8, seed=3)}
    compared(
        "EmbedLayerNormalization",
        feeds,
        constants,
        names="ids - words places - g b - at",
        outputs="y lengths total" if wants_lengths else "y - total",
        domain=MICROSOFT,
    )


# --- control flow --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("out_back", [0, 1])
@pytest.mark.parametrize("known", [True, False])
def test_scan(axis: int, back: int, out_back: int, known: bool) -> None:
    """Over a constant and over an input, along each axis, forwards and backwards, into each axis."""
    rows, width = (3, 2) if axis == 0 else (2, 3)
    x = reals(rows, width)
    body = subgraph(
        [op("Add", "s r", "t"), op("Mul", "r r", "o")],
        ["t", "o"],
        {"s": (F, [2]), "r": (F, [2])},
    )
    node = op(
        "Scan",
        "a b",
        "u v",
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[back],
        scan_output_axes=[axis],
        scan_output_directions=[out_back],
    )
    start = reals(2, seed=2)
    feeds = {"a": start} if known else {"a": start, "b": x}
    constants = {"b": x} if known else {}
    check(model([node], {name: (F, one.shape) for name, one in feeds.items()}, ["u", "v"], constants), feeds)


def test_scan_by_default() -> None:
    body = subgraph([op("Sub", "s r", "t"), op("Neg", "t", "o")], ["t", "o"], {"s": (F, [2]), "r": (F, [2])})
    node = op("Scan", "a b", "u v", body=body, num_scan_inputs=1)
    check(model([node], {"a": (F, (2,)), "b": (F, (3, 2))}, ["u", "v"]), {"a": reals(2), "b": reals(3, 2)})


# --- products of whole numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [None, ()], ids=str)
@pytest.mark.parametrize("right", [None, (), (4,)], ids=str)
def test_zero_points_of_integer_products(left: tuple[int, ...] | None, right: tuple[int, ...] | None) -> None:
    feeds = {"x": whole(2, 3, most=255, dtype=U8)}
    constants = {"w": whole(3, 4, most=255, dtype=U8, seed=1)}
    points = {"p": left, "q": right}
    constants |= {name: whole(*of, most=255, dtype=U8, seed=2) for name, of in points.items() if of is not None}
    names = f"x w {'-' if left is None else 'p'} {'-' if right is None else 'q'}"
    compared("MatMulInteger", feeds, constants, names=names)


def test_products_of_whole_numbers() -> None:
    x, y = whole(2, 3, 4), whole(4, 5, seed=1)
    compared("MatMul", {"x": x, "w": y})
    compared("MatMul", {"x": x}, {"w": y})


# --- statistics, windows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["", "g", "b", "m", "v", "gb", "mv", "gbmv"])
def test_normalization_by_known_and_by_given_statistics(given: str) -> None:
    statistics = {"g": reals(3, seed=1), "b": reals(3, seed=2), "m": reals(3, seed=3), "v": np.abs(reals(3, seed=4))}
    feeds = {"x": reals(2, 3, 4, 5)} | {name: statistics[name] for name in given}
    known = {name: one for name, one in statistics.items() if name not in given}
    compared("BatchNormalization", feeds, known, names="x g b m v", epsilon=1e-3)


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("pads", [(0, 0), (1, 0), (0, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_windows_of_pools(ceil_mode: int, pads: tuple[int, int], stride: int) -> None:
    """Windows of three elements along rows of all sizes, which end before, at, and behind the last element."""
    sizes = range(3, 10)
    nodes = [
        op("MaxPool", f"x{size}", f"y{size}", kernel_shape=[3], strides=[stride], pads=list(pads), ceil_mode=ceil_mode)
        for size in sizes
    ]
    feeds = {f"x{size}": reals(1, 2, size, seed=size) for size in sizes}
    inputs = {name: (F, one.shape) for name, one in feeds.items()}
    check(model(nodes, inputs, [f"y{size}" for size in sizes]), feeds, devices=("nnapi-reference",))


# --- quantised tensors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [U8, np.int8])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_pairs_stay_quantised(kind: str, dtype: Any) -> None:
    """Between levels and levels there is one operation, and more where one side is real."""
    point = dtype(3)
    constants = {"s": np.array(0.05, F), "t": np.array(0.02, F), "z": np.array(point), "u": np.array(0.4, F)}
    ends = [op("DequantizeLinear", "x s z", "a"), op("DequantizeLinear", "y t z", "b")]
    nodes = [*ends, op(kind, "a b", "c"), op("QuantizeLinear", "c u z", "d")]
    feeds = {name: whole(2, 5, most=100, dtype=dtype, seed=seed) for seed, name in enumerate("xy")}
    inputs = {name: (dtype, one.shape) for name, one in feeds.items()}
    assert operations(check(model(nodes, inputs, ["d"], constants), feeds, steps=1)) == [kind.upper()]
    real = [ends[0], op(kind, "a y", "c"), nodes[-1]]
    feeds["y"] = reals(2, 5)
    inputs["y"] = (F, (2, 5))
    assert "DEQUANTIZE" in operations(check(model(real, inputs, ["d"], constants), feeds, steps=1))
