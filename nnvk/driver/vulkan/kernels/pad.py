"""PAD, PAD_V2 and MIRROR_PAD: pad the input with one value, or with its own mirrored elements."""

from __future__ import annotations

import math

import numpy as np

from nnvk.driver.vulkan.lowering.copies import pad_box
from nnvk.driver.vulkan.lowering.copies.move import FILL, fill
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops import pad
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

_MODES = {pad.REFLECT: pad_box.REFLECT, pad.SYMMETRIC: pad_box.SYMMETRIC}
_TOGETHER = (pad_box.RANK - 1) // 2
"""The most axes that one dispatch pads. Each padded axis, and the axes between and around them, are one dimension."""


@kernel(OperationCode.PAD, OperationCode.PAD_V2, shaders=(FILL, pad_box.PAD))
def lower(call: Call, g: Lowering) -> None:
    """Lower PAD or PAD_V2: each invocation computes four elements of the output."""
    target, element = g.tensor(call.output), np.array(pad.pad_value(call)).astype(call.input.dtype)
    if not call.input.size:
        fill(g, target, element)
        return
    source, shape, pairs = g.tensor(call.input), call.input.shape, pad.paddings(call)
    pad_box.pad_box(g, moved(call.input), source, target, shape, pairs, pad_box.CONSTANT, element)


@kernel(OperationCode.MIRROR_PAD, shaders=(pad_box.PAD,))
def lower_mirrored(call: Call, g: Lowering) -> None:
    """Lower MIRROR_PAD: each invocation computes four elements of the output. Several dispatches pad many axes."""
    source, shape, pairs = g.tensor(call.input), call.input.shape, pad.paddings(call)
    padded = [axis for axis, pair in enumerate(pairs) if any(pair)]
    if not padded:
        g.copy(source, g.tensor(call.output), source.nbytes)
    together = pad_box.RANK if len(shape) <= pad_box.RANK else _TOGETHER
    for first in range(0, len(padded), together):
        now = padded[first : first + together]
        around = [pair if axis in now else (0, 0) for axis, pair in enumerate(pairs)]
        wider = tuple(before + size + after for size, (before, after) in zip(shape, around, strict=True))
        last = now[-1] == padded[-1]
        target = g.tensor(call.output) if last else g.scratch(math.prod(wider) * call.input.dtype.itemsize)
        pad_box.pad_box(g, moved(call.input), source, target, shape, around, _MODES[call.mode])
        source, shape = target, wider
