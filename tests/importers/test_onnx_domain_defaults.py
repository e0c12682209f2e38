"""Attributes of attention, of ai.onnx.ml and of TfIdfVectorizer that are left out, as in test_onnx_defaults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_case import I64, MICROSOFT, ML, x
from onnx_defaults import Default, check_default, drawn, parameters, small

INT, U8, I8 = np.int32, np.uint8, np.int8
MATRIX = x(3, 4)
TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}
TARGETS: dict[str, Any] = {
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
}
CLASSES: dict[str, Any] = {
    "class_treeids": [0, 0, 0, 0],
    "class_nodeids": [1, 2, 1, 2],
    "class_ids": [0, 1, 1, 0],
    "class_weights": [1.0, 2.0, 3.0, 4.0],
    "classlabels_int64s": [3, 5],
}
HEADS = {"num_heads": 2}
QKV = {name: x(1, 5, 8) for name in "qkv"}
GROUPED = {
    "q": x(1, 2, 16),
    "k": x(1, 2, 8),
    "v": x(1, 2, 8),
    "pk": None,
    "pv": None,
    "last": np.array([1], INT),
    "all": np.array(2, INT),
    "cos": small(2, 2),
    "sin": small(2, 2, seed=2),
}

DEFAULTS = [
    # --- attention
    Default(
        "SkipLayerNormalization",
        {"a": x(1, 2, 4), "b": x(1, 2, 4), "g": small(4)},
        {"epsilon": (1e-12, 1.0)},
        domain=MICROSOFT,
    ),
    Default(
        "SkipSimplifiedLayerNormalization",
        {"a": x(1, 2, 4), "b": x(1, 2, 4), "g": small(4)},
        {"epsilon": (1e-12, 1.0)},
        domain=MICROSOFT,
    ),
    Default(
        "EmbedLayerNormalization",
        {
            "i": x(1, 3, dtype=INT),
            "s": None,
            "w": drawn(5, 4),
            "p": drawn(3, 4),
            "q": None,
            "g": small(4),
            "b": small(4),
        },
        {"epsilon": (1e-12, 1.0)},
        outputs="y l",
        domain=MICROSOFT,
    ),
    Default(
        "Attention",
        {"a": x(1, 3, 8), "w": drawn(8, 24), "b": small(24), "m": x(1, 3, dtype=INT)},
        {
            "unidirectional": (0, 1),
            "scale": (0.5, 1.5),
            "mask_filter_value": (-10000.0, -1.0),
            "qkv_hidden_sizes": ([8, 8, 8],),
        },
        HEADS,
        domain=MICROSOFT,
    ),
    Default(
        "MultiHeadAttention",
        {**QKV, "b": None, "m": x(1, 5, dtype=INT)},
        {"scale": (0.5, 1.5), "mask_filter_value": (-10000.0, -1.0), "unidirectional": (0,)},
        HEADS,
        domain=MICROSOFT,
    ),
    Default(
        "RotaryEmbedding",
        {"a": x(2, 5, 12), "p": x(2, 5, dtype=I64), "c": small(8, 3), "s": small(8, 3, seed=2)},
        {"interleaved": (0, 1), "is_packed_batching": (0,), "scale": (1.0,), "num_heads": (2, 1)},
        domain=MICROSOFT,
    ),
    Default(
        "GroupQueryAttention",
        GROUPED,
        {
            "do_rotary": (0, 1),
            "softcap": (0.0, 1.0),
            "scale": (0.5, 1.5),
            "local_window_size": (-1, 1),
            "smooth_softmax": (0,),
        },
        {"num_heads": 4, "kv_num_heads": 2},
        outputs="y z w",
        domain=MICROSOFT,
    ),
    Default(
        "GroupQueryAttention",
        GROUPED,
        {"rotary_interleaved": (0, 1)},
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        outputs="y z w",
        domain=MICROSOFT,
    ),
    # --- tables and trees
    Default("Normalizer", {"a": MATRIX}, {"norm": ("MAX", "L1", "L2")}, domain=ML),
    Default("Binarizer", {"a": MATRIX}, {"threshold": (0.0, 1.0)}, domain=ML),
    Default(
        "Scaler", {"a": MATRIX}, {"offset": ([0.0], [1.0], [0.0, 1.0, 2.0, 3.0]), "scale": ([1.0], [2.0])}, domain=ML
    ),
    Default(
        "Imputer",
        {"a": MATRIX},
        {"replaced_value_float": (0.0, 1.0, float("nan"))},
        {"imputed_value_floats": [2.0]},
        domain=ML,
    ),
    Default(
        "Imputer", {"a": x(3, 4, dtype=I64)}, {"replaced_value_int64": (0, 1)}, {"imputed_value_int64s": [2]}, domain=ML
    ),
    Default(
        "LabelEncoder",
        {"a": x(4, dtype=I64)},
        {"default_float": (-0.0, 1.0)},
        {"keys_int64s": [1, 2], "values_floats": [1.0, 2.0]},
        domain=ML,
    ),
    Default(
        "LabelEncoder",
        {"a": x(4, dtype=I64)},
        {"default_int64": (-1, 1)},
        {"keys_int64s": [1, 2], "values_int64s": [1, 2]},
        domain=ML,
    ),
    Default("OneHotEncoder", {"a": x(4, dtype=I64)}, {"zeros": (1,)}, {"cats_int64s": [1, 2]}, domain=ML),
    Default(
        "LinearRegressor",
        {"a": x(3, 2)},
        {"targets": (1,), "post_transform": ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")},
        {"coefficients": [1.0, 2.0]},
        domain=ML,
    ),
    Default(
        "LinearClassifier",
        {"a": x(3, 2)},
        {"post_transform": ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")},
        {"coefficients": [1.0, 2.0, 3.0, 4.0], "classlabels_ints": [0, 1]},
        domain=ML,
        outputs="y z",
    ),
    Default(
        "TreeEnsembleRegressor",
        {"a": x(3, 2)},
        {
            "aggregate_function": ("SUM", "AVERAGE", "MIN", "MAX"),
            "n_targets": (1, 2),
            "post_transform": ("NONE",),
            "nodes_missing_value_tracks_true": ([0, 0, 0], [1, 0, 0]),
        },
        TREE | TARGETS,
        domain=ML,
    ),
    Default(
        "TreeEnsembleClassifier",
        {"a": x(3, 2)},
        {
            "post_transform": ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"),
            "nodes_missing_value_tracks_true": ([0, 0, 0], [1, 0, 0]),
        },
        TREE | CLASSES,
        domain=ML,
        outputs="y z",
    ),
    Default(
        "TfIdfVectorizer",
        {"a": x(7, dtype=I64)},
        {"max_skip_count": (0, 1)},
        {
            "mode": "TF",
            "min_gram_length": 2,
            "max_gram_length": 2,
            "ngram_counts": [0, 0],
            "ngram_indexes": [0, 1],
            "pool_int64s": [1, 2, 3, 4],
        },
    ),
]


@pytest.mark.parametrize(("default", "name"), parameters(DEFAULTS))
def test_default(default: Default, name: str) -> None:
    check_default(default, name)
