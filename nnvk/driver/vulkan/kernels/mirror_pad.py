"""MIRROR_PAD: one axis after the other, in three moves each."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import MOVE, move
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Call
from nnvk.ops.pad import REFLECT, paddings
from nnvk.types.codes import OperationCode


@kernel(OperationCode.MIRROR_PAD, shaders=(MOVE,))
def lower(call: Call, g: Lowering) -> None:
    """Each axis is mirrored with those before it."""
    source, shape = g.tensor(call.input), call.input.shape
    padded = [axis for axis, pair in enumerate(paddings(call)) if any(pair)]
    if not padded:
        g.copy(source, g.tensor(call.output), source.nbytes)
    for axis in padded:
        before, after = paddings(call)[axis]
        wider = (*shape[:axis], before + shape[axis] + after, *shape[axis + 1 :])
        last = axis == padded[-1]
        target = g.tensor(call.output) if last else g.scratch(math.prod(wider) * call.input.dtype.itemsize)
        _mirror(call, g, source, target, axis, shape)
        source, shape = target, wider


def _mirror(call: Call, g: Lowering, source: TensorRef, target: TensorRef, axis: int, shape: tuple[int, ...]) -> None:
    """Pad one axis of ``source``, which has this shape, into ``target``."""
    before, after = paddings(call)[axis]
    size, inner = shape[axis], math.prod(shape[axis + 1 :])
    outer = math.prod(shape[:axis])
    wider = before + size + after
    skip = 1 if call.mode == REFLECT else 0  # REFLECT does not repeat the outermost elements
    # Number of elements, the first in the source, the step there, and the first in the target.
    for count, start, step, place in (
        (before, before - 1 + skip, -1, 0),
        (size, 0, 1, before),
        (after, size - 1 - skip, -1, before + size),
    ):
        if count:
            move(
                g,
                moved(call.input),
                source,
                target,
                (outer, count, inner),
                (size * inner, step * inner & 0xFFFFFFFF, 1),
                (wider * inner, inner, 1),
                source_first=start * inner,
                target_first=place * inner,
            )
