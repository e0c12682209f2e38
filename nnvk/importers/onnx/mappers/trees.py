"""Decision trees of ai.onnx.ml, as onnxruntime computes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnvk.importers.decompositions.arithmetic import chosen, each, scalar, with_number
from nnvk.importers.decompositions.moving import elements_at, gathered
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.forest import Forest, by_node_ids, by_positions, reals, words
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.ops.extension.tree_ensemble import Aggregate
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""The combinations of trees, at the numbers that TreeEnsemble has for them."""
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
"""The functions of scores, at the numbers that TreeEnsemble has for them."""
_ALMOST_ZERO = 1e-7
"""The magnitude up to which SOFTMAX_ZERO takes a score for 0, as onnxruntime does."""
_HALF = 0.5


def _rows(c: Context) -> Value:
    """The input as rows of features, of real numbers."""
    shape = c.tensor().shape
    if len(shape) not in (1, 2):
        raise Unmapped(f"the input must be a matrix or a row, got shape {list(shape)}")
    return c.reshape(c.cast(c.number(), np.dtype(np.float32)), shape if len(shape) == 2 else (1, *shape))


def _scores(c: Context, forest: Forest, targets: int, aggregate: str) -> Value:
    x = _rows(c)
    if forest.feature_count > x.shape[1]:
        raise Unmapped(f"its trees look at {forest.feature_count} features, the input has {x.shape[1]}")
    code = Aggregate.SUM if aggregate == "AVERAGE" else Aggregate[aggregate]
    scores = c.emit(
        ExtendedOperationCode.TREE_ENSEMBLE,
        x,
        c.constant(forest.nodes, I32),
        c.constant(forest.thresholds, F32),
        c.constant(forest.roots, I32),
        c.constant(forest.leaves, I32),
        c.constant(forest.targets, I32),
        c.constant(forest.weights, F32),
        targets,
        int(code),
        out=F32,
    )
    return with_number(c, Op.DIV, scores, len(forest.roots), NONE) if aggregate == "AVERAGE" else scores


def transformed(c: Context, scores: Value, transform: str) -> Value:
    """Scores after the function that attribute 'post_transform' names."""
    if transform == "LOGISTIC":
        return each(c, Op.LOGISTIC, scores)
    if transform == "SOFTMAX":
        return c.emit(Op.SOFTMAX, scores, 1.0, out=F32)
    if transform == "NONE":
        return scores
    most = c.emit(Op.REDUCE_MAX, scores, np.array([1]), True, out=F32)
    power = each(c, Op.EXP, c.emit(Op.SUB, scores, most, NONE, out=F32))
    least = c.emit(Op.MUL, scores, each(c, Op.EXP, each(c, Op.NEG, most)), NONE, out=F32)
    is_some = c.emit(Op.GREATER, each(c, Op.ABS, scores), scalar(c, _ALMOST_ZERO, scores), out=BOOL8)
    parts = chosen(c, is_some, power, least)
    counted = chosen(c, is_some, power, scalar(c, 0.0, power))
    total = c.emit(Op.REDUCE_SUM, counted, np.array([1]), True, out=F32)
    return c.emit(Op.DIV, parts, total, NONE, out=F32)


def transform_of(c: Context) -> str:
    """The function of scores that the node asks for."""
    return words(_TRANSFORMS, c.node.text("post_transform", "NONE"), "post_transform")


def _with_base(c: Context, scores: Value, base: np.ndarray | None) -> Value:
    if base is None or not base.size:
        return scores
    if base.size != scores.shape[1]:
        raise Unmapped(f"there must be a base value for each of {scores.shape[1]} scores, got {base.size}")
    return c.emit(Op.ADD, scores, c.constant(base, F32), NONE, out=F32)


def _regression(c: Context, forest: Forest, targets: int, aggregate: str, transform: str) -> Tensor:
    scores = _with_base(c, _scores(c, forest, targets, aggregate), reals(c, "base_values"))
    # onnxruntime leaves a single target as it is.
    return c.give(transformed(c, scores, "NONE" if targets == 1 else transform), None, c.tensor().dtype)


@operator("ai.onnx.ml.TreeEnsembleRegressor")
def tree_ensemble_regressor(c: Context) -> Tensor:
    """Map TreeEnsembleRegressor: the combination of all trees for each target."""
    aggregate = words(_AGGREGATES, c.node.text("aggregate_function", "SUM"), "aggregate_function")
    found = _regression(c, by_node_ids(c, "target"), c.node.integer("n_targets", 1), aggregate, transform_of(c))
    found.dtype = np.dtype(np.float32)
    return found


@operator("ai.onnx.ml.TreeEnsemble")
def tree_ensemble(c: Context) -> Tensor:
    """Map TreeEnsemble: the combination of all trees for each target."""
    numbers = c.node.integer("aggregate_function", 1), c.node.integer("post_transform", 0)
    if numbers[0] not in range(len(_AGGREGATES)) or numbers[1] not in range(len(_TRANSFORMS)):
        raise Unmapped(f"aggregate function {numbers[0]} with the transform {numbers[1]} is unknown here")
    targets = c.node.integer("n_targets", 1)
    return _regression(c, by_positions(c), targets, _AGGREGATES[numbers[0]], _TRANSFORMS[numbers[1]])


@operator("ai.onnx.ml.TreeEnsembleClassifier")
def tree_ensemble_classifier(c: Context) -> list[Tensor | None]:
    """Map TreeEnsembleClassifier: the class of the largest score, and the scores."""
    forest, transform, base = by_node_ids(c, "class"), transform_of(c), reals(c, "base_values")
    count = len(c.node.integers("classlabels_int64s") or c.node.texts("classlabels_strings") or ())
    if count < 2 or (base is not None and base.size not in (0, 1, count)):
        raise Unmapped(f"there must be two classes at least and a base value for each, got {count} classes")
    scores = _scores(c, forest, count, "SUM")
    ids = np.unique(forest.targets)
    if count == 2 and ids.size == 1:
        return _of_one_score(c, forest, elements_at(c, scores, 1, ids), base, transform)
    if base is not None and base.size == 1:
        raise Unmapped(f"one base value for {count} classes is unknown here")
    scores = _with_base(c, scores, base)
    if count == 2:
        # onnxruntime takes the second class if its score is positive, whatever the first one's is.
        places = c.cast(_is_above(c, elements_at(c, scores, 1, np.array([1])), 0.0), np.dtype(np.int32))
    else:
        is_complete = bool(base is not None and base.size) or forest.weights.min() >= 0
        if not is_complete and not all(forest.has_always(place) for place in range(count)):
            raise Unmapped("a class may have no score while others have negative ones")
        places = c.emit(Op.ARGMAX, scores, 1, out=I32)
    return [labels(c, places), c.give(transformed(c, scores, transform), None, np.float32)]


def _is_above(c: Context, value: Value, number: float) -> Value:
    return c.emit(Op.GREATER, value, scalar(c, number, value), out=BOOL8)


def _of_one_score(
    c: Context, forest: Forest, score: Value, base: np.ndarray | None, transform: str
) -> list[Tensor | None]:
    """Two classes of which only one has a score s: the scores are -s and s, or 1 - s and s if no weight is negative."""
    if transform not in ("NONE", "LOGISTIC"):
        raise Unmapped(f"one score for two classes can't be transformed by {transform}")
    if base is not None and base.size:
        score = with_number(c, Op.ADD, score, float(base[-1]), NONE)
    is_share = forest.weights.min() >= 0
    place = c.cast(_is_above(c, score, _HALF if is_share else 0.0), np.dtype(np.int32))
    other = each(c, Op.NEG, score)
    if is_share and transform == "NONE":
        other = with_number(c, Op.ADD, other, 1.0, NONE)
    both = joined(c, [other, score], 1)
    return [labels(c, place), c.give(transformed(c, both, transform), None, np.float32)]


def labels(c: Context, places: Value) -> Tensor | None:
    """The labels of classes by their places. Texts are refused, unless nobody wants them."""
    if not c.wants(0):
        return None
    numbers = c.node.integers("classlabels_int64s") or c.node.integers("classlabels_ints")
    if not numbers:
        raise Unmapped("its labels are texts, which NNAPI has nothing for")
    places = c.reshape(places, (places.size,))
    found = places if list(numbers) == list(range(len(numbers))) else gathered(c, _whole(c, numbers), 0, places)
    return c.give(found, (places.size,), np.int64)


def _whole(c: Context, numbers: Sequence[int]) -> Value:
    return c.constant(np.array(numbers, np.int64), I32)
