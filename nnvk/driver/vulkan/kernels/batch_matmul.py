"""BATCH_MATMUL: a GEMM for each pair of matrices."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.filter_output import Operands
from nnvk.driver.vulkan.lowering.filters import Filters
from nnvk.driver.vulkan.lowering.gemm import GEMM_SHADERS, POINT, Gemm, Split, multiply, refuse_long_sums
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode


def _sizes(call: Call) -> tuple[int, int, int, int]:
    """Matrices, rows and columns of the products, and what is summed."""
    *batches, rows, columns = call.output.shape
    return math.prod(batches), rows, columns, call.input0.shape[-2 if call.adj_x else -1]


def refuse(call: Call) -> str | None:
    """Sums that are too long."""
    return refuse_long_sums((1, 1), _sizes(call)[3])


@kernel(OperationCode.BATCH_MATMUL, shaders=GEMM_SHADERS, refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """The right matrices are filters; the pass `layouts` has transposed left ones."""
    batches, rows, columns, depth = _sizes(call)
    strides = (depth, 1) if call.adj_y else (1, columns)
    right = Filters(call.input1, batches, columns, 1, depth, (depth * columns, strides[0], 0, strides[1]))
    source, target = (batches, rows, 1, depth), (batches, rows, 1, columns)
    gemm = Gemm(source, target, POINT, POINT, Split.BATCHES, batches)
    multiply(g, Operands(call.code, call.input0, right, None, call.output), gemm)
