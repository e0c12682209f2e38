"""FULLY_CONNECTED on the GPU: a convolution of one tap."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.filter_output import Operands
from nnvk.driver.vulkan.lowering.filters import filters_of
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.product import POINT, PRODUCT_SHADERS, Product, multiply, refuse_long_sums
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode


def _refuse(call: Call) -> str:
    return refuse_long_sums((1, 1), call.weights.shape[1])


@kernel(OperationCode.FULLY_CONNECTED, shaders=PRODUCT_SHADERS, refuse=_refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower FULLY_CONNECTED."""
    operands = Operands(call.code, call.input, call.weights, call.bias, call.output, call.activation)
    rows, outputs = call.output.shape
    depth = call.weights.shape[1]
    product = Product((rows, 1, 1, depth), (rows, 1, 1, outputs), POINT, POINT)
    multiply(g, operands, filters_of(call.weights), product)
