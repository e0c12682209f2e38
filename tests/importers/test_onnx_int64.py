"""Whole numbers that leave 32 bits, of INT64 and UINT32, against onnxruntime: exact, or an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
from in_turn import devices
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator
from onnx_net import model, op, subgraph
from onnx_oracle import actual, check, expected, operations

from nnvk import NnapiError, ResultCode
from nnvk.importers.onnx import OnnxImportError, load

I64, U32, U64, F = np.int64, np.uint32, np.uint64, np.float32
WIDE = {"ADD_INT64", "SUB_INT64", "MUL_INT64", "DIV_INT64", "COMPARE_INT64", "FLOAT_TO_INT64"}
SHAPE = (3, 5)


def numbers(seed: int, shape: Sequence[int] = SHAPE) -> np.ndarray:
    """Numbers of 32 bits, some of them at the ends."""
    rng = np.random.default_rng(seed)
    found = rng.integers(-(2**31), 2**31, shape)
    ends = rng.choice([0, 1, -1, 2, -7, 2**31 - 1, -(2**31)], shape)
    return np.where(rng.random(shape) < 0.4, ends, found)


def same(net: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[str]:
    """Both devices give onnxruntime's numbers; the operations that they do so with."""
    imported = load(net.SerializeToString())
    wanted = expected(net, feeds)
    for device in devices():
        for got, want in zip(actual(imported, feeds, device), wanted, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_array_equal(got, want)
    return operations(imported)


XY = {"x": (I64, SHAPE), "y": (I64, SHAPE)}
FEEDS = {"x": numbers(1), "y": numbers(2)}
PRODUCT = op("Mul", "x y", "w")
"""Numbers of up to 62 bits."""


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("other", ["w", "x", "r", "three"])
def test_arithmetic(kind: str, other: str) -> None:
    constants = {"r": numbers(3, (5,)), "three": np.array(3)}
    assert WIDE & set(same(model([PRODUCT, op(kind, f"w {other}", "z")], XY, ["z"], constants), FEEDS))


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize(("first", "second"), [("x", "y"), ("x", "c"), ("c", "x"), ("x", "x")])
def test_results_that_leave_32_bits(kind: str, first: str, second: str) -> None:
    assert WIDE & set(same(model([op(kind, f"{first} {second}", "z")], XY, ["z"], {"c": np.array([7])}), FEEDS))


@pytest.mark.parametrize("kind", ["Div", "Mod"])
@pytest.mark.parametrize(("first", "second"), [("w", "d"), ("x", "d"), ("w", "e"), ("d", "w1"), ("w", "w1")])
def test_quotients(kind: str, first: str, second: str) -> None:
    divisors = np.where(np.arange(15).reshape(SHAPE) % 2, 7, -3)
    nodes = [PRODUCT, op("Mul", "w two", "w2"), op("Add", "w2 one", "w1"), op(kind, f"{first} {second}", "z")]
    constants = {"d": divisors, "e": np.array([-1000]), "one": np.array(1), "two": np.array(2)}
    same(model(nodes, XY, ["z"], constants), FEEDS)
    if kind == "Mod":
        nodes[-1] = op(kind, f"{first} {second}", "z", fmod=1)
        same(model(nodes, XY, ["z"], constants), FEEDS)


def test_the_lowest_number_of_32_bits() -> None:
    """The lowest number has no counterpart above 0 in 32 bits."""
    nodes = [op("Neg", "x", "a"), op("Abs", "x", "b"), op("Div", "x m", "c"), op("Div", "x three", "d")]
    nodes += [op("Mod", "x three", "e", fmod=1), op("Mod", "x three", "f")]
    nodes += [op("Mod", "x m", "g"), op("Mod", "x m", "h", fmod=1), op("Div", "x x", "i")]
    constants = {"m": np.array(-1), "three": np.array(3)}
    lowest = np.array([-(2**31), 2**31 - 1, 5, -5])
    same(model(nodes, {"x": (I64, (4,))}, list("abcdefghi"), constants), {"x": lowest})


@pytest.mark.parametrize("dtype", [I64, np.int32])
def test_quotients_of_the_lowest_number(dtype: type) -> None:
    """It has no magnitude in 32 bits."""
    x, y = np.array([-(2**31), -(2**31), 2**31 - 1, 7, -7, -6], dtype), np.array([2, -3, -(2**31), -2, 2, 3], dtype)
    nodes = [op("Div", "x y", "a"), op("Div", "x three", "b"), op("Mod", "x y", "c", fmod=1), op("Mod", "x y", "d")]
    net = model(nodes, {"x": (dtype, x.shape), "y": (dtype, x.shape)}, list("abcd"), {"three": np.array(3, dtype)})
    same(net, {"x": x, "y": y})


def test_the_smallest_of_numbers_at_the_end_of_32_bits() -> None:
    net = model([op("TopK", "x k", "v i", largest=0)], {"x": (I64, (4,))}, ["v", "i"], {"k": np.array([3])})
    same(net, {"x": np.array([5, -(2**31), 2**31 - 1, -7])})


@pytest.mark.parametrize("kind", ["Neg", "Abs", "Sign"])
def test_single_numbers(kind: str) -> None:
    same(model([PRODUCT, op(kind, "w", "z")], XY, ["z"]), FEEDS)


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_of_several(kind: str) -> None:
    same(model([PRODUCT, op(kind, "w x y", "z")], XY, ["z"]), FEEDS)


def test_sum_of_several() -> None:
    wanted = FEEDS["x"] * FEEDS["y"] + FEEDS["x"] + FEEDS["y"]
    equal(model([PRODUCT, op("Sum", "w x y", "z")], XY, ["z"]), FEEDS, wanted)


@pytest.mark.parametrize("kind", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
@pytest.mark.parametrize(("first", "second"), [("w", "x"), ("x", "w"), ("w", "w"), ("w", "zero")])
def test_comparisons(kind: str, first: str, second: str) -> None:
    net = model([PRODUCT, op(kind, f"{first} {second}", "z")], XY, ["z"], {"zero": np.array(0)}, opset=16)
    same(net, FEEDS)


def test_choice_and_clipping() -> None:
    nodes = [PRODUCT, op("Greater", "w x", "g"), op("Where", "g w y", "a"), op("Clip", "w low high", "b")]
    constants = {"low": np.array(-(2**40)), "high": np.array(5)}
    same(model(nodes, XY, ["a", "b"], constants), FEEDS)


@pytest.mark.parametrize(("low", "high"), [(-(2**63), 5), (2**33, 2**34), (-5, 2**40), (-(2**40), -(2**35))])
def test_limits_beyond_32_bits(low: int, high: int) -> None:
    same(model([op("Clip", "x low high", "z")], XY, ["z"], {"low": np.array(low), "high": np.array(high)}), FEEDS)


@pytest.mark.parametrize(
    "nodes",
    [
        [op("Reshape", "w s", "z")],
        [op("Transpose", "w", "z")],
        [op("Slice", "w b e", "z")],
        [op("Gather", "w i", "z", axis=1)],
        [op("Concat", "w x", "z", axis=1)],
        [op("Concat", "x w w", "z", axis=0)],
        [op("Split", "w", "z u", axis=0), op("Identity", "u", "v")],
        [op("Unsqueeze", "w a", "q"), op("Expand", "q t", "z")],
        [op("Tile", "w r", "z")],
        [op("Flatten", "w", "z")],
    ],
    ids=lambda nodes: nodes[0].op_type,
)
def test_elements_in_other_places(nodes: list[onnx.NodeProto]) -> None:
    constants = {"s": np.array([5, 3]), "b": np.array([1, 1]), "e": np.array([3, 4]), "i": np.array([4, 0, -1])}
    constants |= {"a": np.array([0]), "t": np.array([2, 3, 5]), "r": np.array([2, 1])}
    shape = (4, 5) if nodes[0].op_type == "Split" else SHAPE
    feeds = {"x": numbers(1, shape), "y": numbers(2, shape)}
    same(model([PRODUCT, *nodes], {name: (I64, shape) for name in "xy"}, ["z"], constants), feeds)


def equal(net: onnx.ModelProto, feeds: Mapping[str, np.ndarray], wanted: np.ndarray) -> None:
    """Both devices give these numbers, where onnxruntime's go through real ones."""
    imported = load(net.SerializeToString())
    for device in devices():
        (got,) = actual(imported, feeds, device)
        np.testing.assert_array_equal(got, wanted, strict=True)


def mean(source: np.ndarray, axis: int, keepdims: bool) -> np.ndarray:
    """Rounded towards 0."""
    total = source.sum(axis, keepdims=keepdims)
    return np.sign(total) * (np.abs(total) // source.shape[axis])


REDUCTIONS = {
    "ReduceMax": lambda source, *rest: source.max(rest[0], keepdims=rest[1]),
    "ReduceMean": mean,
    "ReduceMin": lambda source, *rest: source.min(rest[0], keepdims=rest[1]),
    "ReduceProd": lambda source, *rest: source.prod(rest[0], keepdims=rest[1]),
    "ReduceSum": lambda source, *rest: source.sum(rest[0], keepdims=rest[1]),
}


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("of", ["x", "w"])
def test_reductions(kind: str, axis: int, of: str) -> None:
    options = {} if kind == "ReduceSum" else {"axes": [axis]}
    node = op(kind, f"{of} axes" if kind == "ReduceSum" else of, "z", keepdims=axis, **options)
    net = model([PRODUCT, node], XY, ["z"], {"axes": np.array([axis])})
    source = FEEDS["x"]
    if of == "w":
        net = model(
            [PRODUCT, op("Div", "w eight", "v"), node], XY, ["z"], {"axes": np.array([axis]), "eight": np.array(8)}
        )
        net.graph.node[2].input[0] = "v"
        source = np.sign(FEEDS["x"] * FEEDS["y"]) * (np.abs(FEEDS["x"] * FEEDS["y"]) // 8)
    equal(net, FEEDS, REDUCTIONS[kind](source, axis, bool(axis)))


def test_sums_of_an_odd_number_take_few_operations() -> None:
    net = model([op("ReduceSum", "x axes", "y")], {"x": (I64, [999_999])}, ["y"], {"axes": np.array([0])})
    assert len(same(net, {"x": numbers(5, (999_999,))})) < 300


@pytest.mark.parametrize("of", ["x", "w"])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 1)])
def test_running_sums(of: str, exclusive: int, reverse: int) -> None:
    node = op("CumSum", f"{of} axis", "z", exclusive=exclusive, reverse=reverse)
    same(model([PRODUCT, node], XY, ["z"], {"axis": np.array(1)}), FEEDS)


def test_scattered_sums() -> None:
    """Those that may leave 32 bits are refused."""
    places = np.array([[0, 0, 1, 4, 0], [2, 2, 2, 2, 2], [4, 3, 2, 1, 0]])
    nodes = [
        op("Cast", "b", "y", to=TensorProto.INT64),
        op("ScatterElements", "x i y", "z", axis=1, reduction="add"),
    ]
    few = model(
        nodes, {"b": (np.bool_, SHAPE), "i": (I64, SHAPE)}, ["z"], {"x": np.arange(15).reshape(SHAPE)}, opset=18
    )
    same(few, {"b": FEEDS["x"] > 0, "i": places})
    many = model(nodes[1:], {**XY, "i": (I64, SHAPE)}, ["z"], opset=18)
    with pytest.raises(OnnxImportError, match="its results of int64 may leave 32 bits, which NNAPI does not have"):
        load(many.SerializeToString())


@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
def test_products_of_matrices_are_refused(kind: str) -> None:
    net = model([op(kind, "x y", "z")], {"x": (I64, (3, 7)), "y": (I64, (7, 2))}, ["z"])
    with pytest.raises(OnnxImportError, match="NNAPI multiplies no matrices of int64"):
        load(net.SerializeToString())


REALS = np.array([3e9, -3e9, 2.5, -2.5, 0.0, 1e18, -1e18, 4294967296.0, 2147483648.0, -2147483649.0, 7.0], F)


@pytest.mark.parametrize("dtype", [F, np.float16, np.float64])
def test_from_real_numbers(dtype: type) -> None:
    reals = REALS if dtype != np.float16 else np.array([65504, -65504, 2.5, -2.5, 0.99], np.float16)
    net = model([op("Cast", "x", "z", to=TensorProto.INT64)], {"x": (dtype, reals.shape)}, ["z"])
    same(net, {"x": reals.astype(dtype)})


def test_to_other_types() -> None:
    names = {"a": F, "b": np.int32, "c": bool, "d": np.uint8, "e": U32, "f": np.float64}
    casts = [op("Cast", "w", name, to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(t))) for name, t in names.items()]
    net = model([PRODUCT, *casts], XY, list(names))
    imported, wanted = load(net.SerializeToString()), expected(net, FEEDS)
    for device in devices():
        for got, want in zip(actual(imported, FEEDS, device), wanted, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want.astype(F) if want.dtype == np.float64 else want)


def test_uint32() -> None:
    nodes = [
        op("Cast", "x", "u", to=TensorProto.UINT32),
        op("Cast", "u", "back", to=TensorProto.FLOAT),
        op("Cast", "u", "wide", to=TensorProto.INT64),
        op("Cast", "i", "of_int", to=TensorProto.UINT32),
        op("Add", "u u", "sum"),
        op("Sub", "of_int u", "less"),
        op("Mul", "u of_int", "product"),
        op("Greater", "u of_int", "larger"),
        op("Div", "u three", "quotient"),
    ]
    outputs = ["u", "back", "wide", "of_int", "sum", "less", "product", "larger", "quotient"]
    net = model(nodes, {"x": (F, (4,)), "i": (np.int32, (4,))}, outputs, {"three": np.array([3], U32)})
    feeds = {"x": np.array([3e9, 7, 4294967040.0, 0], F), "i": np.array([-1, 5, -(2**31), 2**31 - 1], np.int32)}
    imported = load(net.SerializeToString())
    u, of_int = feeds["x"].astype(U32), feeds["i"].view(U32)
    wanted = [u, u.astype(F), u.astype(I64), of_int, u + u, of_int - u, u * of_int, u > of_int, u // U32(3)]
    for device in devices():
        for got, want in zip(actual(imported, feeds, device), wanted, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


def test_uint64_must_fit() -> None:
    net = model([op("Sub", "x y", "z")], {"x": (U64, (2,)), "y": (U64, (2,))}, ["z"])
    imported = load(net.SerializeToString())
    for device in devices():
        (got,) = actual(imported, {"x": np.array([5, 7], U64), "y": np.array([5, 3], U64)}, device)
        assert got.tolist() == [0, 4]
        with pytest.raises(NnapiError, match="INT64_TO_INT32: a number must be in") as raised:
            actual(imported, {"x": np.array([5, 7], U64), "y": np.array([5, 8], U64)}, device)
        assert raised.value.code is ResultCode.OP_FAILED


def test_above_rank_4() -> None:
    shape = (2, 1, 3, 2, 2)
    feeds = {"x": numbers(1, shape), "y": numbers(2, (2, 4, 1, 2, 2))}
    nodes = [op("Mul", "x y", "w"), op("Cast", "w", "f", to=TensorProto.FLOAT), op("Max", "w y", "m")]
    same(model(nodes, {"x": (I64, shape), "y": (I64, (2, 4, 1, 2, 2))}, ["w", "f", "m"]), feeds)


def test_single_numbers_without_a_shape() -> None:
    net = model([op("Mul", "x y", "w"), op("Add", "w x", "z")], {"x": (I64, ()), "y": (I64, ())}, ["w", "z"])
    same(net, {"x": np.array(2**31 - 1), "y": np.array(-(2**31))})


# --- 32 bits are enough --------------------------------------------------------------------------------------


def narrow(net: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> None:
    """32 bits do, provably."""
    assert not any("INT64" in name for name in same(net, feeds))


def test_counts_and_indices_have_32_bits() -> None:
    nodes = [
        op("ArgMax", "f", "i", axis=1, keepdims=0),
        op("Mul", "i i", "ii"),
        op("Greater", "f zero", "g"),
        op("Cast", "g", "mask", to=TensorProto.INT64),
        op("CumSum", "mask axis", "places"),
        op("Sub", "places one", "from_zero"),
        op("ReduceSum", "mask axes", "count"),
        op("Add", "count ii", "both"),
        op("Gather", "table from_zero", "rows"),
    ]
    constants = {"zero": np.array(0, F), "axis": np.array(1), "one": np.array(1), "axes": np.array([0, 1])}
    constants["table"] = np.arange(-3, 17) * 1000
    net = model(nodes, {"f": (F, SHAPE)}, ["both", "rows", "from_zero"], constants)
    narrow(net, {"f": np.random.default_rng(3).standard_normal(SHAPE).astype(F)})


def test_places_that_data_decide_have_32_bits() -> None:
    nodes = [
        op("Greater", "f zero", "g"),
        op("NonZero", "g", "places"),
        op("Mul", "places sizes", "products"),
        op("Add", "products one", "z"),
        op("Shape", "places", "count"),
        op("Mul", "count count", "squares"),
    ]
    constants = {"zero": np.array(0, F), "sizes": np.array([[5], [1]]), "one": np.array(1)}
    net = model(nodes, {"f": (F, SHAPE)}, ["z", "squares"], constants)
    narrow(net, {"f": np.random.default_rng(3).standard_normal(SHAPE).astype(F)})


def test_picked_boxes_have_32_bits() -> None:
    nodes = [op("NonMaxSuppression", "b s most", "picks"), op("Mul", "picks nine", "z")]
    constants = {"most": np.array([3]), "nine": np.array([9])}
    net = model(nodes, {"b": (F, (1, 6, 4)), "s": (F, (1, 2, 6))}, ["z"], constants)
    corners = np.arange(6, dtype=F).reshape(1, 6, 1) + np.array([0, 0, 0.9, 0.9], F)
    narrow(net, {"b": corners, "s": np.linspace(0.1, 1, 12, dtype=F).reshape(1, 2, 6)})


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_small_numbers_have_32_bits(dtype: type) -> None:
    nodes = [op("Cast", "x", "w", to=TensorProto.INT64), op("Mul", "w w", "z"), op("ReduceSum", "w axes", "s")]
    net = model(nodes, {"x": (dtype, (3,))}, ["z", "s"], {"axes": np.array([0])})
    limits = np.iinfo(dtype)
    narrow(net, {"x": np.array([limits.min, limits.max, 7], dtype)})


def test_int32_comes_round() -> None:
    net = model([op("Mul", "x y", "z")], {"x": (np.int32, (2,)), "y": (np.int32, (2,))}, ["z"])
    feeds = {"x": np.array([100000, -(2**31)], np.int32), "y": np.array([100000, -1], np.int32)}
    narrow(net, feeds)


def test_indices_are_checked() -> None:
    """An index that would be right if it came round is an error."""
    net = model(
        [op("Add", "x c", "i"), op("Gather", "t i", "z")],
        {"x": (I64, (2,))},
        ["z"],
        {
            "c": np.array([2**31 - 1]),
            "t": np.arange(7, dtype=F),
        },
    )
    imported = load(net.SerializeToString())
    for device in devices():
        (got,) = actual(imported, {"x": np.array([-(2**31) + 1, -(2**31) + 4])}, device)
        assert got.tolist() == [0, 3]
        with pytest.raises(NnapiError, match="INT64_TO_INT32: a number must be in") as raised:
            actual(imported, {"x": np.array([2**31 - 1, 0])}, device)
        assert raised.value.code is ResultCode.OP_FAILED


def test_branches_are_checked() -> None:
    """Control flow carries 32 bits."""
    then, other = (subgraph([op(kind, "x y", "z")], ["z"], types=XY) for kind in ("Mul", "Sub"))
    nodes = [op("If", "c", "z", then_branch=then, else_branch=other)]
    net = model(nodes, {"c": (bool, ()), **XY}, {"z": None})
    imported = load(net.SerializeToString())
    small = {"x": np.full(SHAPE, 7), "y": np.full(SHAPE, -9), "c": np.array(True)}
    for device in devices():
        assert set(actual(imported, small, device)[0].reshape(-1).tolist()) == {-63}
        with pytest.raises(NnapiError, match="INT64_TO_INT32: a number must be in"):
            actual(imported, {**FEEDS, "c": np.array(True)}, device)


def test_constants_beyond_32_bits() -> None:
    same(model([op("Add", "x c", "z")], XY, ["z"], {"c": np.array([2**40, -(2**33), 1, 2, 3])}), FEEDS)
    net = model([op("Gather", "x c", "z")], {"x": (F, (3,))}, ["z"], {"c": np.array([2**32 + 1])})
    with pytest.raises(OnnxImportError, match="got 4294967297"):
        load(net.SerializeToString())


def test_results_of_inputs_that_are_constants() -> None:
    """An import computes constants exactly."""
    nodes = [op("Mul", "c c", "w"), op("Greater", "w x", "z")]
    check(model(nodes, {"x": (I64, (2,))}, ["z"], {"c": np.array([50000])}), {"x": np.array([7, 2**31 - 1])})


# --- numbers of more than 32 bits in every operator that takes them ---------------------------------------------------

FACTOR = 2**33 + 5
W, V = np.array([[3, -7, 0, 1], [-1, 5, 2**20, -(2**21)]]), np.array([[2, 0, -9, 1], [4, 5, -3, 11]])


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers)


RULES: dict[str, tuple[str, str, dict[str, Any]]] = {
    # the operator, its inputs and its attributes: w is W * FACTOR, which needs 64 bits, v is V, other names constants
    "Add": ("Add", "w v", {}),
    "Sub": ("Sub", "v w", {}),
    "Div": ("Div", "w v1", {}),
    "Div by them": ("Div", "v w1", {}),
    "Mod": ("Mod", "w v1", {}),
    "Mod of small ones": ("Mod", "v w1", {}),
    "Mod with fmod": ("Mod", "w v1", {"fmod": 1}),
    "Neg": ("Neg", "w", {}),
    "Abs": ("Abs", "w", {}),
    "Sign": ("Sign", "w", {}),
    "Relu": ("Relu", "w", {}),
    "Sum": ("Sum", "w v w", {}),
    "Max": ("Max", "w v", {}),
    "Max of small ones first": ("Max", "v w", {}),
    "Min": ("Min", "w v v", {}),
    "Equal": ("Equal", "w w1", {}),
    "Greater": ("Greater", "w v", {}),
    "LessOrEqual": ("LessOrEqual", "v w", {}),
    "Where": ("Where", "flags w v", {}),
    "Where of small ones first": ("Where", "flags v w", {}),
    "Clip": ("Clip", "w low high", {}),
    "Clip from below": ("Clip", "w low", {}),
    "Clip from above": ("Clip", "w - high", {}),
    "Clip by small ones": ("Clip", "w one nine", {}),
    "Clip by none": ("Clip", "w", {}),
    "Cast to truth": ("Cast", "w", {"to": 9}),
    "Cast to INT32": ("Cast", "w", {"to": 6}),
    "Cast to UINT8": ("Cast", "w", {"to": 2}),
    "Cast to UINT32": ("Cast", "w", {"to": 12}),
    "Cast to FLOAT": ("Cast", "w", {"to": 1}),
    "Cast to DOUBLE": ("Cast", "w", {"to": 11}),
    "Concat": ("Concat", "w v", {"axis": 0}),
    "Concat of small ones first": ("Concat", "v w v", {"axis": 1}),
    "Expand": ("Expand", "w shape", {}),
    "Flatten": ("Flatten", "w", {"axis": 0}),
    "Gather": ("Gather", "w places", {"axis": 1}),
    "GatherElements": ("GatherElements", "w rows", {"axis": 1}),
    "GatherND": ("GatherND", "w rows", {}),
    "Identity": ("Identity", "w", {}),
    "Reshape": ("Reshape", "w flat", {}),
    "Slice": ("Slice", "w one_ three_ one_ two_", {}),
    "Slice of none": ("Slice", "w three_ one_ one_", {}),
    "Split": ("Split", "w", {"axis": 1, "outputs": "y z"}),
    "Split into other sizes": ("Split", "w sizes", {"axis": 1, "outputs": "y z"}),
    "Squeeze": ("Squeeze", "w", {}),
    "Tile": ("Tile", "w repeats", {}),
    "Transpose": ("Transpose", "w", {}),
    "Unsqueeze": ("Unsqueeze", "w one_", {}),
    "ReverseSequence": ("ReverseSequence", "w lengths", {}),
    "CumSum": ("CumSum", "w axis", {"exclusive": 1}),
    "CumSum backwards": ("CumSum", "w axis", {"reverse": 1}),
    "ReduceSum": ("ReduceSum", "w one_", {"keepdims": 0}),
    "ReduceMax": ("ReduceMax", "w", {"axes": [1]}),
    "ReduceMin": ("ReduceMin", "w", {"axes": [0], "keepdims": 0}),
    "ReduceMean": ("ReduceMean", "w", {"axes": [1]}),
    "ReduceProd": ("ReduceProd", "v", {"axes": [1]}),
}
CONSTANTS = {
    "low": np.array(-FACTOR),
    "high": np.array(2 * FACTOR),
    "one": np.array(1),
    "nine": np.array(9),
    "three": np.array(3),
    "axis": np.array(1),
    "flags": np.array([[True, False, False, True]]),
    "shape": ints(3, 2, 4),
    "places": ints(3, 0),
    "rows": np.array([[1, 0], [0, 1]]),
    "flat": ints(4, 2),
    "sizes": ints(1, 3),
    "repeats": ints(2, 1),
    "lengths": ints(1, 2, 2, 1),
    "one_": ints(1),
    "two_": ints(2),
    "three_": ints(3),
    "v1": np.where(V == 0, 1, V),
    "w1": np.where(W == 0, 1, W) * FACTOR,
}


@pytest.mark.parametrize("name", RULES)
def test_every_operator(name: str) -> None:
    """Against the onnx package's reference."""
    kind, inputs, attributes = RULES[name]
    given = dict(attributes)
    outputs = given.pop("outputs", "y")
    constants = {one: CONSTANTS[one] for one in inputs.split() if one in CONSTANTS} | {"factor": np.array(FACTOR)}
    nodes = [op("Mul", "x factor", "w"), op(kind, inputs, outputs, **given)]
    made = model(nodes, {"x": (I64, W.shape), "v": (I64, V.shape)}, outputs.split(), constants, opset=13)
    feeds = {"x": W, "v": V}
    wanted = ReferenceEvaluator(made).run(None, feeds)
    if name == "Squeeze":
        wanted = [W * FACTOR]
    if name == "Slice of none":
        with pytest.raises(OnnxImportError, match=r"'y' of shape \[2, 0\] has no elements"):
            load(made.SerializeToString())
        return
    found = actual(load(made.SerializeToString()), feeds, "nnapi-reference")
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=1e-7 if got.dtype.kind == "f" else 0)  # FLOAT64 is FLOAT32 in NNAPI


def test_real_numbers_that_were_cast_to_32_bits_before() -> None:
    """A cast to INT32 saturates, and says nothing of one to INT64."""
    nodes = [
        op("Cast", "x", "a", to=TensorProto.INT32),
        op("Cast", "x", "b", to=TensorProto.INT64),
        op("Add", "a four", "c"),
        op("Add", "b one", "d"),
    ]
    constants = {"four": np.array(4, np.int32), "one": np.array(1)}
    given = np.array([-3.5, 1e9], F), np.array([3e9, -1e12], F)
    net = model(nodes, {"x": (F, [2])}, ["c", "d"], constants)
    same(net, {"x": given[0]})
    imported = load(net.SerializeToString())
    for device in devices():
        np.testing.assert_array_equal(actual(imported, {"x": given[1]}, device)[1], given[1].astype(I64) + 1)
