"""Nodes of ONNX whose inputs are constants: those that are computed at import, their cost, and those that are not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import NodeProto, TensorProto, numpy_helper
from onnx_case import I64, F, ints
from onnx_net import element, model, op
from onnx_spent import Spent, watched

import nnvk
from nnvk.importers.budget import Budget
from nnvk.importers.errors import Unmapped
from nnvk.importers.onnx import folding, load
from nnvk.importers.onnx.folding import folded
from nnvk.importers.onnx.node import Node
from nnvk.importers.onnx.tensors import Tensor, constant

NODE = 8192
"""The work of a node whose inputs are constants, beside that of its elements."""


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Spent:
    return watched(monkeypatch)


def zeros(*shape: int, dtype: Any = F) -> np.ndarray:
    return np.zeros(shape, dtype)


A, PLACES = zeros(7, 11), zeros(3, 11, dtype=I64)
FOLDED: dict[str, tuple[dict[str, np.ndarray], dict[str, Any], int, int, int]] = {
    # the inputs, the attributes, the most elements of outputs, the elements that are read, the elements of outputs
    "Add": ({"a": A, "b": zeros(11)}, {}, 77, 88, 77),
    "Neg": ({"a": A}, {}, 77, 77, 77),
    "Concat": ({"a": A, "b": zeros(5, 11)}, {"axis": 0}, 132, 132, 132),
    "MatMul": ({"a": A, "b": zeros(11, 5)}, {}, 77 * 55, 77 + 55, 35),
    "Einsum": ({"a": A, "b": zeros(11, 5)}, {"equation": "ij,jk->ik"}, 77 * 55, 77 * 55 // 8 + 77 + 55, 35),
    "Gather": ({"a": A, "b": ints(1, 2, 5)}, {"axis": 1}, 77 * 3, 3, 21),
    "GatherElements": ({"a": A, "b": PLACES}, {}, 77 * 33, 64 * 33, 64 * 33),
    "GatherND": ({"a": A, "b": ints(1, 2, 5).reshape(3, 1)}, {}, 77 * 3, 64 * 3, 64 * 33),
    "ScatterElements": ({"a": A, "b": PLACES, "c": zeros(3, 11)}, {}, 77, 64 * 143, 64 * 77),
    "ScatterND": ({"a": A, "b": ints(1, 2).reshape(2, 1), "c": zeros(2, 11)}, {}, 77, 64 * 101, 64 * 77),
    "Unique": ({"a": zeros(13)}, {}, 13, 16 * 13, 16),
    "Shape": ({"a": A}, {}, 77, 0, 2),
    "Size": ({"a": A}, {}, 77, 0, 1),
    "Slice": ({"a": A, "b": ints(1), "c": ints(3)}, {}, 77, 2, 22),
    "Expand": ({"a": zeros(1, 11), "b": ints(7, 1)}, {}, 77, 13, 77),
    "Tile": ({"a": zeros(5, 11), "b": ints(2, 3)}, {}, 330, 57, 330),
    "OneHot": ({"a": ints(1, 2, 0), "b": np.array(5), "c": zeros(2)}, {}, 15, 6, 15),
    "Pad": ({"a": zeros(5, 11), "b": ints(0, 1, 0, 2)}, {}, 9 * 15, 59, 70),
    "Range": ({"a": np.array(3), "b": np.array(20), "c": np.array(3)}, {}, 6, 3, 6),
    "ConstantOfShape": ({"a": ints(5, 7)}, {}, 35, 2, 35),
    "HannWindow": ({"a": np.array(13)}, {}, 4 * 13, 1, 13),
    "HammingWindow": ({"a": np.array(13)}, {}, 4 * 13, 1, 13),
    "BlackmanWindow": ({"a": np.array(13)}, {}, 4 * 13, 1, 13),
    "MelWeightMatrix": (
        {"a": np.array(4), "b": np.array(16), "c": np.array(8000), "d": np.array(0, F), "e": np.array(4000, F)},
        {},
        4 * 9,
        5,
        36,
    ),
}


def checked(name: str, most: int) -> int:
    """The bytes that are asked for: elements as those of the largest input have them, or the memory behind a view."""
    largest = max(FOLDED[name][0].values(), key=lambda one: one.size)
    return {"Slice": 77 * 4, "Expand": 11 * 4, "ConstantOfShape": 4}.get(name, most * largest.itemsize)


def test_all_constants_that_are_computed(spent: Spent) -> None:
    """Each operator's own formula of what it may give."""
    for name, (constants, attributes, most, read, given) in FOLDED.items():
        spent.clear()
        done = folded(
            Node(op(name, " ".join(constants), "y", **attributes), 18, 0),
            [constant(one) for one in constants.values()],
            Budget(0),
        )
        assert done is not None
        works = [amount for (kind, amount), count in spent.items() if kind == "work" for _ in range(count)]
        assert sorted(works) == sorted([NODE + read, given]), name
        assert spent["check", checked(name, most)] >= 1, name


@pytest.mark.parametrize("name", FOLDED)
def test_constants_that_are_computed(name: str, spent: Spent) -> None:
    constants, attributes, most, read, given = FOLDED[name]
    nodes = [op(name, " ".join(constants), "unread", **attributes), op("Neg", "x", "y")]
    load(model(nodes, {"x": (F, [1])}, ["y"], constants).SerializeToString())
    assert spent["check", checked(name, most)] >= 1
    works = [amount for (kind, amount), count in spent.items() if kind == "work" for _ in range(count)]
    assert sorted(works) == sorted([NODE + read, given])


@pytest.mark.parametrize("largest", [True, False])
def test_constants_that_are_too_large_to_be_computed(largest: bool, spent: Spent) -> None:
    """From 2^24 elements on the model computes them."""
    shape = ints(1 << 12, (1 << 12) + (not largest))
    nodes = [op("Tile", "a b", "c"), op("Neg", "x", "y")]
    load(model(nodes, {"x": (F, [1])}, ["y"], {"a": zeros(1, 1), "b": shape}).SerializeToString())
    assert bool(spent["charge", 4 << 24]) == largest


@pytest.mark.parametrize("dtype", [F, np.float16])
@pytest.mark.parametrize(("count", "is_late"), [(4096, True), (4095, False)])
def test_large_constants_in_another_order(dtype: Any, count: int, is_late: bool, spent: Spent) -> None:
    """Constants from 16 KiB on are made when they are looked at."""
    count *= 4 // np.dtype(dtype).itemsize
    nodes = [op("Transpose", "a", "b"), op("Identity", "x", "y")]
    load(model(nodes, {"x": (F, [1])}, ["y"], {"a": zeros(1, count, dtype=dtype)}).SerializeToString())
    works = [amount for kind, amount in spent if kind == "work"]
    assert works == ([] if is_late else [NODE + count, count])
    assert spent["charge", count * np.dtype(dtype).itemsize] == 2  # when it is read, and in the other order


@pytest.mark.parametrize("count", [4, 40000])
@pytest.mark.parametrize("target", [F, np.float64, np.float16, I64])
@pytest.mark.parametrize("source", [np.float16, np.float64, np.int8, ml_dtypes.bfloat16, ml_dtypes.int4], ids=str)
def test_casts_of_constants(source: Any, target: Any, count: int) -> None:
    """Small ones, and large ones of which some are cast when they are looked at."""
    array = (np.arange(count) % 15 - 7).astype(source)
    node = Node(op("Cast", "a", "y", to=int(element(target))), 21, 0)
    done = folded(node, [constant(array)], Budget(0))
    assert done is not None
    assert done[0].dtype == target
    np.testing.assert_array_equal(done[0].array, array.astype(target))


@pytest.mark.parametrize("order", [None, [1, 0], [0, 1], [0, 0], [0]], ids=str)
@pytest.mark.parametrize("count", [4, 9000])
def test_orders_of_constants(order: list[int] | None, count: int) -> None:
    """An order that is none is refused by whoever maps the node, or by the reference."""
    array = np.arange(2 * count, dtype=F).reshape(2, count)
    node = Node(op("Transpose", "a", "y", **({} if order is None else {"perm": order})), 21, 0)
    if order in ([0, 0], [0]):
        with pytest.raises(Unmapped, match="its inputs do not fit together"):
            folded(node, [constant(array)], Budget(0))
        return
    done = folded(node, [constant(array)], Budget(0))
    assert done is not None
    np.testing.assert_array_equal(done[0].array, array.transpose(order or [1, 0]))


def test_nodes_that_are_left_to_the_model() -> None:
    """Those of other domains, with an input that is no constant, without inputs, and those that make texts."""
    known = constant(np.ones(2, F))
    assert folded(Node(op("Neg", "a", "y"), 21, 0), [known], Budget(0)) is not None
    assert folded(Node(op("Neg", "a", "y", domain="d"), 21, 0), [known], Budget(0)) is None
    assert folded(Node(op("Add", "a b", "y"), 21, 0), [known, Tensor(np.dtype(F), (2,))], Budget(0)) is None
    assert folded(Node(op("RandomNormal", "", "y", shape=[2]), 21, 0), [], Budget(0)) is None
    assert folded(Node(op("Conv", "a b", "y"), 21, 0), [known, known], Budget(0)) is None
    assert folded(Node(op("Cast", "a", "y", to=8), 21, 0), [known], Budget(0)) is None


@pytest.mark.parametrize("name", ["OneHot", "Pad"])
def test_nodes_that_the_reference_does_not_compute(name: str) -> None:
    """ONNX's reference takes no depth of shape [1], and no negative pads, both of which the operators allow."""
    node, arrays, expected = {
        "OneHot": (op("OneHot", "a b c", "y"), [ints(1, -1), ints(3), np.float32([2, 7])], [[2, 7, 2], [2, 2, 7]]),
        "Pad": (op("Pad", "a b c", "y"), [np.float32([1, 2, 3]), ints(-1, 2), np.float32(9)], [2, 3, 9, 9]),
    }[name]
    assert folded(Node(node, 18, 0), [constant(array) for array in arrays], Budget(0)) is None
    net = model([node, op("Mul", "x y", "z")], {"x": (F, (1,))}, "z", dict(zip("abc", arrays, strict=True)), opset=18)
    with nnvk.load(net.SerializeToString(), device="cpu") as loaded:
        np.testing.assert_array_equal(loaded(np.float32([2])), 2 * np.float32(expected))


REFUSED = {
    "above": (op("Gather", "a b", "y"), [zeros(3, 4), ints(3)], "its indices must lie between -3 and 2, got 3 to 3"),
    "below": (
        op("Gather", "a b", "y"),
        [zeros(3, 4), ints(1, -4)],
        "its indices must lie between -3 and 2, got -4 to 1",
    ),
    "axis": (
        op("Gather", "a b", "y", axis=1),
        [zeros(3, 4), ints(4)],
        "its indices must lie between -4 and 3, got 4 to 4",
    ),
    "no axis": (
        op("Gather", "a b", "y", axis=2),
        [zeros(3, 4), ints(0)],
        "its indices must lie between 0 and -1, got 0 to 0",
    ),
    "elements": (
        op("GatherElements", "a b", "y"),
        [zeros(3), ints(3)],
        "its indices must lie between -3 and 2, got 3 to 3",
    ),
    "scatter": (
        op("ScatterElements", "a b c", "y"),
        [zeros(3), ints(-4), zeros(1)],
        "its indices must lie between -3 and 2, got -4 to -4",
    ),
    "parts": (op("Split", "a", "y z", num_outputs=3), [zeros(6)], "it has 2 outputs, num_outputs says 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_constants_that_are_refused(name: str) -> None:
    node, arrays, reason = REFUSED[name]
    with pytest.raises(Unmapped) as raised:
        folded(Node(node, 18, 0), [constant(array) for array in arrays], Budget(0))
    assert str(raised.value) == reason


@pytest.mark.parametrize(
    "node",
    [op("Constant", "", "y z", value=numpy_helper.from_array(zeros(2))), op("ConstantOfShape", "a", "y z")],
    ids=["Constant", "ConstantOfShape"],
)
def test_operators_with_an_output_too_many(node: NodeProto) -> None:
    with pytest.raises(Unmapped, match="its inputs do not fit together"):
        folded(Node(node, 18, 0), [constant(ints(2)) for _ in node.input], Budget(0))


def test_the_reference_is_made_once_for_nodes_that_differ_in_names() -> None:
    for kind, size in (("Shape", 3), ("Shape", 4), ("Size", 3)):
        for name in "ab":
            node = Node(op(kind, name, f"{name}{size}"), 18, 0)
            (got,) = folded(node, [constant(zeros(size))], Budget(0)) or ()
            assert got.array.item() == size
    before = folding._kept_reference.cache_info()
    folded(Node(op("Shape", "c", "d"), 18, 0), [constant(zeros(5))], Budget(0))
    after = folding._kept_reference.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)
    large = op("Cast", "a", "b", to=TensorProto.INT64)
    large.attribute[0].doc_string = "x" * 2000
    (got,) = folded(Node(large, 18, 0), [constant(np.array([7], np.int32))], Budget(0)) or ()
    assert got.array.item() == 7
    assert folding._kept_reference.cache_info() == after  # one that takes much memory is not kept


def test_constants_that_are_at_the_ends() -> None:
    for node, arrays in (
        (op("Gather", "a b", "y"), [zeros(3, 4), ints(2, -3)]),
        (op("Gather", "a b", "y", axis=-1), [zeros(3, 4), ints(3, -4)]),
        (op("Gather", "a b", "y"), [zeros(3, 4), np.zeros(0, I64)]),
        (op("Split", "a", "y z", num_outputs=2), [zeros(6)]),
    ):
        assert folded(Node(node, 18, 0), [constant(array) for array in arrays], Budget(0)) is not None


@pytest.mark.usefixtures("libraries")
def test_onnxruntime_computes_where_onnxs_reference_is_wrong() -> None:
    pytest.importorskip("onnxruntime")
    a = np.arange(6, dtype=F).reshape(1, 2, 3)
    exp = np.exp(a - a.max())
    half = np.full((1, 4000), 20, np.float16)
    cases: list[tuple[str, list[np.ndarray], dict[str, Any], int, np.ndarray]] = [
        ("Softmax", [a], {"axis": 1}, 11, exp / exp.sum()),
        ("LogSoftmax", [np.array([[-200, 0]], F)], {"axis": 1}, 13, np.array([[-200, 0]], F)),
        ("Unsqueeze", [a], {"axes": [-1, 0]}, 11, a.reshape(1, 1, 2, 3, 1)),
        ("ReduceMean", [half], {"axes": [1]}, 13, np.array([[20]], np.float16)),
        (
            "GatherElements",
            [np.arange(40, dtype=F)[np.newaxis], np.full((1, 2), 39)],
            {"axis": 1},
            13,
            np.full((1, 2), 39, F),
        ),
    ]
    for kind, arrays, attributes, version, want in cases:
        names = [f"c{place}" for place in range(len(arrays))]
        node = Node(op(kind, " ".join(names), "y", **attributes), version, 0)
        (got,) = folded(node, [constant(array) for array in arrays], Budget(1 << 20)) or ()
        assert (got.array.dtype, got.shape) == (want.dtype, want.shape), kind
        np.testing.assert_allclose(got.array, want, rtol=1e-3, atol=1e-6, err_msg=kind)
