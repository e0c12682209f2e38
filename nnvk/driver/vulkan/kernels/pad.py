"""PAD and PAD_V2: fill, then move the input into the middle."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import FILL, MOVE, dense_strides, fill, move
from nnvk.ops.call import Call
from nnvk.ops.pad import pad_value, paddings
from nnvk.types.codes import OperationCode


@kernel(OperationCode.PAD, OperationCode.PAD_V2, shaders=(FILL, MOVE))
def lower(call: Call, g: Lowering) -> None:
    """Two dispatches over the output and the input."""
    source, target = g.tensor(call.input), g.tensor(call.output)
    fill(g, target, np.array(pad_value(call)).astype(call.input.dtype))
    if call.input.size:
        strides = dense_strides(call.output.shape)
        first = sum(before * stride for (before, _), stride in zip(paddings(call), strides, strict=True))
        move(
            g,
            moved(call.input),
            source,
            target,
            call.input.shape,
            dense_strides(call.input.shape),
            strides,
            target_first=first,
        )
