"""Operators of ai.onnx.ml on rows of features: scaling, encoding and linear models."""

from __future__ import annotations

import numpy as np

from nnvk.base.log import logger
from nnvk.importers.decompositions.arithmetic import chosen, each, scalar
from nnvk.importers.decompositions.moving import gathered
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.forest import words
from nnvk.importers.onnx.mappers.matmul import dense
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.importers.onnx.mappers.trees import labels, transform_of, transformed
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode

Op = OperationCode
_MOST_KEYS = 4096
"""The most keys that each element is compared with."""
_log = logger("model")


def _real(c: Context, position: int = 0) -> Value:
    return c.cast(c.number(position), np.dtype(np.float32))


def _of_features(c: Context, name: str, features: int, default: float) -> Value:
    """One number of an attribute for all features, or one for each."""
    given = c.node.reals(name) or [default]
    if len(given) not in (1, features):
        raise Unmapped(f"attribute '{name}' must have 1 or {features} numbers, got {len(given)}")
    return c.constant(np.array(given), F32)


@operator("ai.onnx.ml.Scaler")
def scaler(c: Context) -> Tensor:
    """Map Scaler: subtract an offset of each feature and multiply by its scale."""
    x = _real(c)
    offset, scale = (_of_features(c, *given) for given in (("offset", x.shape[-1], 0.0), ("scale", x.shape[-1], 1.0)))
    less = c.emit(Op.SUB, x, offset, NONE, out=F32)
    return c.give(c.emit(Op.MUL, less, scale, NONE, out=F32), None, np.float32)


@operator("ai.onnx.ml.Normalizer")
def normalizer(c: Context) -> Tensor:
    """Map Normalizer: divide rows by their largest element, by the sum of magnitudes or by the root of squares."""
    norm = words(("MAX", "L1", "L2"), c.node.text("norm", "MAX"), "norm")
    x = _real(c)
    axis = np.array([len(x.shape) - 1])
    if norm == "MAX":
        size = c.emit(Op.REDUCE_MAX, x, axis, True, out=F32)
    else:
        parts = each(c, Op.ABS, x) if norm == "L1" else c.emit(Op.MUL, x, x, NONE, out=F32)
        size = c.emit(Op.REDUCE_SUM, parts, axis, True, out=F32)
        size = size if norm == "L1" else each(c, Op.SQRT, size)
    is_zero = c.emit(Op.EQUAL, size, scalar(c, 0.0, size), out=BOOL8)
    divisor = chosen(c, is_zero, scalar(c, 1.0, size), size)
    return c.give(c.emit(Op.DIV, x, divisor, NONE, out=F32), None, np.float32)


@operator("ai.onnx.ml.Binarizer")
def binarizer(c: Context) -> Tensor:
    """Map Binarizer: whether elements are larger than a threshold, as 1 and 0."""
    x = c.number()
    is_larger = c.emit(Op.GREATER, x, scalar(c, c.node.real("threshold", 0.0), x), out=BOOL8)
    return c.give(c.as_number(is_larger, x.type.with_dimensions(())), None, c.tensor().dtype)


@operator("ai.onnx.ml.Imputer")
def imputer(c: Context) -> Tensor:
    """Map Imputer: replace one number, or NaN, by a number of each feature."""
    x = c.number()
    is_real = x.code is F32.code
    name, replaced = ("imputed_value_floats", "replaced_value_float") if is_real else ("imputed_value_int64s", "")
    given = c.node.reals(name) if is_real else c.node.integers(name)
    number = c.node.real(replaced, 0.0) if is_real else c.node.integer("replaced_value_int64", 0)
    if not given or len(given) not in (1, x.shape[-1]):
        raise Unmapped(f"attribute '{name}' must have 1 or {x.shape[-1]} numbers, got {len(given or ())}")
    is_missing = (
        c.emit(Op.NOT_EQUAL, x, x, out=BOOL8)
        if np.isnan(number)
        else c.emit(Op.EQUAL, x, scalar(c, number, x), out=BOOL8)
    )
    values = c.constant(np.array(given), F32 if is_real else I32)
    return c.give(chosen(c, is_missing, values, x), None, c.tensor().dtype)


@operator("ai.onnx.ml.FeatureVectorizer")
def feature_vectorizer(c: Context) -> Tensor:
    """Map FeatureVectorizer: the features of all inputs beside each other."""
    parts = [_real(c, position) for position in range(len(c.inputs))]
    rows = [part if len(part.shape) == 2 else c.reshape(part, (1, part.size)) for part in parts]
    return c.give(rows[0] if len(rows) == 1 else joined(c, rows, 1), None, np.float32)


@operator("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(c: Context) -> Tensor:
    """Map ArrayFeatureExtractor: elements along the last axis, by their indices."""
    source = c.tensor()
    indices = c.reshape(c.number(1), (c.tensor(1).size,))
    if indices.is_constant and not 0 <= int(indices.array.min()) <= int(indices.array.max()) < source.shape[-1]:
        raise Unmapped(f"its indices must lie between 0 and {source.shape[-1] - 1}")
    value = c.value()
    if source.rank == 1:
        value = c.reshape(value, (1, source.size))
    return c.give(gathered(c, value, len(value.shape) - 1, indices), None, source.dtype)


@operator("ai.onnx.ml.LabelEncoder")
def label_encoder(c: Context) -> Tensor:
    """Map LabelEncoder of numbers: the value of the first key that equals an element, or the default."""
    x, shape = c.number(), c.tensor().shape
    keys, _ = _table(c, "keys", 0)
    values, default = _table(c, "values", -1)
    if keys.shape != values.shape or not 0 < keys.size <= _MOST_KEYS:
        raise Unmapped(f"there must be 1 to {_MOST_KEYS} keys and as many values, got {keys.size} and {values.size}")
    column = c.reshape(x, (x.size, 1))
    is_key = c.emit(Op.EQUAL, column, c.constant(keys, column.type.with_dimensions(())), out=BOOL8)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        is_nan = c.emit(Op.NOT_EQUAL, column, column, out=BOOL8)
        is_key = chosen(c, c.constant(np.isnan(keys), BOOL8), is_nan, is_key)
    # A column that is behind all keys is the default's.
    hits = c.as_number(is_key, F32)
    last = c.filled(0.5, F32, (x.size, 1))
    place = c.emit(Op.ARGMAX, joined(c, [hits, last], 1), 1, out=I32)
    type_ = F32 if values.dtype.kind == "f" else I32
    found = gathered(c, c.constant(np.append(values, default).astype(values.dtype), type_), 0, place)
    return c.give(found, shape, values.dtype)


def _table(c: Context, name: str, default: float) -> tuple[np.ndarray, float]:
    """Keys or values, and the value of elements that are no key."""
    if c.node.has(f"{name}_strings"):
        raise Unmapped(f"its {name} are texts, which NNAPI has nothing for")
    found = c.node.array(f"{name}_tensor")
    if found is not None:
        other = c.node.array("default_tensor")
        kind = np.dtype(np.float32) if found.dtype.kind == "f" else found.dtype
        given = default if other is None else other.reshape(()).item()
        return found.reshape(-1).astype(kind), (-0.0 if other is None and kind.kind == "f" else given)
    reals, whole = c.node.reals(f"{name}_floats"), c.node.integers(f"{name}_int64s")
    if reals is not None:
        return np.array(reals, np.float32), c.node.real("default_float", -0.0)
    return np.array(whole or [], np.int64), c.node.integer("default_int64", -1)


@operator("ai.onnx.ml.OneHotEncoder")
def one_hot_encoder(c: Context) -> Tensor:
    """Map OneHotEncoder of numbers: whether an element equals each category. Others have zeros alone."""
    categories = c.node.integers("cats_int64s")
    if not categories or not c.node.integer("zeros", 1):
        raise Unmapped("its categories must be numbers, and elements of no category must be allowed (zeros is 1)")
    x, shape = c.number(), c.tensor().shape
    column = c.reshape(x, (x.size, 1))
    is_one = c.emit(Op.EQUAL, column, c.constant(np.array(categories), column.type.with_dimensions(())), out=BOOL8)
    return c.give(c.as_number(is_one, F32), (*shape, len(categories)), np.float32)


def _linear(c: Context, coefficients: list[float] | None, units: int, intercepts: list[float] | None) -> Value:
    x = _real(c)
    rows = x if len(x.shape) == 2 else c.reshape(x, (1, x.size))
    if coefficients is None or len(coefficients) != units * rows.shape[1]:
        raise Unmapped(f"there must be {units} x {rows.shape[1]} coefficients, got {len(coefficients or ())}")
    if intercepts and len(intercepts) != units:
        raise Unmapped(f"there must be {units} intercepts, got {len(intercepts)}")
    weights = np.array(coefficients, np.float32).reshape(units, -1)
    return dense(c, rows, weights, np.array(intercepts, np.float32) if intercepts else None)


@operator("ai.onnx.ml.LinearRegressor")
def linear_regressor(c: Context) -> Tensor:
    """Map LinearRegressor: a FULLY_CONNECTED."""
    scores = _linear(c, c.node.reals("coefficients"), c.node.integer("targets", 1), c.node.reals("intercepts"))
    return c.give(transformed(c, scores, transform_of(c)), None, np.float32)


@operator("ai.onnx.ml.LinearClassifier")
def linear_classifier(c: Context) -> list[Tensor | None]:
    """Map LinearClassifier with a score for each class: a FULLY_CONNECTED, and the class of the largest score."""
    numbers = c.node.integers("classlabels_ints") or ()
    count = len(numbers or c.node.texts("classlabels_strings") or ())
    if count < 2:
        raise Unmapped(f"there must be two classes at least, got {count}")
    intercepts = c.node.reals("intercepts")
    scores = _linear(c, c.node.reals("coefficients"), count, intercepts)
    places = c.emit(Op.ARGMAX, scores, 1, out=I32)
    return [labels(c, places), c.give(transformed(c, scores, transform_of(c)), None, np.float32)]


@operator("ai.onnx.ml.ZipMap")
def zip_map(c: Context) -> Tensor:
    """Map ZipMap: the scores as they are, [rows, classes]. NNAPI has no tables by name."""
    _log.warning("ZipMap is left out: its output is a matrix of scores, a column for each class")
    return c.give(c.real_number(), c.tensor().shape, np.float32)
