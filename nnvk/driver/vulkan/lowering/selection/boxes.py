"""Boxes: their suppression by better ones (``shaders/nms.comp``), and device assertions about them.

The assertions have the reference's words (``nnvk/ops/boxes.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Tensor
from nnvk.ops.extension.non_max_suppression import Rule

NMS = Shader("nms", PASS=("test", "pick"))
LOCAL = 64
_MOST_PICKING = 1024
"""The most invocations of a workgroup that picks boxes."""
_RESIDENT = 1024
"""The invocations that a unit of a GPU runs at once."""
SPAN = 512
"""The candidates that are decided at a time."""
PART = 1024
"""The earlier picks that an invocation tests."""
BOX = "[{:r}, {:r}, {:r}, {:r}]"
"""The text that locates a box in an assertion."""


def order_flag(g: Lowering, boxes: Tensor) -> TensorRef:
    """The assertion for boxes with corners out of order."""
    return g.flag(f"{boxes.name} must have x1 <= x2 and y1 <= y2 in each box, got {BOX} in box {{}}")


def batch_flag(g: Lowering, batch_split: Tensor, batches: int) -> TensorRef:
    """The assertion for batches that do not exist."""
    return g.flag(f"{batch_split.name}[{{}}] must be in [0, {batches}), got {{}}")


def picking(device: DeviceProfile, segments: int, candidates: int) -> int:
    """The invocations of the workgroup that picks boxes of a segment, one after the other: a power of two.

    A workgroup of a GPU has more than `LOCAL`, up to one for each candidate, while units would be idle otherwise.
    """
    local = LOCAL
    most = min(candidates, device.max_invocations, _MOST_PICKING)
    while not device.is_cpu and 2 * local <= most and segments * local < _RESIDENT * device.units:
        local *= 2
    return local


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of a suppression, in segments."""

    entries: TensorRef
    """[segments, length, 2], sorted: keys, 0 for no candidate, and positions of boxes in their group."""
    sizes: TensorRef
    """[segments]: the number of candidates."""
    segments: int
    length: int
    boxes: TensorRef
    """[groups, boxes of a group, 4], float32."""
    groups: int
    per_group: int
    """The boxes of a group. Consecutive segments share a group."""


def suppress(
    g: Lowering, candidates: Candidates, threshold: TensorRef, limit: int, rule: Rule | None = None
) -> tuple[TensorRef, TensorRef]:
    """Positions of the boxes that are picked [segments, limit], in order, and how many they are [segments].

    ``threshold`` is one number. Without a rule it is NNAPI's: a box goes that overlaps by the threshold or more.
    """
    segments, length = candidates.segments, candidates.length
    picks, counts = g.scratch(4 * segments * limit), g.scratch(4 * segments)
    tensors = {
        "entries": candidates.entries,
        "sizes": candidates.sizes,
        "boxes": candidates.boxes,
        "picks": picks,
        "counts": counts,
        "suppressed": g.scratch(4 * segments * SPAN),
        "threshold": threshold,
    }
    spec = {
        "ABOVE": rule is Rule.ABOVE,
        "AGAIN": rule is Rule.AT_LEAST,
        "EMPTY": rule is not None,
    }
    push = {
        "segments": segments,
        "sharing": segments // candidates.groups,
        "per_boxes": candidates.per_group,
        "length": length,
        "limit": limit,
    }
    local = picking(g.device, segments, min(length, SPAN))
    for span in range(-(-length // SPAN)):
        if span:
            parts = -(-min(limit, span * SPAN) // PART)
            g.dispatch(
                NMS.variant(PASS="test"),
                groups=g.flat(segments * parts * SPAN, LOCAL),
                spec={**spec, "local_x": LOCAL},
                tensors=tensors,
                span=span,
                parts=parts,
                **push,
            )
        g.dispatch(
            NMS.variant(PASS="pick"),
            groups=g.flat(segments, 1),
            spec={**spec, "local_x": local, "LOCAL": local},
            tensors=tensors,
            span=span,
            **push,
        )
    return picks, counts
