"""Products and sums of levels in ONNX: which of them NNAPI computes in levels, and onnxruntime's results of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_case import Case
from onnx_net import model, op
from onnx_oracle import LARGEST_SIGNED, actual, check, operations

from nnvk.importers.onnx import OnnxImportError, load

F, I8, U8 = np.float32, np.int8, np.uint8
DEVICES = ("nnapi-reference",)
_X_ZERO, _OUT_ZERO = U8(120), U8(110)
PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL")


def levels(*shape: int, dtype: Any = U8, seed: int = 0) -> np.ndarray:
    limits = (20, 230) if dtype is U8 else (-LARGEST_SIGNED, LARGEST_SIGNED)
    return np.random.default_rng(seed).integers(*limits, shape).astype(dtype)


def scales(*numbers: float) -> np.ndarray:
    return np.array(numbers if len(numbers) > 1 else numbers[0], F)


@dataclass(frozen=True)
class Net:
    """x, dequantised, by weights that are dequantised, to an output that is quantised."""

    kind: str
    x: np.ndarray
    w: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    axis: int = 0
    x_scale: float = 0.05
    x_zero: Any = _X_ZERO
    out_scale: float = 0.4
    out_zero: Any = _OUT_ZERO
    bias: np.ndarray | None = None
    free: str = ""
    """The names of the constants that are inputs of the model."""
    relu: bool = False
    real: str = ""
    """The names of x, w and y that are real numbers."""
    has_zero: bool = True
    others: bool = False
    """Whether the result is an output of the model, too."""
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def is_in_levels(self) -> bool:
        """Whether the product is one of levels; the results must be onnxruntime's, node by node."""
        constants = {
            "xs": np.array(self.x_scale, F),
            "xz": np.array(self.x_zero),
            "w": self.w,
            "ws": self.scale,
            "wz": self.zero,
            "ys": np.array(self.out_scale, F),
            "yz": np.array(self.out_zero),
        }
        if self.bias is not None:
            constants["b"] = self.bias
        feeds = {"x": self.x}
        if "x" in self.real:
            feeds["x"] = ((self.x.astype(F) - self.x_zero) * F(self.x_scale)).astype(F)
        if "w" in self.real:
            constants["w"] = self.w.astype(F) * F(0.01)
        for name in self.free.split():
            feeds[name] = constants.pop(name)
        nodes = [
            *([] if "x" in self.real else [op("DequantizeLinear", "x xs xz", "xr")]),
            *([] if "w" in self.real else [op("DequantizeLinear", "w ws wz", "wr", axis=self.axis)]),
            op(
                self.kind,
                f"{'x' if 'x' in self.real else 'xr'} {'w' if 'w' in self.real else 'wr'}"
                + (" b" if self.bias is not None else ""),
                "t",
                **self.attributes,
            ),
            *([op("Relu", "t", "r")] if self.relu else []),
            *(
                []
                if "y" in self.real
                else [op("QuantizeLinear", f"{'r' if self.relu else 't'} ys" + " yz" * self.has_zero, "y")]
            ),
        ]
        outputs = ["t" if "y" in self.real else "y", *(["t"] if self.others else [])]
        inputs = {name: (array.dtype, array.shape) for name, array in feeds.items()}
        net = model(nodes, inputs, outputs, constants)
        frozen = check(net, feeds, steps=1, devices=DEVICES, optimised=False).model.frozen
        (product,) = (one for one in frozen.operations if one.code.name in PRODUCTS)
        return frozen.operands[product.inputs[0]].type.code.name.startswith("TENSOR_QUANT8")


CONV = Net("Conv", levels(1, 3, 6, 5), levels(4, 3, 3, 2, dtype=I8, seed=1), scales(0.01), I8(0))
DEPTHWISE = replace(CONV, w=levels(3, 1, 3, 2, dtype=I8, seed=1), attributes={"group": 3})
GEMM = Net("Gemm", levels(2, 6), levels(4, 6, dtype=I8, seed=1), scales(0.01), I8(0), attributes={"transB": 1})
MATMUL = Net("MatMul", levels(2, 6), levels(6, 4, dtype=I8, seed=1), scales(0.01), I8(0), axis=1)
FOUR, ZEROS = scales(0.01, 0.02, 0.005, 0.015), np.zeros(4, I8)
BIAS = np.array([0.5, -1, 2, 0.25], F)

IN_LEVELS = {
    "plain": CONV,
    "a bias": replace(CONV, bias=BIAS),
    "a scale for each output": replace(CONV, scale=FOUR, zero=ZEROS, bias=BIAS),
    "signed": replace(CONV, x=levels(1, 3, 6, 5, dtype=I8), x_zero=I8(3), out_zero=I8(-7)),
    "signed weights with a zero point": replace(CONV, zero=I8(5)),
    "unsigned weights": replace(CONV, w=levels(4, 3, 3, 2, seed=1), zero=U8(120)),
    "unsigned weights of signed levels": replace(
        CONV, x=levels(1, 3, 6, 5, dtype=I8), x_zero=I8(3), w=levels(4, 3, 3, 2, seed=1), zero=U8(120), out_zero=I8(-7)
    ),
    "to signed levels": replace(CONV, out_zero=I8(-7)),
    "from signed levels": replace(CONV, x=levels(1, 3, 6, 5, dtype=I8), x_zero=I8(3)),
    "an activation": replace(CONV, relu=True),
    "no zero point behind": replace(CONV, has_zero=False, out_zero=U8(0)),
    "depthwise": replace(DEPTHWISE, bias=BIAS[:3]),
    "depthwise with a scale for each output": replace(DEPTHWISE, scale=FOUR[:3], zero=ZEROS[:3]),
    "gemm": replace(GEMM, bias=BIAS),
    "gemm with a scale for each output": replace(GEMM, scale=FOUR, zero=ZEROS, bias=BIAS),
    "gemm the other way": replace(
        GEMM, w=levels(6, 4, dtype=I8, seed=1), attributes={}, scale=FOUR, zero=ZEROS, axis=1
    ),
    "a matrix": MATMUL,
    "a matrix with a scale for each output": replace(MATMUL, scale=FOUR, zero=ZEROS),
    "matrices": replace(MATMUL, x=levels(3, 2, 6)),
}
IN_REAL_NUMBERS = {
    "real inputs": replace(CONV, real="x"),
    "real weights": replace(CONV, real="w"),
    "a real output": replace(CONV, real="y"),
    "an output that others read": replace(CONV, others=True),
    "weights that the model gets": replace(CONV, free="w"),
    "a bias that the model gets": replace(CONV, bias=BIAS, free="b"),
    "an output scale that the model gets": replace(CONV, free="ys"),
    "an output zero point that the model gets": replace(CONV, free="yz"),
    "an input scale that the model gets": replace(CONV, free="xs"),
    "an input zero point that the model gets": replace(CONV, free="xz"),
    "scales along another axis": replace(
        GEMM, w=levels(4, 6, dtype=I8, seed=1), scale=scales(*np.linspace(0.01, 0.02, 6)), zero=np.zeros(6, I8), axis=1
    ),
    "scales along another axis of one size": replace(
        GEMM, x=levels(2, 4), w=levels(4, 4, dtype=I8, seed=1), scale=FOUR, zero=ZEROS, axis=1
    ),
    "unsigned weights with several scales": replace(
        CONV, w=levels(4, 3, 3, 2, seed=1), scale=FOUR, zero=np.full(4, 0, U8)
    ),
    "several scales with zero points": replace(CONV, scale=FOUR, zero=np.array([0, 1, 0, 0], I8)),
    "a large bias": replace(CONV, bias=BIAS * 1e9, out_scale=1e8),
    "a factor": replace(GEMM, attributes={"transB": 1, "alpha": 2.0}),
    "a factor of the bias": replace(GEMM, attributes={"transB": 1, "beta": 2.0}, bias=BIAS),
    "a first matrix that is turned": replace(GEMM, x=levels(6, 2), attributes={"transA": 1, "transB": 1}),
}


@pytest.mark.parametrize("name", IN_LEVELS)
def test_products_in_levels(name: str) -> None:
    assert IN_LEVELS[name].is_in_levels()


@pytest.mark.parametrize("name", IN_REAL_NUMBERS)
def test_products_in_real_numbers(name: str) -> None:
    assert not IN_REAL_NUMBERS[name].is_in_levels()


@pytest.mark.parametrize(("dtype", "several"), [(I8, False), (I8, True), (U8, False)])
def test_products_of_rows_round_once(dtype: Any, several: bool) -> None:
    """38,400 sums, of which NNAPI's own FULLY_CONNECTED and CONV_2D, which round twice, give some another level."""
    numbers = np.random.default_rng(4).uniform(0.001, 0.01, 96 if several else ()).astype(F)
    arrays = {"ws": numbers, "wz": np.zeros(numbers.shape, I8), "w": levels(64, 96, dtype=I8, seed=1)}
    constants = {"xs": np.array(0.03, F), "xz": np.array(3, dtype), "ys": np.array(0.11, F), **arrays}
    ahead = [op("DequantizeLinear", "x xs xz", "xr"), op("DequantizeLinear", "w ws wz", "wr", axis=1)]
    nodes = [*ahead, op("MatMul", "xr wr", "t"), op("QuantizeLinear", "t ys xz", "y")]
    x = levels(400, 64, dtype=dtype)
    made = model(nodes, {"x": (dtype, x.shape)}, ["y"], constants)
    assert operations(check(made, {"x": x}, devices=DEVICES, steps=0)) == ["FULLY_CONNECTED"]


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("scale", [0.0, -0.01, np.inf, np.nan])
@pytest.mark.parametrize("where", ["x", "w", "y"])
def test_scales_that_nnapi_has_not(where: str, scale: float) -> None:
    """NNAPI's levels have positive and finite ones."""
    changes = {"x": {"x_scale": scale}, "w": {"scale": np.array(scale, F)}, "y": {"out_scale": scale}}[where]
    net = replace(CONV, **changes)
    constants = {"xs": F(net.x_scale), "xz": U8(120), "w": net.w, "ws": net.scale, "wz": I8(0), "ys": F(net.out_scale)}
    nodes = [
        op("DequantizeLinear", "x xs xz", "xr"),
        op("DequantizeLinear", "w ws wz", "wr"),
        op("Conv", "xr wr", "t"),
        op("QuantizeLinear", "t ys xz", "y"),
    ]
    made = model(nodes, {"x": (U8, net.x.shape)}, ["y"], {name: np.asarray(one) for name, one in constants.items()})
    names = operations(load(made.SerializeToString()))
    assert {"CAST", "DEQUANTIZE", "QUANTIZE_TIES_TO_EVEN"} & set(names)


# --- sums ------------------------------------------------------------------------------------------------------------


def pair(
    kind: str, first: Any, second: Any, out: Any, *, real: str = "", known: str = "", scale: float = 0.4
) -> list[str]:
    """The operations of a pair of levels of these types, whose results must be onnxruntime's."""
    feeds = {"a": levels(2, 5, dtype=first), "b": levels(2, 5, dtype=second, seed=1)}
    constants = {"as": F(0.05), "az": first(3), "bs": F(0.02), "bz": second(5), "ys": F(scale), "yz": out(7)}
    arrays = {name: np.asarray(one) for name, one in constants.items()}
    nodes = [op("DequantizeLinear", f"{name} {name}s {name}z", f"{name}r") for name in "ab" if name not in real]
    for name in real:
        feeds[name] = feeds[name].astype(F) * F(0.02)
    for name in known:
        arrays[name] = feeds.pop(name)
    names = " ".join(name if name in real else f"{name}r" for name in "ab")
    nodes += [op(kind, names, "t"), op("QuantizeLinear", "t ys yz", "y")]
    inputs = {name: (array.dtype, array.shape) for name, array in feeds.items()}
    return operations(check(model(nodes, inputs, ["y"], arrays), feeds, steps=1, devices=DEVICES))


@pytest.mark.parametrize("dtype", [U8, I8])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_pairs_in_levels(kind: str, dtype: Any) -> None:
    assert pair(kind, dtype, dtype, dtype) == [kind.upper()]


@pytest.mark.parametrize("kind", ["Add", "Mul"])
@pytest.mark.parametrize(
    ("types", "changes"),
    [
        ((I8, U8, U8), {}),
        ((U8, I8, U8), {}),
        ((U8, U8, I8), {}),
        ((U8, U8, U8), {"real": "a"}),
        ((U8, U8, U8), {"real": "b"}),
        ((U8, U8, U8), {"known": "a"}),
        ((U8, U8, U8), {"known": "b"}),
    ],
    ids=["first", "second", "out", "real first", "real second", "known first", "known second"],
)
def test_pairs_in_real_numbers(kind: str, types: tuple[Any, Any, Any], changes: dict[str, str]) -> None:
    assert {"DEQUANTIZE", "CAST"} & set(pair(kind, *types, **changes))


def test_products_whose_scale_is_too_small() -> None:
    """NNAPI multiplies levels where the product of the scales is below the output's."""
    assert pair("Mul", U8, U8, U8, scale=0.05 * 0.02) != ["MUL"]
    assert pair("Mul", U8, U8, U8, scale=0.05 * 0.02 * 1.01) == ["MUL"]
    assert pair("Add", U8, U8, U8, scale=0.05 * 0.02) == ["ADD"]


# --- operators on levels ---------------------------------------------------------------------------------------------

MICROSOFT = "com.microsoft"
LEFT = {"a": levels(2, 6), "AS": scales(0.05), "AZ": U8(120)}
RIGHT = {"W": levels(6, 4, dtype=I8, seed=1), "WS": scales(0.01), "WZ": I8(0)}
OUT = {"YS": scales(0.4), "YZ": U8(110)}
TERM = {"B": np.array([100, -200, 300, 50], np.int32)}
IMAGE = {"a": levels(1, 3, 6, 5), "AS": scales(0.05), "AZ": U8(120)}
FILTER = {"W": levels(4, 3, 3, 2, dtype=I8, seed=1), "WS": scales(0.01), "WZ": I8(0)}
CHANNELS = {"WS": FOUR, "WZ": ZEROS}


def freed(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    """The same with a constant as an input of the model."""
    return {key.lower() if key == name else key: array for key, array in arrays.items()}


QLINEAR: dict[str, tuple[str, dict[str, Any], dict[str, Any], bool]] = {
    "QLinearMatMul": ("QLinearMatMul", LEFT | RIGHT | OUT, {}, True),
    "QLinearMatMul by columns": ("QLinearMatMul", LEFT | RIGHT | CHANNELS | OUT, {}, True),
    "QLinearMatMul of given weights": ("QLinearMatMul", freed(LEFT | RIGHT | OUT, "W"), {}, False),
    "QLinearMatMul of a given scale": ("QLinearMatMul", freed(LEFT | RIGHT | OUT, "AS"), {}, False),
    "QLinearMatMul to a given scale": ("QLinearMatMul", freed(LEFT | RIGHT | OUT, "YS"), {}, False),
    "QLinearMatMul to a given zero point": ("QLinearMatMul", freed(LEFT | RIGHT | OUT, "YZ"), {}, False),
    "QLinearMatMul of batches": (
        "QLinearMatMul",
        LEFT | {"a": levels(3, 2, 6)} | RIGHT | {"W": levels(3, 6, 4, dtype=I8, seed=1)} | OUT,
        {},
        False,
    ),
    "QLinearMatMul of a row": ("QLinearMatMul", freed(LEFT | {"a": levels(6)} | RIGHT | OUT, "W"), {}, False),
    "QLinearMatMul by a column": (
        "QLinearMatMul",
        freed(LEFT | RIGHT | {"W": levels(6, dtype=I8, seed=1)} | OUT, "W"),
        {},
        False,
    ),
    "QLinearConv": ("QLinearConv", IMAGE | FILTER | OUT, {}, True),
    "QLinearConv with a bias": ("QLinearConv", IMAGE | FILTER | OUT | TERM, {}, True),
    "QLinearConv by channels": ("QLinearConv", IMAGE | FILTER | CHANNELS | OUT | TERM, {}, True),
    "QLinearConv with a given bias": ("QLinearConv", freed(IMAGE | FILTER | OUT | TERM, "B"), {}, False),
    "QLinearConv of given weights": ("QLinearConv", freed(IMAGE | FILTER | OUT | TERM, "W"), {}, False),
    "QLinearConv of a given scale": ("QLinearConv", freed(IMAGE | FILTER | OUT | TERM, "AS"), {}, False),
    "QLinearConv to a given scale": ("QLinearConv", freed(IMAGE | FILTER | OUT | TERM, "YS"), {}, False),
    "QLinearConv of a volume": (
        "QLinearConv",
        IMAGE | {"a": levels(1, 3, 4, 6, 5)} | FILTER | {"W": levels(4, 3, 2, 3, 2, dtype=I8, seed=1)} | OUT | TERM,
        {},
        False,
    ),
    "QGemm": ("QGemm", LEFT | RIGHT | TERM | OUT, {}, True),
    "QGemm without a bias": ("QGemm", LEFT | RIGHT | {"-": None} | OUT, {}, True),
    "QGemm the other way": (
        "QGemm",
        LEFT | RIGHT | {"W": levels(4, 6, dtype=I8, seed=1)} | TERM | OUT,
        {"transB": 1},
        True,
    ),
    "QGemm by outputs": (
        "QGemm",
        LEFT | RIGHT | {"W": levels(4, 6, dtype=I8, seed=1)} | CHANNELS | TERM | OUT,
        {"transB": 1},
        True,
    ),
    "QGemm of a turned matrix": ("QGemm", LEFT | {"a": levels(6, 2)} | RIGHT | TERM | OUT, {"transA": 1}, False),
    "QGemm with a factor": ("QGemm", LEFT | RIGHT | {"-": None} | OUT, {"alpha": 0.5}, False),
    "QGemm to real numbers": ("QGemm", LEFT | RIGHT | TERM, {}, False),
    "QGemm with a given bias": ("QGemm", freed(LEFT | RIGHT | TERM | OUT, "B"), {}, False),
    "QGemm of given weights": ("QGemm", freed(LEFT | RIGHT | TERM | OUT, "W"), {}, False),
    "QGemm to a given scale": ("QGemm", freed(LEFT | RIGHT | TERM | OUT, "YS"), {}, False),
}


@pytest.mark.parametrize("name", QLINEAR)
def test_operators_on_levels(name: str) -> None:
    """Capitals are constants."""
    kind, arrays, attributes, in_levels = QLINEAR[name]
    given = {key: np.asarray(array) for key, array in arrays.items() if array is not None}
    feeds = {key: array for key, array in given.items() if not key.isupper()}
    constants = {key: array for key, array in given.items() if key.isupper()}
    domain = {"domain": MICROSOFT} if kind == "QGemm" else {}
    node = op(kind, " ".join(arrays), "y", **attributes, **domain)
    net = model([node], {key: (array.dtype, array.shape) for key, array in feeds.items()}, ["y"], constants)
    if domain:
        net.opset_import.add(domain=MICROSOFT, version=1)
    frozen = check(net, feeds, steps=1, devices=DEVICES, optimised=False).model.frozen
    (product,) = (one for one in frozen.operations if one.code.name in PRODUCTS)
    assert frozen.operands[product.inputs[0]].type.code.name.startswith("TENSOR_QUANT8") == in_levels


@pytest.mark.parametrize("shape", [(2, 6), (3, 2, 6)], ids=str)
def test_products_of_rows_with_a_scale_each(shape: tuple[int, ...]) -> None:
    """onnxruntime has none."""
    a, w = levels(*shape), levels(6, 4, dtype=I8, seed=1)
    constants = {"AS": np.array([0.05, 0.02], F), "AZ": np.array([3, 7], U8), "W": w, "WS": np.array(0.01, F)}
    constants |= {"WZ": np.array(0, I8), "YS": np.array(0.4, F), "YZ": np.array(110, U8)}
    net = model([op("QLinearMatMul", "a AS AZ W WS WZ YS YZ", "y")], {"a": (U8, shape)}, ["y"], constants)
    (got,) = actual(load(net.SerializeToString()), {"a": a}, DEVICES[0])
    rows = (a.astype(np.float64) - constants["AZ"].reshape(2, 1)) * constants["AS"].reshape(2, 1)
    wanted = np.clip(np.rint(rows @ (w * 0.01) / 0.4) + 110, 0, 255)
    assert np.abs(got.astype(np.int64) - wanted).max() <= 1


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize(
    ("free", "types", "in_levels"),
    [
        ("", (U8, U8), True),
        ("", (I8, I8), True),
        ("AS", (U8, U8), False),
        ("BZ", (U8, U8), False),
        ("YS", (U8, U8), False),
    ],
    ids=["unsigned", "signed", "a given scale", "a given zero point", "a given output scale"],
)
def test_pairs_of_levels(kind: str, free: str, types: tuple[Any, Any], in_levels: bool) -> None:
    one, other = types
    arrays = {"a": levels(2, 5, dtype=one), "AS": scales(0.05), "AZ": one(3)}
    arrays |= {"b": levels(2, 5, dtype=other, seed=1), "BS": scales(0.02), "BZ": other(5)}
    arrays |= {"YS": scales(0.4), "YZ": one(7)}
    given = {key: np.asarray(array) for key, array in freed(arrays, free).items()}
    feeds = {key: array for key, array in given.items() if not key.isupper()}
    constants = {key: array for key, array in given.items() if key.isupper()}
    inputs = {key: (array.dtype, array.shape) for key, array in feeds.items()}
    net = model([op(kind, " ".join(given), "y", domain=MICROSOFT)], inputs, ["y"], constants)
    net.opset_import.add(domain=MICROSOFT, version=1)
    imported = load(net.SerializeToString())
    frozen, name = imported.model.frozen, kind.removeprefix("QLinear").upper()
    results = [frozen.operands[one.outputs[0]].type.code.name for one in frozen.operations if one.code.name == name]
    assert any(code.startswith("TENSOR_QUANT8") for code in results) == in_levels
    if not free:  # onnxruntime takes no other
        check(net, feeds, steps=1, devices=DEVICES)
        return
    real = [
        (given[x].astype(np.float64) - given[z]) * given[s]
        for x, s, z in (("a", "as" if free == "AS" else "AS", "AZ"), ("b", "BS", "bz" if free == "BZ" else "BZ"))
    ]
    total = real[0] + real[1] if kind == "QLinearAdd" else real[0] * real[1]
    wanted = np.clip(np.rint(total / given["ys" if free == "YS" else "YS"]) + 7, 0, 255)
    (got,) = actual(imported, feeds, DEVICES[0])
    assert np.abs(got.astype(np.int64) - wanted).max() <= 1


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("opset", [12, 13])
def test_softmax_of_levels(opset: int, axis: int) -> None:
    x = levels(2, 3, 4)
    constants = {"AS": scales(0.05), "AZ": np.array(120, U8), "YS": scales(1 / 256), "YZ": np.array(0, U8)}
    node = op("QLinearSoftmax", "a AS AZ YS YZ", "y", domain=MICROSOFT, axis=axis, opset=opset)
    net = model([node], {"a": (U8, x.shape)}, ["y"], constants)
    net.opset_import.add(domain=MICROSOFT, version=1)
    check(net, {"a": x}, steps=1, devices=DEVICES)


# --- scales of axes and of blocks ------------------------------------------------------------------------------------


def numbers_along(shape: tuple[int, ...], axis: int, block: int, count: int) -> tuple[int, ...]:
    """The shape of scales: of one for all, of one for each index of an axis, or of one for each block along it."""
    if block:
        return tuple(-(-size // block) if at == axis % len(shape) else size for at, size in enumerate(shape))
    return (shape[axis],) if count else ()


ALONG = [(1, 0, 0), (0, 0, 1), (1, 0, 1), (-1, 0, 1), (0, 2, 1), (1, 3, 1), (-1, 2, 1)]
"""An axis, the size of its blocks, and whether there are several scales."""


@pytest.mark.parametrize(
    ("has_zero", "free"),
    [(True, free) for free in ("", "s", "z", "w", "szw")] + [(False, free) for free in ("", "s", "w")],
)
@pytest.mark.parametrize(("axis", "block", "count"), ALONG)
def test_levels_become_real_numbers(axis: int, block: int, count: int, has_zero: bool, free: str) -> None:
    shape = (3, 5, 4)
    own = numbers_along(shape, axis, block, count)
    rng = np.random.default_rng(0)
    arrays = {"w": levels(*shape), "s": rng.uniform(0.01, 0.1, own).astype(F)}
    if has_zero:
        arrays["z"] = np.asarray(rng.integers(100, 140, own)).astype(U8)
    feeds = {name: array for name, array in arrays.items() if name in free} or {"x": np.zeros(4, F)}
    constants = {name: array for name, array in arrays.items() if name not in free}
    node = op("DequantizeLinear", " ".join(arrays), "r", axis=axis, **({"block_size": block} if block else {}))
    tail = op("Add", "r x", "y") if "x" in feeds else op("Neg", "r", "y")
    inputs = {name: (array.dtype, array.shape) for name, array in feeds.items()}
    net = model([node, tail], inputs, ["y"], constants, opset=21)
    check(net, feeds, devices=DEVICES, optimised=False, tolerance=1e-6)


@pytest.mark.parametrize("free", ["", "s", "z"], ids=["known", "scale", "point"])
@pytest.mark.parametrize(("axis", "block", "count"), ALONG)
@pytest.mark.parametrize("dtype", [U8, I8, np.int16])
def test_real_numbers_become_levels(dtype: Any, axis: int, block: int, count: int, free: str) -> None:
    shape = (3, 5, 4)
    own = numbers_along(shape, axis, block, count)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(F)
    arrays = {"s": rng.uniform(0.01, 0.1, own).astype(F), "z": np.asarray(rng.integers(3, 40, own)).astype(dtype)}
    feeds = {"x": x} | {name: array for name, array in arrays.items() if name in free}
    constants = {name: array for name, array in arrays.items() if name not in free}
    node = op("QuantizeLinear", "x s z", "y", axis=axis, **({"block_size": block} if block else {}))
    inputs = {name: (array.dtype, array.shape) for name, array in feeds.items()}
    net = model([node], inputs, ["y"], constants, opset=21)
    check(net, feeds, devices=DEVICES, optimised=False, steps=0)


BLOCKS = {
    "scales": ({"s": np.ones((3, 2), F)}, {}, "scales of blocks of 2 along axis 1 must have shape [3, 3], got [3, 2]"),
    "points": (
        {"z": np.ones((3, 2), U8)},
        {},
        "zero points of blocks of 2 along axis 1 must have shape [3, 3], got [3, 2]",
    ),
    "size": ({}, {"block_size": -2}, "scales of blocks of -2 along axis 1 must have shape [3, -2], got [3, 3]"),
    "no size": (
        {},
        {"block_size": 0},
        "scales of shape [3, 3] are of blocks, whose size attribute 'block_size' must say",
    ),
    "scales along": (
        {"s": np.ones(4, F), "z": np.ones(4, U8)},
        {"block_size": 0},
        "there must be 5 scales along axis 1, got 4",
    ),
    "points along": (
        {"s": np.ones(5, F), "z": np.ones(4, U8)},
        {"block_size": 0},
        "there must be as many zero points as scales, which are 5, got 4",
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_scales_that_do_not_fit(name: str) -> None:
    arrays, attributes, reason = BLOCKS[name]
    inputs = {"a": (U8, [3, 5]), "s": np.ones((3, 3), F), "z": np.ones((3, 3), U8), **arrays}
    case = Case("DequantizeLinear", inputs, "", {"axis": 1, "block_size": 2} | attributes, opset=21)
    with pytest.raises(OnnxImportError) as raised:
        case.load()
    assert [one.reason for one in raised.value.problems] == [reason]
