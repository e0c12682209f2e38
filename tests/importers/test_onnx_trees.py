"""Decision trees of ai.onnx.ml against onnxruntime, and TreeEnsemble's node tests' forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
from onnx import helper, numpy_helper
from onnx_net import element
from onnx_oracle import DEVICES, actual, check

from nnvk.importers.onnx import OnnxImportError, load

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(prefix: str, targets: list[int], *, seed: int = 0, trees: int = 7, low: float = -1.0) -> dict[str, Any]:
    """Random trees of up to 15 nodes. Each leaf has a weight of every target."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    }
    found["missing_value_tracks_true"] = []
    owners: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        pending, fresh = [(0, 0)], 1
        while pending:
            node, depth = pending.pop()
            is_leaf = depth == 3 or (depth and rng.random() < 0.3)
            children = (0, 0) if is_leaf else (fresh, fresh + 1)
            row = (tree, node, int(rng.integers(4)), "LEAF" if is_leaf else MODES[rng.integers(6)])
            numbers = (*row, float(rng.integers(-2, 3)) / 2, *children, int(rng.integers(2)))
            for name, number in zip(found, numbers, strict=True):
                found[name].append(number)
            if is_leaf:
                for target in targets:
                    for name, number in zip(owners, (tree, node, target, rng.uniform(low, 1)), strict=True):
                        owners[name].append(number)
            else:
                pending += [(fresh, depth + 1), (fresh + 1, depth + 1)]
                fresh += 2
    return {
        **{f"nodes_{name}": numbers for name, numbers in found.items()},
        **{f"{prefix}_{name}": numbers for name, numbers in owners.items()},
    }


def net(kind: str, outputs: dict[str, Any], attributes: dict[str, Any], dtype: Any = np.float32) -> onnx.ModelProto:
    node = helper.make_node(kind, ["x"], list(outputs), domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node],
        "trees",
        [helper.make_tensor_value_info("x", element(dtype), ["rows", 4])],
        [helper.make_tensor_value_info(name, element(type_), None) for name, type_ in outputs.items()],
    )
    version = 5 if kind == "TreeEnsemble" else 3
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", version)])
    made.ir_version = 8
    return made


def rows(count: int = 33, seed: int = 3, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    x = (np.random.default_rng(seed).integers(-3, 4, (count, 4)) / 2).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[::4, 1] = np.nan
    return {"x": x}


def compared(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    check(model, feeds, tolerance=1e-6, shapes={"x": feeds["x"].shape})


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_regressor(targets: int, aggregate: str) -> None:
    attributes = forest("target", list(range(targets)), seed=targets)
    attributes |= {"n_targets": targets, "aggregate_function": aggregate, "base_values": [0.5, -1.0, 2.0][:targets]}
    compared(net("TreeEnsembleRegressor", {"y": np.float32}, attributes), rows())


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("targets", [1, 3])
def test_transforms(targets: int, transform: str) -> None:
    attributes = {**forest("target", list(range(targets))), "n_targets": targets, "post_transform": transform}
    compared(net("TreeEnsembleRegressor", {"y": np.float32}, attributes), rows())


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_features_of_other_types(dtype: Any) -> None:
    attributes = forest("class", [0, 1, 2]) | {"classlabels_int64s": [4, 9, 2]}
    compared(net("TreeEnsembleClassifier", {"label": np.int64, "y": np.float32}, attributes, dtype), rows(dtype=dtype))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("base", [None, [0.25, -0.25, 0.5]])
def test_classes(base: list[float] | None, transform: str) -> None:
    attributes = forest("class", [0, 1, 2]) | {"classlabels_int64s": [4, 9, 2], "post_transform": transform}
    if base:
        attributes["base_values"] = base
    compared(net("TreeEnsembleClassifier", {"label": np.int64, "y": np.float32}, attributes), rows())


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize("base", [None, [0.3]])
def test_two_classes_of_one_score(base: list[float] | None, low: float, transform: str) -> None:
    attributes = forest("class", [0], low=low, trees=3 if low else 1) | {"post_transform": transform}
    attributes["classlabels_int64s"] = [0, 1]
    if base:
        attributes["base_values"] = base
    compared(net("TreeEnsembleClassifier", {"label": np.int64, "y": np.float32}, attributes), rows())


def test_two_classes_of_two_scores() -> None:
    attributes = forest("class", [0, 1]) | {"classlabels_int64s": [0, 1]}
    compared(net("TreeEnsembleClassifier", {"label": np.int64, "y": np.float32}, attributes), rows())


def test_trees_of_one_leaf() -> None:
    attributes = forest("target", [0], trees=2)
    for name, number in {"treeids": 9, "nodeids": 0, "featureids": 0, "modes": "LEAF", "values": 0.0}.items():
        attributes[f"nodes_{name}"].append(number)
    for name in ("truenodeids", "falsenodeids", "missing_value_tracks_true"):
        attributes[f"nodes_{name}"].append(0)
    for name, number in {"treeids": 9, "nodeids": 0, "ids": 0, "weights": 0.75}.items():
        attributes[f"target_{name}"].append(number)
    compared(net("TreeEnsembleRegressor", {"y": np.float32}, attributes | {"n_targets": 1}), rows())


def positions(dtype: Any, *, modes: list[int], members: list[float] | None = None, **more: Any) -> dict[str, Any]:
    """A tree of four nodes and five leaves."""
    tensors = {
        "nodes_modes": np.array(modes, np.uint8),
        "nodes_splits": np.array([0.5, -0.5, 1.0, 0.0], dtype),
        "leaf_weights": np.array([1.0, -2.0, 3.0, 0.25, 5.0], dtype),
    }
    if members is not None:
        tensors["membership_values"] = np.array(members, dtype)
    return {
        **{name: numpy_helper.from_array(array) for name, array in tensors.items()},
        "nodes_featureids": [0, 1, 2, 3],
        "nodes_truenodeids": [1, 0, 3, 2],
        "nodes_trueleafs": [0, 1, 1, 1],
        "nodes_falsenodeids": [2, 3, 1, 4],
        "nodes_falseleafs": [0, 0, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 0],
        "tree_roots": [0, 1],
        "n_targets": 2,
        **more,
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_positions(aggregate: int, dtype: Any) -> None:
    attributes = positions(dtype, modes=[0, 1, 2, 3], aggregate_function=aggregate)
    compared(net("TreeEnsemble", {"y": dtype}, attributes, dtype), rows(dtype=dtype))


def test_sets() -> None:
    nan = np.nan
    attributes = positions(np.float32, modes=[6, 4, 6, 5], members=[-1.0, 1.0, 2.0, nan, 0.0, nan])
    feeds = rows()
    feeds["x"] = np.nan_to_num(2 * feeds["x"])
    compared(net("TreeEnsemble", {"y": np.float32}, attributes), feeds)


@pytest.mark.parametrize(
    ("name", "number", "said"),
    [
        ("nodes_modes", "BRANCH", "unknown mode 'BRANCH'"),
        ("nodes_truenodeids", 99, "nodes that there are not"),
        ("nodes_truenodeids", 0, "have a cycle"),
        ("nodes_nodeids", 1, "one identifier"),
        ("target_nodeids", 99, "nodes that there are not"),
        ("target_nodeids", 0, "no leaves have weights"),
        ("nodes_featureids", 4, "look at 5 features, the input has 4"),
    ],
)
def test_damaged_trees(name: str, number: Any, said: str) -> None:
    attributes = {**forest("target", [0], trees=1), "n_targets": 1}
    attributes[name][0] = number
    with pytest.raises(OnnxImportError, match=said):
        load(net("TreeEnsembleRegressor", {"y": np.float32}, attributes).SerializeToString())


def test_labels_that_are_texts_are_refused_if_they_are_wanted() -> None:
    attributes = forest("class", [0, 1, 2]) | {"classlabels_strings": ["a", "b", "c"]}
    with pytest.raises(OnnxImportError, match="labels are texts"):
        load(net("TreeEnsembleClassifier", {"label": np.int64, "y": np.float32}, attributes).SerializeToString())
    node = helper.make_node("TreeEnsembleClassifier", ["x"], ["", "y"], domain="ai.onnx.ml", **attributes)
    model = net("TreeEnsembleClassifier", {"label": np.int64, "y": np.float32}, attributes)
    model.graph.node[0].CopyFrom(node)
    del model.graph.output[0]
    numbers = forest("class", [0, 1, 2]) | {"classlabels_int64s": [0, 1, 2]}
    other = net("TreeEnsembleClassifier", {"label": np.int64, "y": np.float32}, numbers)
    feeds = rows(1)
    for device in DEVICES:
        (scores,) = actual(load(model.SerializeToString()), feeds, device)
        assert np.array_equal(scores, actual(load(other.SerializeToString()), feeds, device)[1])
