"""FILL and RANK, whose outputs follow from parameters and shapes alone."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.copies.move import FILL, fill
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode


@kernel(OperationCode.FILL, shaders=(FILL,))
def lower(call: Call, g: Lowering) -> None:
    """Lower FILL."""
    fill(g, g.tensor(call.output), np.array(call.value, call.output.dtype))


@kernel(OperationCode.RANK)
def lower_rank(call: Call, g: Lowering) -> None:
    """Lower RANK to a constant of the plan."""
    g.give(call.output, np.array(call.input.rank, np.int32))
