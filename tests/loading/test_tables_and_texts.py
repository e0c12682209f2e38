"""Models of ai.onnx.ml and of text operators, which onnxruntime computes: alone, and around operators of nnvk's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime
from onnx import ModelProto, NodeProto
from onnx_net import model, op

import nnvk
from nnvk import NnapiError
from nnvk.loading.beside import CpuLibraryWarning

pytestmark = pytest.mark.usefixtures("libraries")

F, I64, TEXT = np.float32, np.int64, np.dtype(object)
RNG = np.random.default_rng(5)
ML = "ai.onnx.ml"
TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "class_treeids": [0, 0],
    "class_nodeids": [1, 2],
    "class_ids": [0, 1],
    "class_weights": [1.0, 2.0],
}
GRAMS = {"ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2], "pool_int64s": [1, 2, 1, 2]}
WORDS = np.array(["c", "a", "b"], TEXT)
TABLE = RNG.standard_normal((4, 16)).astype(F)
CASES: dict[str, tuple[list[NodeProto], dict[str, np.ndarray], list[str]]] = {
    "labels of trees": (
        [
            op("Scaler", "x", "s", domain=ML, offset=[0.5], scale=[2.0]),
            op("TreeEnsembleClassifier", "s", "y z", domain=ML, classlabels_strings=["low", "high"], **TREE),
        ],
        {"x": RNG.standard_normal((5, 2)).astype(F)},
        ["y", "z"],
    ),
    "keys that are texts": (
        [op("LabelEncoder", "x", "y", domain=ML, keys_strings=["a", "b"], values_int64s=[1, 2])],
        {"x": WORDS},
        ["y"],
    ),
    "n-grams": (
        [op("TfIdfVectorizer", "x", "y", mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=1, **GRAMS)],
        {"x": np.array([[1, 2, 2, 1], [2, 9, 1, 2]])},
        ["y"],
    ),
    "texts of texts": (
        [op("StringNormalizer", "x", "y", case_change_action="UPPER", locale="C", stopwords=["a"])],
        {"x": WORDS},
        ["y"],
    ),
    "numbers between texts": (
        [
            op("LabelEncoder", "w", "i", domain=ML, keys_strings=["a", "b", "c"], values_int64s=[1, 2, 3]),
            op("Gather", "t i", "v"),
            op("ReduceMean", "v", "m", axes=[0]),
            op(
                "LinearClassifier",
                "m",
                "y p",
                domain=ML,
                coefficients=RNG.standard_normal(32).tolist(),
                intercepts=[0.1, 0.2],
                classlabels_strings=["no", "yes"],
            ),
        ],
        {"w": WORDS},
        ["y", "p"],
    ),
}


def made(name: str) -> tuple[ModelProto, dict[str, np.ndarray]]:
    nodes, feeds, outputs = CASES[name]
    edges = {key: (value.dtype, value.shape) for key, value in feeds.items()}
    net = model(nodes, edges, outputs, {"t": TABLE} if "between" in name else {})
    net.opset_import.add(domain=ML, version=3)
    return net, feeds


@pytest.mark.parametrize("name", CASES)
def test_they_are_onnxruntimes(name: str) -> None:
    net, feeds = made(name)
    session = onnxruntime.InferenceSession(net.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.warns(CpuLibraryWarning, match=r"onnxruntime computes \d of \d operator"):
        loaded = nnvk.load(net, device="cpu")
    got = loaded.compute(list(feeds.values()))
    for one, want in zip(got, session.run(None, feeds), strict=True):
        if want.dtype == TEXT:
            assert one.tolist() == want.tolist()
        else:
            np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)
    devices = {placed.device for placed in loaded.where()}
    assert devices == {"onnxruntime", *(["nnapi-reference"] if "between" in name else [])}


def test_without_onnxruntime_they_are_refused() -> None:
    net, _ = made("labels of trees")
    with pytest.raises(NnapiError, match=r"ai\.onnx\.ml\.Scaler.*NNAPI has no counterpart of this operator"):
        nnvk.load(net, device="cpu", fallback=False)
