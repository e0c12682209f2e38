"""FULLY_CONNECTED on the GPU: a convolution of one tap."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.arrange import ARRANGE, arrange
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.filter_output import Operands
from nnvk.driver.vulkan.lowering.filters import filters_of
from nnvk.driver.vulkan.lowering.gemm import GEMM_SHADERS, POINT, Gemm, multiply, refuse_long_sums
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.time_steps import time_steps_of
from nnvk.ops.call import Call, Tensor
from nnvk.ops.strided import Box
from nnvk.types.codes import OperationCode


def _refuse(call: Call) -> str | None:
    return refuse_long_sums((1, 1), call.weights.shape[1])


def _takes_view(call: Call, tensor: Tensor, view: Tensor, alone: bool) -> bool:
    return tensor is call.weights and filters_of(view).can_be_packed


@kernel(OperationCode.FULLY_CONNECTED, shaders=(*GEMM_SHADERS, ARRANGE), refuse=_refuse, takes_view=_takes_view)
def lower(call: Call, g: Lowering) -> None:
    """Lower to one GEMM, or to a copy of rows of the GEMM for all time steps of an unrolled layer."""
    time_steps = time_steps_of(g, call.input, call.weights, call.bias) if call.weights.view is None else None
    if time_steps is None:
        _multiply(g, call, call.input, call.output)
        return

    def of_all(inputs: Tensor) -> Tensor:
        shape = inputs.shape[0], call.output.shape[1]
        together = g.intermediate("together", call.output.type.with_dimensions(shape))
        _multiply(g, call, inputs, together)
        return together

    rows, columns = call.output.shape
    made_with = call.weights.index, call.bias.index, call.activation, call.output.type.with_dimensions(())
    together = time_steps.once(g, made_with, of_all)
    box = Box(((rows, columns), (columns, 1)), time_steps.row * columns)
    arrange(g, moved(together), g.tensor(together), g.tensor(call.output), box)


def _multiply(g: Lowering, call: Call, source: Tensor, target: Tensor) -> None:
    operands = Operands(call.code, source, filters_of(call.weights), call.bias, target, call.activation)
    (rows, outputs), depth = target.shape, call.weights.shape[1]
    multiply(g, operands, Gemm((rows, 1, 1, depth), (rows, 1, 1, outputs), POINT, POINT))
