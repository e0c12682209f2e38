"""FULLY_CONNECTED on the GPU: a convolution of one tap."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.gemm.gemm import (
    GEMM_SHADERS,
    epilogue_channels,
    has_few_channels,
    lower_gemm,
    refuse_long_sums,
)
from nnvk.driver.vulkan.lowering.gemm.problem import Fused, Gemm, Operands
from nnvk.driver.vulkan.lowering.gemm.weights import weights_of
from nnvk.driver.vulkan.lowering.kernel import gemm_kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Call, Tensor
from nnvk.types.codes import OperationCode


def _refuse(call: Call) -> str | None:
    return refuse_long_sums((1, 1), call.weights.shape[1])


def _takes_view(call: Call, tensor: Tensor, view: Tensor, alone: bool) -> bool:
    return tensor is call.weights and weights_of(view).can_be_packed


@gemm_kernel(
    OperationCode.FULLY_CONNECTED,
    shaders=GEMM_SHADERS,
    refuse=_refuse,
    takes_view=_takes_view,
    epilogue_channels=epilogue_channels,
    takes_wide_input=lambda call: has_few_channels(call.weights.shape[1]),
)
def lower(call: Call, g: Lowering, fused: Fused) -> None:
    """Lower to one GEMM."""
    (rows, outputs), depth = call.output.shape, call.weights.shape[1]
    gemm = Gemm.of_rows(rows, depth, outputs)
    lower_gemm(g, Operands.of_call(call, weights_of(call.weights)).fused_with(fused), gemm)
