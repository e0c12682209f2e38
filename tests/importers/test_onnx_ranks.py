"""Operators on tensors of five to eight dimensions: onnxruntime's results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_net import model, op, subgraph
from onnx_oracle import DEVICES, check

from nnvk import load

SIZES = (2, 3, 2, 1, 3, 2, 2, 2)
RANKS = (5, 6, 8)
NO_BOOLEANS = frozenset({"CumSum", "TopK", "Where"})
"""Operators that ONNX, or onnxruntime (Where), does not have for booleans."""
KINDS = {"float": np.float32, "int64": np.int64, "bool": np.bool_}


def drawn(kind: str, shape: tuple[int, ...], seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "float":
        return rng.normal(size=shape).astype(np.float32)
    return rng.integers(-3, 4, shape) if kind == "int64" else rng.integers(0, 2, shape).astype(bool)


def other(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with this one along every other axis."""
    return tuple(1 if axis % 2 else size for axis, size in enumerate(shape))


def ints(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int64)


def compared(
    name: str, feeds: Mapping[str, np.ndarray], constants: Mapping[str, np.ndarray], **attributes: Any
) -> None:
    """The operator on inputs and constants, in the order of their names."""
    count = attributes.pop("outputs", 1)
    names = sorted([*feeds, *constants])
    outputs = [f"out{index}" for index in range(count)]
    made = model(
        [op(name, " ".join(names), " ".join(outputs), **attributes)],
        {key: (array.dtype, array.shape) for key, array in feeds.items()},
        outputs,
        constants,
        opset=20,
    )
    check(made, feeds)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        (name, shapes)
        for name in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Equal", "Greater", "LessOrEqual")
        for shapes in ("same", "alternating", "both", "last")
        if (name, shapes) != ("PRelu", "both")  # a slope broadcasts to the input's shape only
    ],
)
def test_pairs(name: str, shapes: str, rank: int) -> None:
    shape = SIZES[:rank]
    second = {"same": shape, "alternating": other(shape), "both": other(shape), "last": shape[-1:]}[shapes]
    first = tuple(1 if axis % 2 == 0 else size for axis, size in enumerate(shape)) if shapes == "both" else shape
    x, y = drawn("float", first), drawn("float", second, 4)
    compared(name, {"a": np.abs(x) if name == "Pow" else x, "b": y}, {})


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("name", ["And", "Or", "Xor", "Equal"])
def test_pairs_of_booleans(name: str, rank: int) -> None:
    shape = SIZES[:rank]
    compared(name, {"a": drawn("bool", shape), "b": drawn("bool", other(shape), 4)}, {})


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(
    "name",
    [
        *("Abs", "Ceil", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN"),
        *("LeakyRelu", "Neg", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Tanh"),
    ],
)
def test_single_elements(name: str, rank: int) -> None:
    compared(name, {"a": drawn("float", SIZES[:rank])}, {})


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("axes", ["even", "odd", "all"])
@pytest.mark.parametrize("name", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceProd"])
def test_reductions(name: str, axes: str, rank: int) -> None:
    reduced = {"even": range(0, rank, 2), "odd": range(1, rank, 2), "all": range(rank)}[axes]
    compared(name, {"a": drawn("float", SIZES[:rank])}, {"b": ints(*reduced)}, keepdims=int(axes == "odd"))


@pytest.mark.parametrize("device", DEVICES)
def test_logarithms_of_sums_of_exponentials_may_be_infinite(device: str) -> None:
    rows = [[1, np.inf, 2], [np.inf, np.inf, 0], [-np.inf] * 3, [-np.inf, 1, 2], [3e38, 3e38, -3e38], [np.nan, 1, 2]]
    x = np.array(rows, np.float32)
    node = op("ReduceLogSumExp", "x axes", "y", keepdims=0)
    made = model([node], {"x": (x.dtype, x.shape)}, ["y"], {"axes": ints(1)})
    with np.errstate(all="ignore"):
        expected = np.logaddexp.reduce(x, axis=1)
    np.testing.assert_allclose(load(made, device=device)(x), expected, rtol=1e-6)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("axis", [0, 2, -1])
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "ArgMax", "ArgMin"])
def test_along_an_axis(name: str, axis: int, rank: int) -> None:
    compared(name, {"a": drawn("float", SIZES[:rank])}, {}, axis=axis)


@pytest.mark.parametrize("rank", RANKS)
def test_normalisations(rank: int) -> None:
    shape = SIZES[:rank]
    x = {"a": drawn("float", shape)}
    ends = {"b": drawn("float", shape[2:], 4), "c": drawn("float", shape[2:], 5)}
    compared("LayerNormalization", x, ends, axis=2)
    channels = {key: np.abs(drawn("float", shape[1:2], seed)) for seed, key in enumerate("bcde")}
    compared("BatchNormalization", x, channels)
    compared("InstanceNormalization", x, {"b": channels["b"], "c": channels["c"]})


@pytest.mark.parametrize("rank", RANKS)
def test_products(rank: int) -> None:
    shape = SIZES[: rank - 2]
    x, y = drawn("float", (*shape, 2, 5)), drawn("float", (*shape, 5, 3), 4)
    compared("MatMul", {"a": x, "b": y}, {})
    compared("MatMul", {"a": x, "b": drawn("float", (*other(shape), 5, 3), 4)}, {})
    compared("MatMul", {"a": x}, {"b": drawn("float", (5, 3), 4)})


MOVES: dict[str, Any] = {
    "Cast": lambda x: compared("Cast", {"a": x}, {}, to=1),
    "Compress": lambda x: compared("Compress", {"a": x}, {"b": np.array([True, False, True])}, axis=1),
    "Concat": lambda x: compared("Concat", {"a": x, "b": x[:, :2]}, {}, axis=1),
    "CumSum": lambda x: compared("CumSum", {"a": x}, {"b": np.array(1, np.int64)}),
    "Expand": lambda x: compared("Expand", {"a": x[:, :1, :1]}, {"b": ints(*x.shape)}),
    "Flatten": lambda x: compared("Flatten", {"a": x}, {}, axis=2),
    "Gather": lambda x: compared("Gather", {"a": x}, {"b": ints([2, 0], [0, -1])}, axis=1),
    "GatherElements": lambda x: compared(
        "GatherElements", {"a": x, "b": np.random.default_rng(6).integers(-3, 3, x.shape)}, {}, axis=1
    ),
    "GatherND": lambda x: compared("GatherND", {"a": x}, {"b": ints([1, 2, 1], [0, -1, 0])}),
    "GatherND of all axes": lambda x: compared(
        "GatherND", {"a": x, "b": ints([size - 1 for size in x.shape], [-1] * x.ndim)}, {}
    ),
    "GatherND of batches": lambda x: compared("GatherND", {"a": x}, {"b": ints([1, 1], [2, 0])}, batch_dims=1),
    "OneHot": lambda x: compared(
        "OneHot", {"a": np.random.default_rng(6).integers(-4, 4, x.shape[1:])}, {"b": ints(4), "c": ints(2, 5)}, axis=2
    ),
    "Pad": lambda x: compared("Pad", {"a": x}, {"b": ints(*([0, 1] * 4)[: x.ndim], *([1, 0] * 4)[: x.ndim])}),
    "Pad edge": lambda x: compared(
        "Pad", {"a": x}, {"b": ints(*([0, 1] * 4)[: x.ndim], *([1, 0] * 4)[: x.ndim])}, mode="edge"
    ),
    "Reshape": lambda x: compared("Reshape", {"a": x}, {"b": ints(*x.shape[::-1])}),
    "ReverseSequence": lambda x: compared("ReverseSequence", {"a": x}, {"b": ints(2, 3)}, batch_axis=0, time_axis=1),
    "ScatterElements": lambda x: compared(
        "ScatterElements",
        {
            "a": x,
            "b": np.random.default_rng(6)
            .permuted(np.broadcast_to(np.arange(3)[:, None], x[0].reshape(3, -1).shape), axis=0)
            .reshape(x[:1].shape),
            "c": x[1:2],
        },
        {},
        axis=1,
    ),
    "ScatterND": lambda x: compared(
        "ScatterND", {"a": x, "b": ints([1, 2], [0, 1]), "c": x.reshape(6, *x.shape[2:])[:2]}, {}
    ),
    "ScatterND of all axes": lambda x: compared(
        "ScatterND", {"a": x, "b": ints([size - 1 for size in x.shape], [0] * x.ndim), "c": x.reshape(-1)[1:3]}, {}
    ),
    "Slice": lambda x: compared(
        "Slice", {"a": x}, {"b": ints(1, 0, -1), "c": ints(9, 2, -9), "d": ints(0, 1, 4), "e": ints(1, 1, -1)}
    ),
    "Split": lambda x: compared("Split", {"a": x}, {"b": ints(1, 2)}, axis=1, outputs=2),
    "Squeeze": lambda x: compared("Squeeze", {"a": x}, {"b": ints(3)}),
    "Tile": lambda x: compared("Tile", {"a": x}, {"b": ints(*([2, 1] * 4)[: x.ndim])}),
    "TopK": lambda x: compared("TopK", {"a": x}, {"b": ints(2)}, axis=1, outputs=2),
    "Transpose": lambda x: compared("Transpose", {"a": x}, {}, perm=[*range(1, x.ndim, 2), *range(0, x.ndim, 2)]),
    "Trilu": lambda x: compared("Trilu", {"a": x}, {}),
    "Unsqueeze": lambda x: compared("Unsqueeze", {"a": x[0]}, {"b": ints(1)}),
    "Where": lambda x: compared("Where", {"a": drawn("bool", other(x.shape)), "b": x, "c": x[..., :1]}, {}),
}


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in MOVES for kind in KINDS if kind != "bool" or name not in NO_BOOLEANS]
)
def test_moves(name: str, kind: str, rank: int) -> None:
    """Elements of every type."""
    MOVES[name](drawn(kind, SIZES[:rank]))


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("kind", KINDS)
def test_branches(kind: str, rank: int) -> None:
    """Tensors go into a branch, and come out of it."""
    x = drawn(kind, SIZES[:rank])
    branches = {
        "then_branch": subgraph([op("Transpose", "x", "y")], ["y"], types={"y": (x.dtype, x.shape[::-1])}),
        "else_branch": subgraph([op("Reshape", "x back", "z")], ["z"], types={"z": (x.dtype, x.shape[::-1])}),
    }
    made = model(
        [op("If", "c", "out", **branches)],
        {"c": (np.bool_, [1]), "x": (x.dtype, x.shape)},
        ["out"],
        {"back": ints(*x.shape[::-1])},
    )
    for flag in (True, False):
        check(made, {"c": np.array([flag]), "x": x})
