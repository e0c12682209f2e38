"""Variants of operators that types, attributes and absent inputs choose, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import element, model, op, subgraph
from onnx_oracle import actual, check, operations

from nnvk.importers.onnx import OnnxImportError, load

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
) -> list[str]:
    """The operations of one node, whose results must agree.

    Its inputs are these and the constants, in this order unless ``names`` says another one.
    """
    known = constants or {}
    node = op(kind, names or " ".join((*feeds, *known)), outputs, **attributes)
    inputs = {name: (one.dtype, one.shape) for name, one in feeds.items()}
    net = model([node], inputs, [name for name in outputs.split() if name != "-"], known, opset=opset)
    if attributes.get("domain"):
        net.opset_import.add(domain=attributes["domain"], version=1)
    return operations(check(net, feeds))


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
    found = compared("Pow", {"x": np.abs(reals(2, 3)) + F(0.1)}, {"e": np.full(shape, exponent, F)})
    assert ("POW" in found) == (exponent in (4.0, -1.0))


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
    """It goes over a constant or an input, along each axis, forwards and backwards, and into each axis."""
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


@pytest.mark.parametrize("first", ["known", "computed"])
def test_results_of_turns_of_which_some_are_known(first: str) -> None:
    """The result of a loop's first turn may be a constant, and later ones may not."""
    body = subgraph(
        [op("Identity", "go", "on"), op("Add", "s x", "t"), op("Identity", "s", "o")],
        ["on", "t", "o"],
        {"n": (I64, []), "go": (np.bool_, []), "s": (F, [2])},
        {"on": (np.bool_, [])},
    )
    constants = {"m": np.array(3)} | ({"a": reals(2)} if first == "known" else {})
    feeds = {"x": reals(2, seed=1)} | ({"a": reals(2)} if first == "computed" else {})
    inputs = {name: (F, one.shape) for name, one in feeds.items()}
    check(model([op("Loop", "m - a", "y z", body=body)], inputs, ["y", "z"], constants), feeds)


def test_turns_until_a_condition_is_false() -> None:
    """A condition that is known in each turn ends a loop."""
    body = subgraph(
        [op("Less", "n k", "on"), op("Add", "s s", "t")],
        ["on", "t"],
        {"n": (I64, []), "go": (np.bool_, []), "s": (F, [2])},
        {"on": (np.bool_, [])},
    )
    net = model([op("Loop", "m - x", "y", body=body)], {"x": (F, [2])}, ["y"], {"m": np.array(9), "k": np.array(2)})
    imported = check(net, {"x": reals(2)})
    assert operations(imported).count("ADD") == 3


def test_no_turns() -> None:
    body = subgraph(
        [op("Identity", "go", "on"), op("Add", "s s", "t")],
        ["on", "t"],
        {"n": (I64, []), "go": (np.bool_, []), "s": (F, [2])},
        {"on": (np.bool_, [])},
    )
    for constants in ({"m": np.array(0), "c": np.array(True)}, {"m": np.array(3), "c": np.array(False)}):
        net = model([op("Loop", "m c x", "y", body=body)], {"x": (F, [2])}, ["y"], constants)
        assert operations(check(net, {"x": reals(2)})) == ["RESHAPE"]


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


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (4,), (1, 4), (2, 1), (2, 4)], ids=str)
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_terms_of_products(shape: tuple[int, ...], beta: float) -> None:
    """A term that is alike for all rows is the bias."""
    constants = {"w": reals(4, 3, seed=1), "c": reals(*shape, seed=2).astype(F)}
    found = compared("Gemm", {"x": reals(2, 3)}, constants, transB=1, beta=beta)
    assert (found == ["FULLY_CONNECTED"]) == (shape[:1] != (2,))


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


@pytest.mark.parametrize("dtype", [U8, np.int8])
@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "Turned"])
@pytest.mark.parametrize("scales", [1, 4])
def test_products_stay_quantised(kind: str, dtype: Any, scales: int) -> None:
    """Weights have one scale, or one for each output."""
    w = whole(4, 3, most=100, dtype=np.int8, seed=1) if kind == "Turned" else whole(3, 4, most=100, dtype=np.int8)
    axis = 0 if kind == "Turned" else 1
    constants = {"s": np.array(0.05, F), "z": np.array(3, dtype), "u": np.array(0.4, F), "w": w}
    constants |= {"t": np.linspace(0.01, 0.04, scales).astype(F), "o": np.zeros(scales, np.int8)}
    if scales == 1:
        constants |= {name: constants[name].reshape(()) for name in "to"}
    ends = [op("DequantizeLinear", "x s z", "a"), op("DequantizeLinear", "w t o", "b", axis=axis)]
    product = op("MatMul", "a b", "c") if kind == "MatMul" else op("Gemm", "a b", "c", transB=int(kind == "Turned"))
    x = whole(2, 3, most=100, dtype=dtype, seed=2)
    net = model([*ends, product, op("QuantizeLinear", "c u z", "d")], {"x": (dtype, x.shape)}, ["d"], constants)
    assert "DEQUANTIZE" not in operations(check(net, {"x": x}, steps=1))


@pytest.mark.parametrize("dtype", [U8, np.int8])
@pytest.mark.parametrize("target", [I32, F, np.bool_])
def test_levels_as_numbers(dtype: Any, target: Any) -> None:
    """Levels of QuantizeLinear are read as whole numbers."""
    nodes = [op("QuantizeLinear", "x s z", "q"), op("Cast", "q", "y", to=int(element(target)))]
    constants = {"s": np.array(0.05, F), "z": np.array(3, dtype)}
    check(model(nodes, {"x": (F, (3, 5))}, ["y"], constants), {"x": reals(3, 5)})


# --- other types ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceMean", "ReduceSumSquare"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions_of_whole_numbers(kind: str, keepdims: int) -> None:
    x = whole(3, 5, most=4)
    axes = {"axes": [1]} if kind not in ("ReduceSum",) else {}
    known = {} if axes else {"i": np.array([1])}
    compared(kind, {"x": x}, known, opset=13, keepdims=keepdims, **axes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("dtype", [I32, U8])
def test_resize_of_whole_numbers(mode: str, dtype: Any) -> None:
    x = whole(1, 2, 3, 5, most=9, dtype=dtype)
    compared("Resize", {"x": x}, {"s": np.array([1, 1, 2, 2], F)}, names="x - s", mode=mode, opset=13)


def test_signs_of_numbers_of_more_than_32_bits() -> None:
    x = np.random.default_rng(3).integers(-(2**31), 2**31, (3, 5))
    y = np.random.default_rng(4).integers(-(2**31), 2**31, (3, 5))
    nodes = [
        op("Mul", "x y", "z"),
        op("Relu", "z", "r"),
        op("Max", "z x", "m"),
        op("Abs", "z", "a"),
        op("Neg", "z", "n"),
    ]
    net = model(nodes, {"x": (I64, x.shape), "y": (I64, x.shape)}, list("man"), opset=18)
    check(net, {"x": x, "y": y})


def test_no_boxes_at_most() -> None:
    feeds = {"b": np.abs(reals(1, 6, 4)), "s": np.abs(reals(1, 2, 6))}
    net = model(
        [op("NonMaxSuppression", "b s", "i"), op("Neg", "b", "y")],
        {n: (F, a.shape) for n, a in feeds.items()},
        ["i", "y"],
    )
    with pytest.raises(OnnxImportError, match="no elements"):
        load(net.SerializeToString())


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(opset: int) -> None:
    size = 3 if opset == 18 else 6
    constants = {"g": reals(size, seed=1), "b": reals(size, seed=2)}
    x = reals(2, 6, 4, 5)
    net = model(
        [op("GroupNormalization", "x g b", "y", num_groups=3)], {"x": (F, x.shape)}, ["y"], constants, opset=opset
    )
    (got,) = actual(load(net.SerializeToString()), {"x": x}, "nnapi-reference")
    parts = x.reshape(2, 3, -1).astype(np.float64)
    normal = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-5)
    factor, term = (np.repeat(one, 6 // size).reshape(1, 6, 1, 1) for one in constants.values())
    np.testing.assert_allclose(got, normal.reshape(x.shape) * factor + term, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("shapes", [((4,), (4, 3)), ((2, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4,))], ids=str)
def test_products_of_vectors_of_levels(shapes: tuple[tuple[int, ...], tuple[int, ...]], is_known: bool) -> None:
    """As in onnxruntime, two vectors give a scalar."""
    first, second = (whole(*shape, most=9, dtype=U8, seed=at) for at, shape in enumerate(shapes))
    scales = {name: np.array(number, F) for name, number in (("as", 0.02), ("bs", 0.03), ("ys", 0.05))}
    points = {name: np.array(number, U8) for name, number in (("az", 120), ("bz", 130), ("yz", 40))}
    feeds = {"a": first} if is_known else {"a": first, "b": second}
    known = {**scales, **points, **({"b": second} if is_known else {})}
    compared("QLinearMatMul", feeds, known, names="a as az b bs bz ys yz")


@pytest.mark.parametrize("is_known", [False, True])
def test_normalisation_of_a_vector(is_known: bool) -> None:
    statistics = {name: np.array([number], F) for name, number in zip("sbmv", (1.5, 0.2, 0.3, 2), strict=True)}
    feeds = {"x": reals(4)}
    known = statistics if is_known else {}
    compared("BatchNormalization", feeds if is_known else {**feeds, **statistics}, known, names="x s b m v")


def test_squeeze_of_no_axes_removes_all() -> None:
    compared("Squeeze", {"x": reals(1, 3, 1, 2)}, {"axes": np.zeros(0, I64)}, names="x axes")
