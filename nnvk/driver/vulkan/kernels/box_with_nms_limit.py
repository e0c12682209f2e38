"""BOX_WITH_NMS_LIMIT: the best boxes of each class, after hard or soft suppression of those that overlap."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, as_float32, finish_float32, float32_result
from nnvk.driver.vulkan.lowering.dtypes import of
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_DYNAMIC_ROUNDS, MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.selection.boxes import order_flag, picking
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

BOX_WITH_NMS_LIMIT = Shader(
    "box_with_nms_limit", PASS=("prepare", "runs", "pick", "select", "offsets", "write", "labels")
)
LOCAL = 64
SELECTING = 128
GROUPS = 64
"""The least workgroups that pick boxes. With fewer classes, several workgroups share the images of a class."""
IMAGES = 400
"""The most images that a workgroup selects from."""
MOST_BOXES = MOST_ROUNDS
MOST = 6_000_000
"""Boxes of a class, and of all classes, for the same reason."""
SAVED = 6
"""The words that a workgroup stores for the next dispatch, in addition to one for each invocation."""


def refuse(call: Call) -> str | None:
    """The reason why there are too many boxes or classes for the loops, or None."""
    count, classes = call.scores.shape
    if max(count, classes) > MOST_BOXES or count * classes > MOST:
        return f"scores has shape {[count, classes]}, the shader takes at most {MOST_BOXES} in each, and {MOST} in all"
    return None


@kernel(OperationCode.BOX_WITH_NMS_LIMIT, shaders=(BOX_WITH_NMS_LIMIT, CONVERT), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower BOX_WITH_NMS_LIMIT: find the images, pick boxes of each class, select the best of each image, write the
    output.
    """
    count, classes = call.scores.shape[0], call.scores.shape[1] - 1
    every, rois = count * classes, as_float32(g, call.rois)
    work, runs = g.scratch(8 * every), g.scratch(4 * (2 + 2 * count))
    picks, picked = g.scratch(8 * every), g.scratch(4 * every)
    selected, totals = g.scratch(8 * every), g.scratch(4 * count)

    def dispatch(
        which: str,
        groups: tuple[int, ...],
        local: int,
        tensors: dict[str, TensorRef],
        spec: dict[str, int] | None = None,
        **push: float,
    ) -> None:
        g.dispatch(
            BOX_WITH_NMS_LIMIT.variant(PASS=which),
            groups=groups,
            spec={"local_x": local, **(spec or {})},
            tensors=tensors,
            count=count,
            classes=classes,
            **push,
        )

    scores, flag = as_float32(g, call.scores), order_flag(g, call.rois)
    prepared = {"scores": scores, "rois": rois, "work": work, "flag": flag}
    dispatch("prepare", g.flat(count * (classes + 1), LOCAL), LOCAL, prepared)
    dispatch("runs", (1,), SELECTING, {"runs": runs, "split": g.tensor(call.batch_split)})
    images = min(count, -(-GROUPS // classes))
    local = picking(g.device, classes, count)
    state = g.scratch(4 * images * classes * (SAVED + local))
    for number in range(-(-_rounds(call, local) // MOST_DYNAMIC_ROUNDS)):
        dispatch(
            "pick",
            (classes, images),
            local,
            {"runs": runs, "rois": rois, "work": work, "picks": picks, "picked": picked, "state": state},
            {"KERNEL": call.nms_kernel, "LOCAL": local},
            limit=call.max_detections,
            rounds=MOST_DYNAMIC_ROUNDS,
            resume=number,
            least_first=call.score_threshold,
            iou_threshold=call.iou_threshold,
            sigma=call.sigma,
            least=call.nms_score_threshold,
        )
    chosen = {"runs": runs, "picks": picks, "picked": picked, "selected": selected, "totals": totals}
    dispatch("select", (min(count, 4 + count // IMAGES),), SELECTING, chosen, limit=call.max_detections)
    dispatch("offsets", (1,), SELECTING, {"runs": runs, "totals": totals, "total": g.count(call.outputs)})
    kept, split = float32_result(g, call.scores_out), g.tensor(call.batch_split)
    written = {"boxes": g.tensor(call.rois), "kept": kept, "corners": g.tensor(call.rois_out)}
    dispatch("write", g.flat(every, LOCAL), LOCAL, chosen | written, {"WORDS": of(call.rois).size})
    labelled = {"split": split, "labels": g.tensor(call.classes_out), "batches": g.tensor(call.batch_split_out)}
    dispatch("labels", g.flat(every, LOCAL), LOCAL, chosen | labelled)
    finish_float32(g, kept, call.scores_out)


def _rounds(call: Call, local: int) -> int:
    """The most rounds of loops in which one of ``local`` invocations picks from all images.

    One image and many images need most.
    """
    count = call.scores.shape[0]
    picks = min(count, call.max_detections) if call.max_detections >= 0 else count
    each = -(-count // local)
    return (picks + 2) * 2 * each + 12 * count
