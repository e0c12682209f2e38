"""PACK: every input is moved to its place."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import MOVE, move
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode


@kernel(OperationCode.PACK, shaders=(MOVE,))
def lower(call: Call, g: Lowering) -> None:
    """A dispatch an input."""
    target, count = g.tensor(call.output), len(call.inputs)
    inner = math.prod(call.output.shape[call.axis + 1 :])
    for number, source in enumerate(call.inputs):
        sizes = (source.size // inner, inner)
        place = (count * inner, 1)
        move(g, moved(source), g.tensor(source), target, sizes, (inner, 1), place, target_first=number * inner)
