"""FULLY_CONNECTED on the GPU: a convolution of one tap, or a matrix-vector product for few rows."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.filter_output import Operands, output_push, output_tensors
from nnvk.driver.vulkan.lowering.filters import BLOCK, filters_of, packed
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.product import (
    POINT,
    PRODUCT_SHADERS,
    Product,
    multiply,
    refuse_long_sums,
    uses_subgroups,
)
from nnvk.driver.vulkan.lowering.relayout import finish_output, nhwc_output
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

SHADER = Shader("fully_connected", DTYPE=("f32", "f16", "q8"))

_FEW_ROWS = 4
"""Rows up to which reading the weights once per row is faster than the tiles of a matrix product."""
_LOCAL = {"local_x": 8, "local_y": 16}


def _refuse(call: Call) -> str:
    return refuse_long_sums((1, 1), call.weights.shape[1])


@kernel(OperationCode.FULLY_CONNECTED, shaders=(SHADER, *PRODUCT_SHADERS), refuse=_refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower FULLY_CONNECTED."""
    operands = Operands(call.code, call.input, call.weights, call.bias, call.output, call.activation)
    rows, outputs = call.output.shape
    if rows <= _FEW_ROWS and not uses_subgroups(g.device):
        _matrix_vector(g, operands)
    else:
        product = Product((rows, 1, 1, call.weights.shape[1]), (rows, 1, 1, outputs), POINT, POINT)
        multiply(g, operands, filters_of(call.weights), product)


def _matrix_vector(g: Lowering, operands: Operands) -> None:
    rows, outputs = operands.output.shape
    shape = (rows, 1, 1, outputs)
    target = nhwc_output(g, operands.output, shape)
    g.dispatch(
        SHADER.variant(DTYPE=dtype(operands.input)),
        groups=(rows, -(-outputs // BLOCK), 1),
        spec={**_LOCAL, "VECTOR_STORES": outputs % 4 == 0},
        tensors={
            "src": g.tensor(operands.input),
            "weights": packed(g, filters_of(operands.filter)),
            "dst": target,
            **output_tensors(g, operands, outputs),
        },
        inputs=operands.filter.shape[1],
        out_channels=outputs,
        **output_push(operands),
    )
    finish_output(g, target, operands.output, shape)
