"""PAD and PAD_V2: the input amid elements of one value."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import FILL, fill
from nnvk.driver.vulkan.lowering.surround import CONSTANT, SURROUND, surround
from nnvk.ops.call import Call
from nnvk.ops.pad import pad_value, paddings
from nnvk.types.codes import OperationCode


@kernel(OperationCode.PAD, OperationCode.PAD_V2, shaders=(FILL, SURROUND))
def lower(call: Call, g: Lowering) -> None:
    """Four elements of the output an invocation."""
    target, element = g.tensor(call.output), np.array(pad_value(call)).astype(call.input.dtype)
    if not call.input.size:
        fill(g, target, element)
        return
    source, shape = g.tensor(call.input), call.input.shape
    surround(g, moved(call.input), source, target, shape, paddings(call), CONSTANT, element)
