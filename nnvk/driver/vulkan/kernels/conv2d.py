"""CONV_2D: an implicit matrix product."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.filter_output import Operands
from nnvk.driver.vulkan.lowering.filters import filters_of
from nnvk.driver.vulkan.lowering.gemm import GEMM_SHADERS, Gemm, refuse_long_sums
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.winograd import WINOGRAD_SHADERS, convolve
from nnvk.ops.call import Call
from nnvk.ops.conv2d import conv_axes
from nnvk.types.codes import OperationCode


def refuse(call: Call) -> str | None:
    """Filters that are too large."""
    _, height, width, depth = call.filter.shape
    return refuse_long_sums((height, width), depth)


@kernel(OperationCode.CONV_2D, shaders=(*GEMM_SHADERS, *WINOGRAD_SHADERS), refuse=refuse, channels_last=True)
def lower(call: Call, g: Lowering) -> None:
    """Lower CONV_2D."""
    source, target = call.input.shape, call.output.shape
    gemm = Gemm(source, target, *conv_axes(call))
    convolve(g, Operands.of_convolution(call), filters_of(call.filter), gemm)
