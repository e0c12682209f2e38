"""NON_MAX_SUPPRESSION: sort candidates, suppress, and concatenate the picks of all classes."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.copies.move import fill
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_DYNAMIC_ROUNDS, MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.selection.boxes import NMS, Candidates, picking, suppress
from nnvk.driver.vulkan.lowering.selection.sort import SORTING, Entries, sort_entries
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.extension.non_max_suppression import Rule, decay_scale, rule_of
from nnvk.types.extension import ExtendedOperationCode

NON_MAX_SUPPRESSION = Shader("non_max_suppression", PASS=("boxes", "candidates", "decay", "offsets", "write"))
LOCAL = 64
SUMMING = 128
"""The invocations that add up the numbers of picks."""
LOOPS = 3
"""The loops that a candidate goes through in a turn."""
MOST = LOCAL * (MOST_DYNAMIC_ROUNDS // LOOPS)
"""The most boxes with decaying scores, because each turn reads all of them."""


def refuse(call: Call) -> str | None:
    """The reason why there are too many boxes for the loops, or None."""
    count = call.scores.shape[2]
    if decay_scale(call) and count > MOST:
        return f"scores has shape {list(call.scores.shape)}, the shader lets those of at most {MOST} boxes decay"
    if call.scores.size // max(count, 1) > SUMMING * MOST_ROUNDS:
        return f"scores has shape {list(call.scores.shape)}, the shader takes at most {SUMMING * MOST_ROUNDS} classes"
    return None


@kernel(ExtendedOperationCode.NON_MAX_SUPPRESSION, shaders=(NON_MAX_SUPPRESSION, *SORTING, NMS), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower NON_MAX_SUPPRESSION: sort candidates, suppress, write the output."""
    batches, classes, length = call.scores.shape
    segments, limit = batches * classes, min(call.max_output_size, length)
    if not segments * limit:
        for output in call.outputs:
            if output.size:
                fill(g, g.tensor(output), np.zeros((), output.dtype))
        return
    edges, scores, threshold = _edges(call, g), g.tensor(call.scores), g.tensor(call.iou_threshold)
    found = Entries.new(g, segments, length)
    every = call.score_threshold is None
    least = g.constant(np.zeros(1, np.float32)) if every else g.tensor(call.score_threshold)
    _flat(
        g,
        "candidates",
        segments * length,
        {"scores": scores, "least": least, **found.tensors},
        {"EVERY": every},
        length=length,
    )
    if decay_scale(call):
        picks, counts, scores = _decayed(call, g, found, edges, threshold, least, limit)
    else:
        ordered = sort_entries(g, found, length)
        candidates = Candidates(ordered, found.sizes, segments, length, edges, batches, length)
        picks, counts = suppress(g, candidates, threshold, limit, rule_of(call))
    offsets = g.scratch(4 * (segments + 1))
    g.dispatch(
        NON_MAX_SUPPRESSION.variant(PASS="offsets"),
        groups=(1,),
        spec={"local_x": SUMMING},
        tensors={"counts": counts, "offsets": offsets, "total": g.tensor(call.count)},
        segments=segments,
    )
    selected, kept = g.tensor(call.selected), g.tensor(call.scores_out)
    _flat(
        g,
        "write",
        call.scores_out.size,
        {"offsets": offsets, "picks": picks, "scores": scores, "selected": selected, "kept": kept},
        {"DECAYED": bool(decay_scale(call))},
        segments=segments,
        classes=classes,
        length=length,
        limit=limit,
    )


def _flat(
    g: Lowering, which: str, count: int, tensors: dict[str, TensorRef], spec: dict[str, bool], **push: int
) -> None:
    g.dispatch(
        NON_MAX_SUPPRESSION.variant(PASS=which),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, **spec},
        tensors=tensors,
        count=count,
        **push,
    )


def _edges(call: Call, g: Lowering) -> TensorRef:
    """Dispatch the lower and the higher corner of all boxes."""
    edges = g.scratch(4 * call.boxes.size)
    tensors = {"boxes": g.tensor(call.boxes), "edges": edges}
    _flat(g, "boxes", call.boxes.size // 4, tensors, {"CENTRES": bool(call.center_point_box)})
    return edges


def _decayed(
    call: Call, g: Lowering, found: Entries, edges: TensorRef, threshold: TensorRef, least: TensorRef, limit: int
) -> tuple[TensorRef, TensorRef, TensorRef]:
    """The positions of the picked boxes [segments, limit], their number, and their decayed scores."""
    picks, kept = g.scratch(4 * found.rows * limit), g.scratch(4 * found.rows * limit)
    counts = g.scratch(4 * found.rows)
    local = picking(g.device, found.rows, found.length)
    turns = max(1, MOST_DYNAMIC_ROUNDS // (-(-found.length // local) * LOOPS + 1))
    for done in range(0, limit, turns):
        g.dispatch(
            NON_MAX_SUPPRESSION.variant(PASS="decay"),
            groups=g.flat(found.rows, 1),
            spec={"local_x": local, "LOCAL": local, "ABOVE": rule_of(call) is Rule.ABOVE},
            tensors={
                **found.tensors,
                "edges": edges,
                "threshold": threshold,
                "least": least,
                "picks": picks,
                "kept": kept,
                "counts": counts,
            },
            segments=found.rows,
            sharing=call.scores.shape[1],
            length=found.length,
            limit=limit,
            turns=turns,
            resume=int(done > 0),
            scale=float(decay_scale(call)),
        )
    return picks, counts, kept
