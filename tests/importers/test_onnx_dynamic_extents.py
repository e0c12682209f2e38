"""Outputs of which data decide how large they are, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op, subgraph
from onnx_oracle import check

from nnvk.importers.onnx import OnnxImportError, load

F = np.float32


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def flags(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).random(shape) < 0.3


# --- NonZero and Compress ------------------------------------------------------------------------------------

FOUND = {
    "some": np.where(flags(3, 5, 2), drawn(3, 5, 2), 0).astype(F),
    "none": np.zeros((3, 5, 2), F),
    "all": np.ones((7,), F),
    "whole numbers": np.array([[0, -3], [7, 0]]),
    "booleans": flags(4, 3, 2, 3),
}


@pytest.mark.parametrize("case", FOUND)
def test_non_zero(case: str) -> None:
    x = FOUND[case]
    imported = check(model([op("NonZero", "x", "y")], {"x": (x.dtype, x.shape)}, ["y"]), {"x": x})
    (port,) = imported.outputs
    assert port.shape == (x.ndim, -1)
    assert port.type.dimensions == (x.ndim, 0)


@pytest.mark.parametrize("attributes", [{}, {"axis": 0}, {"axis": 1}])
def test_compress(attributes: dict[str, int]) -> None:
    x = drawn(4, 5)
    size = x.size if not attributes else x.shape[attributes["axis"]]
    net = model([op("Compress", "x f", "y", **attributes)], {"x": (F, [4, 5]), "f": (np.bool_, [size])}, ["y"])
    check(net, {"x": x, "f": flags(size)})


# --- what is made of them ------------------------------------------------------------------------------------

THROUGH: dict[str, list[Any]] = {
    "elements": [op("Gather", "x i", "g", axis=0), op("Mul", "g g", "y")],
    "rows": [op("Transpose", "n", "t"), op("GatherND", "x t", "g"), op("Cast", "g", "y", to=7)],
    "other shapes": [op("Unsqueeze", "i one", "u"), op("Reshape", "u flat", "s"), op("Add", "s s", "y")],
    "products": [op("Gather", "x i", "g"), op("MatMul", "g w", "m"), op("ReduceMax", "m", "y", axes=[1], keepdims=0)],
    "softmax": [op("Gather", "x i", "g"), op("Softmax", "g", "y", axis=1)],
    "joined": [op("Gather", "x i", "g"), op("Neg", "g", "h"), op("Concat", "g h", "y", axis=1)],
    "booleans": [op("Gather", "x i", "g"), op("Greater", "g zero", "y")],
    "its size": [op("Shape", "n", "y")],
    "columns": [op("Gather", "x i", "g"), op("Slice", "g one two one", "y")],
    "all rows": [op("Gather", "x i", "g"), op("Slice", "g nothing most", "y")],
    "all rows, some columns": [op("Gather", "x i", "g"), op("Slice", "g begins ends", "y")],
    "turned": [op("Gather", "x i", "g"), op("Transpose", "g", "t"), op("Neg", "t", "y")],
    "turned twice": [op("Gather", "x i", "g"), op("Transpose", "g", "t"), op("Transpose", "t", "y", perm=[1, 0])],
    "places of the largest": [op("Gather", "x i", "g"), op("ArgMax", "g", "y", axis=1, keepdims=0)],
    "sums that stay": [op("Gather", "x i", "g"), op("ReduceMean", "g", "y", axes=[-1], keepdims=1)],
    "parts": [op("Gather", "x i", "g"), op("Split", "g pieces", "y z", axis=1)],
    "the largest": [op("Gather", "x i", "g"), op("TopK", "g two_", "y z")],
    "an affine product": [op("Gather", "x i", "g"), op("Gemm", "g w", "y")],
    "a transposed product": [op("Gather", "x i", "g"), op("Transpose", "g", "t"), op("Gemm", "t w", "y", transA=1)],
    "sums up to each": [op("Gather", "x i", "g"), op("CumSum", "g zeroth", "y")],
    "sums before each": [op("CumSum", "i zeroth", "y", exclusive=1)],
    "sums along columns": [op("Gather", "x i", "g"), op("CumSum", "g last", "y", reverse=1)],
    "a squeezed axis": [op("Unsqueeze", "i one", "u"), op("Squeeze", "u one", "y")],
}


@pytest.mark.parametrize("case", THROUGH)
def test_passes_through(case: str) -> None:
    first = [
        op("Greater", "x zero", "f"),
        op("NonZero", "f", "n"),
        op("Gather", "n zeroth", "i", axis=0),
        *THROUGH[case],
    ]
    constants = {
        "zero": np.array(0.5, F),
        "zeroth": np.array(0),
        "one": np.array([1]),
        "last": np.array(-1),
        "flat": np.array([-1]),
        "w": drawn(5, 3, seed=1),
        "nothing": np.array([0]),
        "two": np.array([4]),
        "two_": np.array([2]),
        "most": np.array([35]),
        "begins": np.array([0, 2]),
        "ends": np.array([100, 4]),
        "pieces": np.array([2, 3]),
    }
    check(model(first, {"x": (F, [7, 5])}, ["y"], constants, opset=13), {"x": drawn(7, 5)})


REFUSED = {
    "sum": ([op("ReduceSum", "i", "y", keepdims=0)], "works along axis 0, whose size data decide"),
    "meets a constant": ([op("Add", "i numbers", "y")], "meets one of a size that data decide"),
    "sorted": ([op("TopK", "i two", "y p")], "works along axis 0, whose size data decide"),
    "no rule": ([op("Tile", "i one", "y")], "data decide the size of its input"),
    "sums from the back": ([op("CumSum", "i axis", "y", reverse=1)], "works along axis 0, whose size data decide"),
    "a size": ([op("Shape", "i", "s"), op("Expand", "x s", "y")], "must be a constant"),
    "a slice from 1 on": ([op("Slice", "i one six", "y")], "it takes a part of axis 0, whose size data decide"),
    "a slice up to 2": ([op("Slice", "i zeroth two", "y")], "it takes a part of axis 0, whose size data decide"),
    "every second": (
        [op("Slice", "i zeroth six zeroth two", "y")],
        "it takes a part of axis 0, whose size data decide",
    ),
    "backwards": ([op("Slice", "i last least zeroth last", "y")], "it takes a part of axis 0, whose size data decide"),
    "joined along it": ([op("Concat", "i i", "y", axis=0)], "axis 0, whose size data decide"),
    "split": ([op("Split", "i", "y z", axis=0)], "works along axis 0, whose size data decide"),
    "the largest of all": ([op("ArgMax", "i", "y", axis=0)], "works along axis 0, whose size data decide"),
    "softmax along it": ([op("Cast", "i", "r", to=1), op("Softmax", "r", "y")], "works along axis 0"),
    "a batch": ([op("GatherND", "n t", "y", batch_dims=1)], "data decide the size"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    nodes, message = REFUSED[case]
    nodes = [op("NonZero", "x", "n"), op("Squeeze", "n zeroth", "i"), *nodes]
    constants = {
        "zeroth": np.array([0]),
        "numbers": np.arange(6),
        "two": np.array([2]),
        "axis": np.array(0),
        "one": np.array([1]),
        "six": np.array([6]),
        "last": np.array([-1]),
        "least": np.array([-7]),
        "t": np.array([[0]]),
    }
    with pytest.raises(OnnxImportError, match=message):
        load(model(nodes, {"x": (F, [6])}, ["y"], constants).SerializeToString())


def test_branches_take_none() -> None:
    branch = [subgraph([op("Neg", "i", "o")], ["o"]), subgraph([op("Abs", "i", "o")], ["o"])]
    nodes = [op("NonZero", "x", "i"), op("If", "c", "y", then_branch=branch[0], else_branch=branch[1])]
    net = model(nodes, {"x": (F, [6]), "c": (np.bool_, [1])}, ["y"])
    with pytest.raises(OnnxImportError, match="data decide the size of tensor 'i', which goes into a branch"):
        load(net.SerializeToString())


# --- NonMaxSuppression ---------------------------------------------------------------------------------------


def boxes(batches: int, count: int, *, centres: bool = False, turned: bool = False) -> np.ndarray:
    """Boxes of which many overlap."""
    rng = np.random.default_rng(2)
    centre, size = rng.random((batches, count, 2)), rng.uniform(0.1, 0.5, (batches, count, 2))
    if centres:
        return np.concatenate([centre, size], 2).astype(F)
    corners = [centre - size / 2, centre + size / 2]
    return np.concatenate(corners[::-1] if turned else corners, 2).astype(F)


def limits(most: int, overlap: float | None = None, least: float | None = None) -> dict[str, np.ndarray]:
    """The parameters, in the order of the inputs."""
    reals = {name: np.array([one], F) for name, one in (("overlap", overlap), ("least", least)) if one is not None}
    return {"most": np.array([most]), **reals}


NMS: dict[str, tuple[np.ndarray, int, dict[str, np.ndarray], dict[str, Any]]] = {
    "all limits": (boxes(1, 23), 1, limits(5, 0.4, 0.3), {}),
    "classes": (boxes(2, 17), 3, limits(4, 0.5, 0.5), {}),
    "no threshold": (boxes(1, 11), 2, limits(100, 0.2), {}),
    "no overlap": (boxes(1, 11), 1, limits(100), {}),
    "centres": (boxes(1, 19, centres=True), 1, limits(9, 0.3), {"center_point_box": 1}),
    "turned": (boxes(1, 19, turned=True), 1, limits(9, 0.3), {}),
    "none": (boxes(1, 5), 1, limits(3, 0.5, 2.0), {}),
    "no limit": (boxes(2, 19), 2, limits(2**62, 0.3, -np.inf), {}),
    "all thresholds 0": (boxes(1, 19), 2, limits(9, 0.0, 0.0), {}),
    "threshold 1": (boxes(1, 19), 2, limits(9, 1.0), {}),
    "many": (boxes(1, 1301), 3, limits(700, 0.6, 0.1), {}),
}


@pytest.mark.parametrize("case", NMS)
def test_non_max_suppression(case: str) -> None:
    places, classes, parameters, attributes = NMS[case]
    scores = np.random.default_rng(4).random((places.shape[0], classes, places.shape[1])).astype(F)
    names = " ".join(["b s", *parameters])
    net = model(
        [op("NonMaxSuppression", names, "y", **attributes)],
        {"b": (F, places.shape), "s": (F, scores.shape)},
        ["y"],
        parameters,
    )
    check(net, {"b": places, "s": scores})


ODD: dict[str, tuple[Any, dict[str, Any]]] = {
    "without area": ([[0, 0, 1, 1], [0.5, 0, 0.5, 1], [0.5, 0, 0.5, 1], [2, 2, 2, 2], [0, 0, 0.9, 1]], {}),
    "overlaps that are the threshold": ([[0, 0, 4, 4], [0, 0, 4, 2], [0, 1, 4, 3], [0, 0, 2, 4], [0, 0, 4, 2.1]], {}),
    "corners in any order": ([[1, 0, 0, 1], [0, 1, 0.9, 0], [1, 1, 0.1, 0], [5, 5, 4, 4], [4, 5, 5, 4]], {}),
    "sizes below 0": (
        [[1, 1, 1, 1], [1, 1, -1, -1], [1, 1, -1, 1], [1, 1, 1.1, 1], [1, 1, 0, 0]],
        {"center_point_box": 1},
    ),
    "infinite": ([[0, 0, np.inf, 1], [0, 0, np.inf, 1], [0, 0, 1, 1], [-np.inf, 0, 1, 1], [0, 0, 1, 0.9]], {}),
    "no numbers": ([[0, 0, np.nan, 1], [0, np.nan, 1, 1], [0, 0, 1, 1], [np.nan, 0, 1, 1], [0, 0, 1, 0.9]], {}),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_boxes(case: str) -> None:
    rows, attributes = ODD[case]
    places, scores = np.array([rows], F), np.linspace(1, 0.5, 5, dtype=F).reshape(1, 1, 5)
    nodes = [op("NonMaxSuppression", "b s most overlap", "y", **attributes)]
    net = model(nodes, {"b": (F, places.shape), "s": (F, scores.shape)}, ["y"], limits(5, 0.5))
    for order in (slice(None), slice(None, None, -1)):
        check(net, {"b": places[:, order], "s": scores})


@pytest.mark.parametrize("least", [None, -np.inf, 0.0])
def test_odd_scores(least: float | None) -> None:
    places, scores = boxes(1, 19), np.random.default_rng(4).integers(-2, 3, (1, 2, 19)).astype(F)
    scores[..., 3], scores[..., 8], scores[..., 11] = np.inf, -np.inf, np.finfo(F).min
    parameters = limits(19, 0.4, least)
    nodes = [op("NonMaxSuppression", " ".join(["b s", *parameters]), "y")]
    check(model(nodes, {"b": (F, places.shape), "s": (F, scores.shape)}, ["y"], parameters), {"b": places, "s": scores})


def test_equal_scores_and_boxes() -> None:
    places = np.repeat(boxes(1, 3), 3, 1)
    net = model(
        [op("NonMaxSuppression", "b s most overlap", "y")],
        {"b": (F, places.shape), "s": (F, [1, 1, 9])},
        ["y"],
        {"most": np.array([9]), "overlap": np.array([0.9], F)},
    )
    check(net, {"b": places, "s": np.ones((1, 1, 9), F)})


def test_thresholds_come_with_the_execution() -> None:
    places = boxes(1, 13)
    net = model(
        [op("NonMaxSuppression", "b s most overlap least", "y")],
        {"b": (F, places.shape), "s": (F, [1, 1, 13]), "overlap": (F, [1]), "least": (F, [1])},
        ["y"],
        {"most": np.array([9])},
    )
    scores = np.random.default_rng(4).random((1, 1, 13)).astype(F)
    check(net, {"b": places, "s": scores, "overlap": np.array([0.4], F), "least": np.array([0.2], F)})


def test_boxes_that_were_picked() -> None:
    places = boxes(1, 23)
    nodes = [
        op("NonMaxSuppression", "b s most overlap", "n"),
        op("Gather", "n two", "i", axis=1),
        op("Squeeze", "i one", "flat"),
        op("Gather", "b flat", "g", axis=1),
        op("Gather", "s flat", "scores", axis=2),
    ]
    constants = {"most": np.array([7]), "overlap": np.array([0.4], F), "two": np.array([2]), "one": np.array([1])}
    net = model(nodes, {"b": (F, places.shape), "s": (F, [1, 1, 23])}, ["g", "scores"], constants)
    check(net, {"b": places, "s": np.random.default_rng(4).random((1, 1, 23)).astype(F)})


# --- the axis whose size data decide, in every operator that takes it -------------------------------------------------

SHAPE = (5, 4, 3)
AXES = (0, 1, 2)
Passed = Callable[[int], int | None]
"""The axis of the output by that of the input; None where it is refused."""


def other_than(axis: int) -> Passed:
    return lambda own: None if own == axis else own


def before(axis: int) -> Passed:
    return lambda own: own if own < axis else None


def without(axis: int) -> Passed:
    return lambda own: None if own == axis else own - (axis < own)


RULES: dict[str, tuple[int, list[Any], Passed]] = {
    "an element": (13, [op("Neg", "r", "y")], lambda own: own),
    "a pair": (13, [op("Mul", "r r", "y")], lambda own: own),
    **{f"Softmax along {at}": (13, [op("Softmax", "r", "y", axis=at)], other_than(at)) for at in AXES},
    "Softmax": (13, [op("Softmax", "r", "y")], other_than(2)),
    **{f"Softmax from {at} on": (11, [op("Softmax", "r", "y", axis=at)], before(at)) for at in AXES},
    "Softmax of old": (11, [op("Softmax", "r", "y")], before(1)),
    **{
        f"LayerNormalization from {at} on": (17, [op("LayerNormalization", f"r g{at}", "y", axis=at)], before(at))
        for at in AXES
    },
    "LayerNormalization": (17, [op("LayerNormalization", "r g2", "y")], before(2)),
    **{f"ReduceMax along {at}": (13, [op("ReduceMax", "r", "y", axes=[at])], other_than(at)) for at in AXES},
    **{f"ReduceMax without {at}": (13, [op("ReduceMax", "r", "y", axes=[at], keepdims=0)], without(at)) for at in AXES},
    "ReduceMax of all": (13, [op("ReduceMax", "r", "y")], lambda own: None),
    "ReduceSum by an input": (13, [op("ReduceSum", "r one_", "y", keepdims=0)], without(1)),
    **{f"ArgMax along {at}": (13, [op("ArgMax", "r", "y", axis=at)], other_than(at)) for at in AXES},
    "ArgMax": (13, [op("ArgMax", "r", "y", keepdims=0)], without(0)),
    "Transpose": (13, [op("Transpose", "r", "y")], lambda own: 2 - own),
    "Transpose in an order": (13, [op("Transpose", "r", "y", perm=[2, 0, 1])], lambda own: (1, 2, 0)[own]),
    **{
        f"Unsqueeze at {at}": (11, [op("Unsqueeze", "r", "y", axes=[at])], lambda own, at=at: own + (at <= own))
        for at in (*AXES, 3)
    },
    "Unsqueeze and Squeeze": (13, [op("Unsqueeze", "r one_", "u"), op("Squeeze", "u", "y")], lambda own: own),
    **{f"Concat along {at}": (13, [op("Concat", "r r", "y", axis=at)], other_than(at)) for at in AXES},
    **{f"Gather along {at}": (13, [op("Gather", "r two", "y", axis=at)], other_than(at)) for at in AXES},
    "Gather of one": (13, [op("Gather", "r zero", "y", axis=1)], without(1)),
    **{f"Split along {at}": (13, [op("Split", f"r s{at}", "y z", axis=at)], other_than(at)) for at in AXES},
    "Split": (13, [op("Split", "r s0", "y z")], other_than(0)),
    **{f"TopK along {at}": (11, [op("TopK", "r one_", "y z", axis=at)], other_than(at)) for at in AXES},
    "TopK": (11, [op("TopK", "r one_", "y z")], other_than(2)),
    **{f"Slice along {at}": (13, [op("Slice", f"r one_ two_ at{at}", "y")], other_than(at)) for at in AXES},
    "Slice of all": (13, [op("Slice", "r zeros many", "y")], lambda own: own),
    "Slice from the end": (13, [op("Slice", "r least many", "y")], lambda own: own),
    "MatMul": (13, [op("MatMul", "r m", "y")], other_than(2)),
    "Flatten": (13, [op("Flatten", "r", "y")], before(1)),
    "Reshape": (13, [op("Reshape", "r rows", "y")], before(1)),
    "MaxPool": (13, [op("MaxPool", "r", "y", kernel_shape=[2])], before(1)),
    "BatchNormalization": (13, [op("BatchNormalization", "r c c c c", "y")], before(1)),
    "CumSum": (14, [op("CumSum", "r zero", "y")], lambda own: own),
    "CumSum from the back": (14, [op("CumSum", "r zero", "y", reverse=1)], other_than(0)),
}
RULE_CONSTANTS = {
    **{f"g{at}": np.ones(SHAPE[at:], F) for at in AXES},
    **{f"s{at}": np.array([1, SHAPE[at] - 1]) for at in AXES},
    **{f"at{at}": np.array([at]) for at in AXES},
    "two": np.array([1, 0]),
    "zero": np.array(0),
    "one_": np.array([1]),
    "two_": np.array([2]),
    "zeros": np.array([0, 0, 0]),
    "least": np.array([-5, -4, -3]),
    "many": np.array([99, 99, 99]),
    "m": np.ones((3, 2), F),
    "c": np.ones(4, F),
    "rows": np.array([-1, 12]),
}


@pytest.mark.parametrize("own", AXES)
@pytest.mark.parametrize("name", RULES)
def test_axes_that_are_passed_on(name: str, own: int) -> None:
    version, nodes, passed = RULES[name]
    nodes = [op("Compress", "x f", "r", axis=own), *nodes]
    read = {one for node in nodes for one in node.input}
    constants = {key: array for key, array in RULE_CONSTANTS.items() if key in read}
    outputs = [one for one in nodes[-1].output if one]
    made = model(nodes, {"x": (F, SHAPE), "f": (np.bool_, [SHAPE[own]])}, outputs, constants, opset=version)
    axis = passed(own)
    if axis is None:
        with pytest.raises(OnnxImportError, match=r"data decide|does not fit|works along"):
            load(made.SerializeToString())
        return
    for port in load(made.SerializeToString()).outputs:
        assert [at for at, size in enumerate(port.shape) if size == -1] == [axis]
