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


def refused(kind: str, attributes: dict[str, Any], said: str) -> None:
    outputs = {"label": np.int64, "y": np.float32} if kind == "TreeEnsembleClassifier" else {"y": np.float32}
    given = {name: value for name, value in attributes.items() if value is not None}
    with pytest.raises(OnnxImportError, match=said):
        load(net(kind, outputs, given).SerializeToString())


@pytest.mark.parametrize(
    ("name", "short", "said"),
    [
        ("nodes_modes", 1, "as many modes as nodes"),
        ("nodes_nodeids", 1, "'nodes_nodeids' must have"),
        ("nodes_featureids", 1, "'nodes_featureids' must have"),
        ("nodes_truenodeids", 1, "'nodes_truenodeids' must have"),
        ("nodes_falsenodeids", 1, "'nodes_falsenodeids' must have"),
        ("nodes_values", 1, "'nodes_values' must have"),
        ("nodes_missing_value_tracks_true", 1, "'nodes_missing_value_tracks_true' must have"),
        ("target_nodeids", 1, "'target_nodeids' must have"),
        ("target_ids", 1, "'target_ids' must have"),
        ("target_weights", 1, "'target_weights' must have"),
        ("nodes_treeids", None, "as many modes as nodes, got .* and 0"),
        ("target_weights", None, "'target_weights' must have .* got 0"),
    ],
)
def test_attributes_of_other_lengths(name: str, short: int | None, said: str) -> None:
    attributes = {**forest("target", [0], trees=1), "n_targets": 1}
    attributes[name] = None if short is None else attributes[name][:-short]
    refused("TreeEnsembleRegressor", attributes, said)


@pytest.mark.parametrize("name", ["nodes_treeids", "nodes_nodeids", "target_treeids", "target_nodeids"])
@pytest.mark.parametrize("number", [-1, 1 << 31])
def test_identifiers_beyond_31_bits(name: str, number: int) -> None:
    attributes = {**forest("target", [0], trees=1), "n_targets": 1}
    attributes[name][0] = number
    is_another_tree = number > 0 and name.endswith("treeids")
    refused(
        "TreeEnsembleRegressor",
        attributes,
        "are of nodes that there are not" if is_another_tree else "negative, or beyond 31 bits",
    )


def test_negative_features() -> None:
    attributes = {**forest("target", [0], trees=1), "n_targets": 1}
    attributes["nodes_featureids"][0] = -1
    refused("TreeEnsembleRegressor", attributes, "features must not be negative, got -1")


def test_leaves_without_weights() -> None:
    attributes = {**forest("target", [0], trees=1), "n_targets": 1}
    empty = {name: None for name in attributes if name.startswith("target_")}
    refused("TreeEnsembleRegressor", attributes | empty | {"target_weights": [1.0]}, "must have 0 numbers, got 1")
    refused("TreeEnsembleRegressor", attributes | empty, "must have 0 numbers|have no weights")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"base_values": [1.0]}, "a base value for each of 2 scores, got 1"),
        ({"base_values": [1.0, 2.0, 3.0]}, "a base value for each of 2 scores, got 3"),
        ({"post_transform": "SQUARE"}, "'post_transform' must be among .*, got 'SQUARE'"),
        ({"aggregate_function": "MEDIAN"}, "'aggregate_function' must be among .*, got 'MEDIAN'"),
    ],
    ids=str,
)
def test_regressors_that_are_refused(changes: dict[str, Any], said: str) -> None:
    attributes = {**forest("target", [0, 1], trees=2), "n_targets": 2}
    load(net("TreeEnsembleRegressor", {"y": np.float32}, attributes).SerializeToString())
    refused("TreeEnsembleRegressor", attributes | changes, said)


@pytest.mark.parametrize(
    ("targets", "labels", "changes", "said"),
    [
        ([0], [3], {}, "two classes at least and a base value for each, got 1 classes"),
        ([0, 1, 2], [3, 4, 5], {"base_values": [1.0, 2.0]}, "a base value for each, got 3 classes"),
        ([0, 1, 2], [3, 4, 5], {"base_values": [1.0]}, "one base value for 3 classes is unknown"),
        ([0, 1], [3, 4], {"base_values": [1.0]}, "one base value for 2 classes is unknown"),
        ([1], [3, 4], {"post_transform": "SOFTMAX"}, "one score for two classes can't be transformed by SOFTMAX"),
        ([1], [3, 4], {"post_transform": "SOFTMAX_ZERO"}, "can't be transformed by SOFTMAX_ZERO"),
        ([0, 2], [3, 4, 5], {}, "a class may have no score while others have negative ones"),
    ],
)
def test_classifiers_that_are_refused(
    targets: list[int], labels: list[int], changes: dict[str, Any], said: str
) -> None:
    attributes = forest("class", targets, trees=2) | {"classlabels_int64s": labels}
    refused("TreeEnsembleClassifier", attributes | changes, said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes_modes": None}, "there must be a mode and a split of each of 4 nodes"),
        ({"nodes_splits": None}, "there must be a mode and a split of each of 4 nodes"),
        ({"leaf_weights": None}, "and weights of leaves"),
        ({"nodes_featureids": [0, 1, 2]}, "there must be a mode and a split of each of 3 nodes"),
        ({"nodes_trueleafs": [0, 1, 1]}, "'nodes_trueleafs' must have 4 numbers, got 3"),
        ({"nodes_truenodeids": [1, 0, 3, 5]}, "'nodes_truenodeids' are of nodes or leaves that there are not"),
        ({"nodes_truenodeids": [4, 0, 3, 2]}, "'nodes_truenodeids' are of nodes or leaves that there are not"),
        ({"nodes_truenodeids": [-1, 0, 3, 2]}, "'nodes_truenodeids' are of nodes or leaves that there are not"),
        ({"nodes_falsenodeids": [2, 3, 5, 4]}, "'nodes_falsenodeids' are of nodes or leaves that there are not"),
        ({"tree_roots": [4]}, "roots must be among 4 nodes"),
        ({"tree_roots": [-1]}, "roots must be among 4 nodes"),
        ({"tree_roots": None}, "roots must be among 4 nodes"),
        ({"leaf_targetids": [0, 1, 0, 1]}, "'leaf_targetids' must have 5 numbers, got 4"),
        ({"aggregate_function": 4}, "aggregate function 4 with the transform 0 is unknown"),
        ({"aggregate_function": -1}, "aggregate function -1 with the transform 0 is unknown"),
        ({"post_transform": 5}, "aggregate function 1 with the transform 5 is unknown"),
    ],
    ids=str,
)
def test_positions_that_are_refused(changes: dict[str, Any], said: str) -> None:
    attributes = positions(np.float32, modes=[0, 1, 2, 3])
    load(net("TreeEnsemble", {"y": np.float32}, attributes).SerializeToString())
    refused("TreeEnsemble", attributes | changes, said)


@pytest.mark.parametrize("members", [None, [], [1.0], [np.nan, 1.0, np.nan], [1.0, np.nan]], ids=str)
def test_sets_that_are_refused(members: list[float] | None) -> None:
    refused("TreeEnsemble", positions(np.float32, modes=[6, 1, 6, 3], members=members), "which NaN ends")


def test_modes_that_are_unknown() -> None:
    refused("TreeEnsemble", positions(np.float32, modes=[0, 1, 2, 7]), "nodes have the unknown mode 7")


@pytest.mark.parametrize("shape", [["a", "b", 4], []])
def test_inputs_that_are_no_rows(shape: list[Any]) -> None:
    model = net("TreeEnsembleRegressor", {"y": np.float32}, {**forest("target", [0], trees=1), "n_targets": 1})
    dims = model.graph.input[0].type.tensor_type.shape
    del dims.dim[:]
    for _ in shape:
        dims.dim.add().dim_value = 4
    with pytest.raises(OnnxImportError, match="the input must be a matrix or a row"):
        load(model.SerializeToString())
