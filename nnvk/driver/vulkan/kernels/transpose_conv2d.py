"""TRANSPOSE_CONV_2D: a GEMM for each phase, the output pixels that the same taps of the filter reach."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.gemm.gemm import (
    GEMM_SHADERS,
    epilogue_channels,
    has_few_channels,
    lower_gemm,
    refuse_long_sums,
)
from nnvk.driver.vulkan.lowering.gemm.problem import Fused, Gemm, Operands, Split
from nnvk.driver.vulkan.lowering.gemm.weights import weights_of
from nnvk.driver.vulkan.lowering.kernel import gemm_kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Call
from nnvk.ops.transpose_conv2d import transpose_conv_axes
from nnvk.types.codes import OperationCode


def refuse(call: Call) -> str | None:
    """The reason why too many taps reach a pixel, or None."""
    _, height, width, depth = call.filter.shape
    return refuse_long_sums((-(-height // call.stride_height), -(-width // call.stride_width)), depth)


@gemm_kernel(
    OperationCode.TRANSPOSE_CONV_2D,
    shaders=GEMM_SHADERS,
    refuse=refuse,
    channels_last=True,
    epilogue_channels=epilogue_channels,
    takes_wide_input=lambda call: has_few_channels(call.filter.shape[-1]),
)
def lower(call: Call, g: Lowering, fused: Fused) -> None:
    """As many phases as strides have pixels."""
    vertical, horizontal = axes = transpose_conv_axes(call)
    phases = min(vertical.stride, vertical.out) * min(horizontal.stride, horizontal.out)
    operands = Operands.of_call(call, weights_of(call.filter)).fused_with(fused)
    lower_gemm(g, operands, Gemm.of_convolution(call, axes, Split.PHASES, phases))
