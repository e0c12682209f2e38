"""DETECTION_POSTPROCESSING: anchors moved by deltas, and the best detections of each image by hard suppression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, as_float32, finish_float32, float32_result
from nnvk.driver.vulkan.lowering.copies.move import fill
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.selection.boxes import NMS, Candidates, suppress
from nnvk.driver.vulkan.lowering.selection.sort import SORTING, Entries, sort_entries
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

DETECTION = Shader("detection", PASS=("boxes", "classes", "anchors", "picks", "write", "labels"))
LOCAL = 64


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The sizes of one operation."""

    batches: int
    anchors: int
    classes: int
    """The background's among them."""
    limit: int
    """Picks of a segment: of a class (regular), or of an image."""
    rows: int
    """The rows of an image's output."""

    @classmethod
    def of(cls, call: Call) -> _Sizes:
        batches, anchors, classes = call.scores.shape
        limit = min(call.max_detections_per_class if call.regular_nms else call.max_detections, anchors)
        return cls(batches, anchors, classes, limit, call.scores_out.shape[1])


@kernel(OperationCode.DETECTION_POSTPROCESSING, shaders=(DETECTION, *SORTING, NMS, CONVERT))
def lower(call: Call, g: Lowering) -> None:
    """Boxes, candidates by their keys, suppression, the order of what was picked, and the output."""
    sizes = _Sizes.of(call)
    if not sizes.anchors:
        for output in call.outputs:
            fill(g, g.tensor(output), np.zeros((), output.dtype))
        return
    scores, boxes = as_float32(g, call.scores), _boxes(call, g, sizes)
    regular, classes = call.regular_nms, sizes.classes - 1
    found = Entries.new(g, sizes.batches * (classes if regular else 1), sizes.anchors)
    _list(g, sizes, "classes" if regular else "anchors", found, {"scores": scores}, threshold=call.score_threshold)
    ordered = sort_entries(g, found, found.length)
    candidates = Candidates(ordered, found.sizes, found.rows, found.length, boxes, sizes.batches, sizes.anchors)
    picks, counts = suppress(g, candidates, g.constant(np.array([call.iou_threshold], np.float32)), sizes.limit)
    picked = {"scores": scores, "picks": picks, "counts": counts}
    if regular:
        found, keep = Entries.new(g, sizes.batches, classes * sizes.limit), call.max_detections
    else:
        found, keep = Entries.new(g, sizes.batches * sizes.limit, classes), call.max_classes_per_detection
    _list(g, sizes, "picks", found, picked, regular=regular, limit=sizes.limit)
    keep = min(keep, found.length)
    ordered = sort_entries(g, found, keep)
    _write(call, g, sizes, {**picked, "entries": ordered, "sizes": found.sizes, "boxes": boxes}, keep)


def _boxes(call: Call, g: Lowering, sizes: _Sizes) -> TensorRef:
    count = sizes.batches * sizes.anchors
    boxes = g.scratch(16 * count)
    g.dispatch(
        DETECTION.variant(PASS="boxes"),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"deltas": as_float32(g, call.deltas), "anchors": as_float32(g, call.anchors), "boxes": boxes},
        count=count,
        per_batch=sizes.anchors,
        encoding=call.deltas.shape[2],
        scale_y=call.scale_y,
        scale_x=call.scale_x,
        scale_h=call.scale_h,
        scale_w=call.scale_w,
    )
    return boxes


def _list(
    g: Lowering,
    sizes: _Sizes,
    which: str,
    found: Entries,
    tensors: dict[str, TensorRef],
    *,
    regular: bool = False,
    **push: float,
) -> None:
    """Append what there is of ``which`` to entries."""
    count = found.rows * found.length
    g.dispatch(
        DETECTION.variant(PASS=which),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "REGULAR": regular},
        tensors={**tensors, **found.tensors},
        count=count,
        per_batch=sizes.anchors,
        classes=sizes.classes,
        **push,
    )


def _write(call: Call, g: Lowering, sizes: _Sizes, tensors: dict[str, TensorRef], keep: int) -> None:
    count = sizes.batches * sizes.rows
    kept, corners = float32_result(g, call.scores_out), float32_result(g, call.rois_out)
    rows = {"count": count, "classes": sizes.classes, "limit": sizes.limit, "rows": sizes.rows, "entries_of": keep}
    g.dispatch(
        DETECTION.variant(PASS="write"),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "REGULAR": call.regular_nms},
        tensors={**tensors, "kept": kept, "corners": corners},
        per_batch=sizes.anchors,
        **rows,
    )
    g.dispatch(
        DETECTION.variant(PASS="labels"),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "REGULAR": call.regular_nms},
        tensors={
            **{name: tensors[name] for name in ("counts", "entries", "sizes")},
            "labels": g.tensor(call.classes_out),
            "found": g.tensor(call.detections_out),
        },
        first_label=int(call.background_in_labels),
        **rows,
    )
    finish_float32(g, kept, call.scores_out)
    finish_float32(g, corners, call.rois_out)
