"""The last operators of detectors: the custom operator of SSD, and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnvk.api import OperationCode
from nnvk.importers.emitter import F32, I32, is_quantised
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.flex_options import FlexOptions
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.extension.non_max_suppression import Rule
from nnvk.types.extension import ExtendedOperationCode

_LEAST_SCORE = 1e-30
"""The score that stands for 0 where 0 counts as a score."""
_DEFAULTS = {"detections_per_class": 100, "use_regular_nms": False}


def _positive(c: Context, scores: Value) -> Value:
    """Scores that are all above 0, which is the least threshold that NNAPI has, where none was below 0."""
    source = c.input(1)
    is_from_0 = is_quantised(source) and source.type.zero_point <= np.iinfo(source.type.dtype).min
    if not is_from_0 and not c.comes_from(1, ("LOGISTIC", "SOFTMAX")):
        raise Unmapped(
            "NNAPI has no score threshold below 0, and scores (input 1) that come from other operators than LOGISTIC "
            "and SOFTMAX may be below 0 too"
        )
    return c.emit(OperationCode.MAXIMUM, scores, c.constant(_LEAST_SCORE, F32), out=F32)


@builtin("TFLite_Detection_PostProcess")
def detection_postprocess(c: Context) -> Sequence[Value]:
    """Map the custom operator of SSD. NNAPI gives its outputs in another order, and classes and number as INT32."""
    options = FlexOptions(c.operator.custom_options(), _DEFAULTS)
    deltas, scores, anchors = (c.real(c.input(position)) for position in range(3))
    if len(scores.shape) != 3:
        raise Unmapped(f"the scores (input 1) must have rank 3, got shape {list(scores.shape)}")
    threshold = float(options["nms_score_threshold"])
    if threshold < 0:
        scores, threshold = _positive(c, scores), 0.0
    background = scores.shape[2] - int(options["num_classes"])
    if background not in (0, 1):
        raise Unmapped(f"{scores.shape[2]} scores do not fit num_classes {int(options['num_classes'])}")
    if not background:  # NNAPI's scores always begin with the background's, which it ignores
        scores = c.keep(OperationCode.PAD, scores, np.array([[0, 0], [0, 0], [1, 0]]))
    kept, boxes, classes, count = c.emit_many(
        OperationCode.DETECTION_POSTPROCESSING,
        scores,
        deltas,
        anchors,
        *(float(options[f"{axis}_scale"]) for axis in "yxhw"),
        bool(options["use_regular_nms"]),
        *(int(options[name]) for name in ("max_detections", "max_classes_per_detection", "detections_per_class")),
        threshold,
        float(options["nms_iou_threshold"]),
        False,
        outs=[F32, F32, I32, I32],
    )
    numbers = (c.emit(OperationCode.CAST, value, out=F32) for value in (classes, count))
    return [boxes, next(numbers), kept, next(numbers)]


_SCORES = {"NON_MAX_SUPPRESSION_V4": False, "NON_MAX_SUPPRESSION_V5": True}
"""Operators, and whether they give the scores too."""


@builtin(*_SCORES)
def non_max_suppression(c: Context) -> Sequence[Value]:
    """Indices of the boxes that were picked, and how many; 0 is behind them."""
    boxes, scores = c.input(0), c.input(1)
    if len(scores.shape) != 1 or boxes.shape != (scores.size, 4):
        raise Unmapped(f"boxes of shape {list(boxes.shape)} and scores of {list(scores.shape)} do not fit together")
    most = c.integer(2, "the maximum")
    has_scores = _SCORES[c.operator.name]
    if not most:
        raise Unmapped("the maximum (input 2) is 0, and NNAPI has no outputs without elements")
    rows, kept, count = c.emit_many(
        ExtendedOperationCode.NON_MAX_SUPPRESSION,
        c.reshape(boxes, (1, *boxes.shape)),
        c.reshape(scores, (1, 1, scores.size)),
        most,
        c.reshape(c.input(3), (1,)),
        c.reshape(c.input(4), (1,)),
        int(Rule.AT_LEAST),
        False,
        _sigma(c) if has_scores else 0.0,
        outs=[I32, F32, I32],
    )
    picked = c.reshape(c.keep(OperationCode.SLICE, rows, np.array([0, 2]), np.array([most, 1])), (most,))
    return [picked, kept, count] if has_scores else [picked, count]


def _sigma(c: Context) -> float:
    """How slowly scores decay; 0 where they don't."""
    array = c.input(5).known_array
    if array is None:
        raise c.not_constant("sigma (input 5) must be a constant", 5)
    if array.size != 1 or array.dtype.kind != "f":
        raise Unmapped("sigma (input 5) must be one real number, and a constant")
    return float(array.reshape(()))
