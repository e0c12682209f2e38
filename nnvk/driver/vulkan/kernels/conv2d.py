"""CONV_2D and GROUPED_CONV_2D, as GEMMs, by Winograd's algorithm, or channel by channel."""

from __future__ import annotations

from nnvk.driver.vulkan.kernels.depthwise_conv2d import CHANNEL_SHADERS, lower_depthwise
from nnvk.driver.vulkan.lowering.gemm import separable, winograd
from nnvk.driver.vulkan.lowering.gemm.gemm import (
    GEMM_SHADERS,
    best_strategy,
    epilogue_channels,
    has_few_channels,
    lower_gemm,
    lower_gemm_by,
    refuse_long_sums,
    work_of,
)
from nnvk.driver.vulkan.lowering.gemm.problem import Fused, Gemm, GemmProblem, Operands, Split
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.lowering.gemm.weights import weights_of
from nnvk.driver.vulkan.lowering.gemm.winograd import WINOGRAD_SHADERS, Winograd
from nnvk.driver.vulkan.lowering.kernel import gemm_kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call
from nnvk.ops.conv2d import conv_axes, group_count
from nnvk.types.codes import OperationCode


def refuse(call: Call) -> str | None:
    """The reason why a filter is too large, or None."""
    _, height, width, depth = call.filter.shape
    return refuse_long_sums((height, width), depth)


def _takes_wide_input(call: Call) -> bool:
    depth = call.filter.shape[-1]
    return has_few_channels(depth) and (call.code is OperationCode.CONV_2D or depth > 1)


@gemm_kernel(
    OperationCode.CONV_2D,
    shaders=(*GEMM_SHADERS, *WINOGRAD_SHADERS),
    refuse=refuse,
    channels_last=True,
    epilogue_channels=epilogue_channels,
    takes_wide_input=_takes_wide_input,
)
def lower(call: Call, g: Lowering, fused: Fused) -> None:
    """Lower CONV_2D: by Winograd's tiles where these are possible and the fastest, else as one GEMM."""
    operands = Operands.of_call(call, weights_of(call.filter)).fused_with(fused)
    if operands.depthwise is not None:
        lower_gemm(g, operands, separable.gemm_of(operands.depthwise, call))
        return
    gemm = Gemm.of_convolution(call, conv_axes(call))
    problem = GemmProblem(operands, gemm, work_of(g, operands, gemm))
    downs = () if g.adds_in_order else winograd.sizes(g, problem)
    candidate: Strategy | Winograd = winograd.best(g, problem, downs) if downs else best_strategy(g, problem)
    if isinstance(candidate, Winograd):
        winograd.convolve(g, problem, candidate)
    else:
        lower_gemm_by(g, problem, candidate)


def _epilogue_channels(call: Call, device: DeviceProfile) -> int | None:
    depth = call.filter.shape[-1]
    return epilogue_channels(call, device, 1 if depth == 1 else group_count(call))


@gemm_kernel(
    OperationCode.GROUPED_CONV_2D,
    shaders=(*GEMM_SHADERS, *WINOGRAD_SHADERS, *CHANNEL_SHADERS),
    refuse=refuse,
    channels_last=True,
    epilogue_channels=_epilogue_channels,
    takes_wide_input=_takes_wide_input,
)
def lower_grouped(call: Call, g: Lowering, fused: Fused) -> None:
    """Lower GROUPED_CONV_2D: as CONV_2D if there is one group, as DEPTHWISE_CONV_2D if each channel is a group.

    Otherwise each group is a GEMM.
    """
    groups, axes = group_count(call), conv_axes(call)
    _, _, _, depth = call.filter.shape
    if groups == 1:
        lower(call, g, fused)
    elif depth == 1:
        operands = Operands.of_call(call, weights_of(call.filter)).fused_with(fused)
        lower_depthwise(g, operands, Gemm.of_convolution(call, axes))
    else:
        operands = Operands.of_call(call, weights_of(call.filter, groups)).fused_with(fused)
        lower_gemm(g, operands, Gemm.of_convolution(call, axes, Split.CHANNELS, groups))
