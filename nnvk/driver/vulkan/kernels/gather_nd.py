"""GATHER_ND: find the coordinates of rows by indices into several axes, and copy these rows."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.kernels.gather import GATHERING, gather_rows
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.selection.coordinates import COORDINATES, coordinates
from nnvk.ops.call import Call
from nnvk.ops.extension.gather_nd import split_shape
from nnvk.types.extension import ExtendedOperationCode


@kernel(ExtendedOperationCode.GATHER_ND, shaders=(COORDINATES, *GATHERING), checks_data=True)
def lower(call: Call, g: Lowering) -> None:
    """Lower GATHER_ND."""
    batches, sizes, rest = split_shape(call)
    count = math.prod(batches)
    rows = coordinates(g, call.indices, sizes, count, call.batch_dims)
    taken = call.indices.size // len(sizes)
    gather_rows(g, call.input, count * math.prod(sizes), math.prod(rest), rows, taken, call.output)
