"""GROUPED_CONV_2D: a GEMM for each group of channels. Groups of one channel are what DEPTHWISE_CONV_2D has."""

from __future__ import annotations

from nnvk.driver.vulkan.kernels.conv2d import refuse
from nnvk.driver.vulkan.kernels.depthwise_conv2d import CHANNEL_SHADERS, multiply_by_channel
from nnvk.driver.vulkan.lowering.filter_output import Operands
from nnvk.driver.vulkan.lowering.filters import filters_of
from nnvk.driver.vulkan.lowering.gemm import GEMM_SHADERS, Gemm, Split, multiply
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.ops.call import Call
from nnvk.ops.conv2d import conv_axes, group_count
from nnvk.types.codes import OperationCode


@kernel(OperationCode.GROUPED_CONV_2D, shaders=(*GEMM_SHADERS, *CHANNEL_SHADERS), refuse=refuse, channels_last=True)
def lower(call: Call, g: Lowering) -> None:
    """Lower GROUPED_CONV_2D."""
    groups = group_count(call)
    source, target = call.input.shape, call.output.shape
    if 1 < groups == source[3]:
        multiply_by_channel(g, call, filters_of(call.filter), Gemm(source, target, *conv_axes(call)))
    else:
        gemm = Gemm(source, target, *conv_axes(call), Split.CHANNELS if groups > 1 else Split.NOTHING, groups)
        multiply(g, Operands.of_convolution(call), filters_of(call.filter, groups), gemm)
