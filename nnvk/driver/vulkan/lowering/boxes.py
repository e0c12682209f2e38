"""Device assertions of shaders about boxes, worded as the reference words them (``nnvk/ops/boxes.py``)."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Tensor

BOX = "[{:r}, {:r}, {:r}, {:r}]"
"""The place of a box in an assertion."""


def order_flag(g: Lowering, boxes: Tensor) -> TensorRef:
    """For boxes whose corners are not in order."""
    return g.flag(f"{boxes.name} must have x1 <= x2 and y1 <= y2 in each box, got {BOX} in box {{}}")


def batch_flag(g: Lowering, batch_split: Tensor, batches: int) -> TensorRef:
    """For batches that do not exist."""
    return g.flag(f"{batch_split.name}[{{}}] must be in [0, {batches}), got {{}}")
