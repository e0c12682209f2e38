"""Operators of ai.onnx.ml on rows of features, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
from onnx import helper, numpy_helper
from onnx_net import element
from onnx_oracle import DEVICES, actual, check, expected

from nnvk.importers.onnx import OnnxImportError, load

F, N = np.float32, np.int64


def net(
    kind: str, feeds: Mapping[str, np.ndarray], outputs: Mapping[str, Any], version: int, attributes: Mapping[str, Any]
) -> onnx.ModelProto:
    node = helper.make_node(kind, list(feeds), list(outputs), domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node],
        "rows",
        [helper.make_tensor_value_info(name, element(one.dtype), one.shape) for name, one in feeds.items()],
        [helper.make_tensor_value_info(name, element(type_), None) for name, type_ in outputs.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", version)])
    made.ir_version = 8
    return made


def compared(
    kind: str, *inputs: np.ndarray, outputs: Mapping[str, Any] | None = None, version: int = 1, **attributes: Any
) -> None:
    feeds = {f"x{place}": one for place, one in enumerate(inputs)}
    check(net(kind, feeds, outputs or {"y": F}, version, attributes), feeds, tolerance=1e-6)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def whole(*shape: int, dtype: Any = N) -> np.ndarray:
    return np.random.default_rng(5).integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("x", [drawn(5, 3), whole(5, 3), drawn(5, 3).astype(np.float64)], ids=str)
@pytest.mark.parametrize("count", [1, 3])
def test_scaler(count: int, x: np.ndarray) -> None:
    compared("Scaler", x, offset=[0.5, -1.0, 2.0][:count], scale=[2.0, 0.25, 3.0][:count])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    x = drawn(6, 5)
    x[2] = 0
    compared("Normalizer", x, norm=norm)


def test_binarizer() -> None:
    compared("Binarizer", whole(4, 5, dtype=F), threshold=1.0)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("missing", [np.nan, 2.0])
def test_imputer(missing: float, count: int) -> None:
    x = whole(7, 3, dtype=F)
    x[x == 2] = missing
    compared("Imputer", x, replaced_value_float=missing, imputed_value_floats=[9.0, 8.0, 7.0][:count])
    compared("Imputer", whole(7, 3), outputs={"y": N}, replaced_value_int64=2, imputed_value_int64s=[9, 8, 7][:count])


def test_feature_vectorizer() -> None:
    compared("FeatureVectorizer", drawn(4, 2), drawn(4, 3), drawn(4, 1), inputdimensions=[2, 3, 1])


@pytest.mark.parametrize("x", [drawn(4, 6), drawn(2, 3, 6), whole(4, 6)], ids=["matrix", "rank 3", "whole"])
def test_array_feature_extractor(x: np.ndarray) -> None:
    compared("ArrayFeatureExtractor", x, np.array([[4, 0, 5]]), outputs={"y": x.dtype})


NAN = float("nan")
LABELS: dict[str, tuple[np.ndarray, Any, dict[str, Any]]] = {
    "whole": (whole(3, 4), N, {"keys_int64s": [2, -1, 0, 2], "values_int64s": [7, 8, 9, 10], "default_int64": 3}),
    "to real": (whole(9), F, {"keys_int64s": [2, -1], "values_floats": [0.5, 1.5], "default_float": -2.5}),
    "no default": (whole(9), N, {"keys_int64s": [2, -1], "values_int64s": [5, 6]}),
    "real": (
        np.array([0.5, NAN, 2.0, 1.0], F),
        N,
        {"keys_floats": [2.0, NAN, 0.5], "values_int64s": [1, 2, 3], "default_int64": 0},
    ),
}


@pytest.mark.parametrize("case", LABELS)
def test_label_encoder(case: str) -> None:
    x, dtype, attributes = LABELS[case]
    compared("LabelEncoder", x, outputs={"y": dtype}, version=4, **attributes)


def test_label_encoder_by_tensors() -> None:
    tensors = {"keys_tensor": [2, 0], "values_tensor": [5, -6], "default_tensor": [11]}
    attributes = {name: numpy_helper.from_array(np.array(numbers, N)) for name, numbers in tensors.items()}
    compared("LabelEncoder", whole(4, 3), outputs={"y": N}, version=4, **attributes)


def test_one_hot_encoder() -> None:
    compared("OneHotEncoder", whole(3, 4), cats_int64s=[1, -2, 3], zeros=1)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear_models(transform: str) -> None:
    numbers = {"coefficients": drawn(9, seed=1).tolist(), "intercepts": [0.5, -1.0, 0.25], "post_transform": transform}
    compared("LinearClassifier", drawn(8, 3), outputs={"label": N, "y": F}, classlabels_ints=[3, 1, 7], **numbers)


def test_linear_regressor() -> None:
    compared("LinearRegressor", drawn(8, 3), targets=2, coefficients=drawn(6).tolist(), intercepts=[0.5, -1.0])


def test_zip_map_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    feeds = {"x": drawn(3, 2)}
    model = net("ZipMap", feeds, {"y": F}, 1, {"classlabels_int64s": [4, 9]})
    for device in DEVICES:
        (scores,) = actual(load(model.SerializeToString()), feeds, device)
        assert np.array_equal(scores, feeds["x"])
    assert "ZipMap is left out" in caplog.text
    model.graph.output[0].type.Clear()
    rows = expected(model, feeds)[0]
    assert [[row[4], row[9]] for row in rows] == feeds["x"].tolist()


@pytest.mark.parametrize(
    ("kind", "attributes", "said"),
    [
        ("LabelEncoder", {"keys_strings": ["a"], "values_int64s": [1]}, "keys are texts"),
        ("LabelEncoder", {"keys_int64s": [1, 2], "values_int64s": [1]}, "as many values, got 2 and 1"),
        ("Scaler", {"offset": [1.0, 2.0]}, "'offset' must have 1 or 3 numbers, got 2"),
        ("Normalizer", {"norm": "L3"}, "among MAX, L1, L2, got 'L3'"),
        ("LinearRegressor", {"coefficients": [1.0]}, "1 x 3 coefficients, got 1"),
    ],
)
def test_wrong_attributes(kind: str, attributes: dict[str, Any], said: str) -> None:
    with pytest.raises(OnnxImportError, match=said):
        load(net(kind, {"x": drawn(2, 3)}, {"y": F}, 2, attributes).SerializeToString())
