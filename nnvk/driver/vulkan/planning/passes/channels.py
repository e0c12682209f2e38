"""Channels of a quantised convolution whose result is the same for all inputs get filters of zeros.

Networks for microcontrollers have many such channels. Training has made all of their weights tiny, so that the
converter gives them a tiny scale and a bias of up to 2^30. Their multipliers, and the sums, are beyond the range for
which shaders have short arithmetic, and all other channels of the convolution would be computed by the long one. With
filters of zeros, the bias and another scale give the same result.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.ops.call import Call
from nnvk.ops.fused import activation_range
from nnvk.ops.linear import output_multipliers
from nnvk.ops.quant import INT32_MAX, multiply_by_quantized_multiplier
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import ChannelQuant

_CONVOLUTIONS = frozenset({OperationCode.CONV_2D, OperationCode.DEPTHWISE_CONV_2D, OperationCode.GROUPED_CONV_2D})
_BYTES = frozenset({OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED})
_USUAL_SHIFTS = -10, 0
"""The shifts of multipliers of channels that are left alone: most of them, without a look at their weights."""
_LARGE_BIAS = 1 << 24
_STEPS = 64
"""The steps of a bias to a step of the result, where filters are zeros."""


def fold_constant_channels(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Give channels whose result is known filters of zeros."""
    nodes: list[Node] = []
    count = 0
    for node in graph.nodes:
        call = _with_constant_channels(node.call, context) if _may_have_such_channels(node) else None
        count += call is not None
        nodes.append(node if call is None else node.with_call(call))
    return (graph.with_nodes(nodes), count) if count else (graph, 0)


def _may_have_such_channels(node: Node) -> bool:
    """Whether a node is a convolution of 8 bits with a scale for each channel, and all but the input is known."""
    if node.code not in _CONVOLUTIONS:
        return False
    call = node.call
    return (
        call.input.code in _BYTES
        and call.filter.code is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
        and call.filter.is_constant
        and call.bias is not None
        and call.bias.is_constant
        and call.known("activation") is not None
    )


def _with_constant_channels(call: Call, context: Context) -> Call | None:
    """The call with filters of zeros where that gives the same results; None if there is no such channel."""
    channels = call.filter.type.channel_quant
    assert channels is not None
    mantissas, shifts = output_multipliers(call.code, call.input, call.filter, call.output)
    bias = call.bias.data.reshape(-1).astype(np.int64)
    unusual = (shifts < _USUAL_SHIFTS[0]) | (shifts > _USUAL_SHIFTS[1]) | (mantissas == 0)
    if not (unusual | (np.abs(bias) >= _LARGE_BIAS)).any():
        return None

    # The least and the largest sum.
    weights = call.filter.data.astype(np.int64)
    others = tuple(axis for axis in range(weights.ndim) if axis != channels.channel_dim)
    positive, negative = (np.maximum(each, 0).sum(others) for each in (weights, -weights))
    range_ = np.iinfo(call.input.dtype)
    below, above = int(range_.min) - call.input.zero_point, int(range_.max) - call.input.zero_point
    ends = bias + below * positive - above * negative, bias + above * positive - below * negative
    fit = (np.abs(ends) <= INT32_MAX).all(0)

    low, high = activation_range(call.activation, call.output)
    zero = call.output.zero_point
    least, most = (np.clip(multiply_by_quantized_multiplier(end, mantissas, shifts) + zero, low, high) for end in ends)
    constant = (unusual | (np.abs(bias) >= _LARGE_BIAS)) & fit & (least == most)
    if not constant.any():
        return None
    scale = float(np.float32(call.output.scale / call.input.scale / _STEPS))
    scales = np.where(constant, scale, channels.scales)
    shape = [-1 if axis == channels.channel_dim else 1 for axis in range(weights.ndim)]
    known = constant.reshape(shape)
    filters = context.tensor(
        call.filter.name,
        replace(call.filter.type, channel_quant=ChannelQuant(tuple(scales.tolist()), channels.channel_dim)),
        np.where(known, 0, weights).astype(call.filter.dtype),
    )
    biases = np.where(constant, (least - zero) * _STEPS, bias).astype(call.bias.dtype)
    return call.replaced(
        filter=filters, bias=context.tensor(call.bias.name, call.bias.type, biases.reshape(call.bias.shape))
    )
