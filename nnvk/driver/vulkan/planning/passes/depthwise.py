"""A depthwise convolution is computed in the dispatch of the 1 x 1 convolution that alone reads its result.

The cost model decides. A GPU spares a launch, and the tensor between both, but computes depthwise results once for each
block of output channels. Floats are added up in the order of a GEMM in shared memory, and bytes are rounded by the same
steps. Plans that verify results do so for bytes whose checksums are known.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from nnvk.base.extents import hint
from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.kernels import depthwise_conv2d
from nnvk.driver.vulkan.lowering.costs import costs_of
from nnvk.driver.vulkan.lowering.gemm import separable
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm, Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates, cost
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call
from nnvk.ops.depthwise_conv2d import depthwise_axes
from nnvk.types.codes import OperandCode, OperationCode


def fuse_depthwise(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let 1 x 1 convolutions compute the depthwise convolutions before them."""
    instead: dict[Node, Node | None] = {}
    for node in graph.nodes:
        if node.code is not OperationCode.CONV_2D or node.prologue:
            continue
        before = graph.producer(node.call.input)
        if before is None or before.code is not OperationCode.DEPTHWISE_CONV_2D or before.prologue or before.epilogue:
            continue
        if graph.only_user(node.call.input) is not node or node.inputs.count(node.call.input) != 1:
            continue
        if _is_possible(before.call, node.call, context) and pays(before.call, node.call, context.profile):
            instead |= {before: None, node: replace(node.with_call(node.call, [before]), prologue=(before.call,))}
    if not instead:
        return graph, 0
    nodes = (instead.get(node, node) for node in graph.nodes)
    return graph.with_nodes(node for node in nodes if node is not None), len(instead) // 2


def _is_possible(depthwise: Call, pointwise: Call, context: Context) -> bool:
    """Whether both can be one dispatch, and be verified if that is wanted."""
    if not separable.is_possible(depthwise, pointwise):
        return False
    gemm = separable.gemm_of(depthwise, pointwise)
    return not context.verifies or separable.has_checksums(depthwise, gemm, context.profile)


def pays(depthwise: Call, pointwise: Call, device: DeviceProfile) -> bool:
    """Whether a device takes less time for both in one dispatch, by the cost model. A CPU never does."""
    if device.is_cpu or device.prefers_matrices:
        return False
    gemm = separable.gemm_of(depthwise, pointwise)
    native = device.has_native_16 and depthwise.input.code is OperandCode.TENSOR_FLOAT16
    together = hint(separable.work_of(depthwise, gemm, float16=native, float16_split_k=native))
    by_channel = hint(Gemm.of_convolution(depthwise, depthwise_axes(depthwise)))
    tiles = depthwise_conv2d.tiles(by_channel, together.kind, device, native)
    spared = depthwise_conv2d.cost(tiles[0], by_channel, together.kind, device) + costs_of(device).launch
    least = _least(together, device)
    if least <= spared:
        return True  # whatever the 1 x 1 convolution takes by itself
    alone = replace(together, matrix=True, depthwise=0, can_fold=together.kind == "q8")
    return least < spared + _least(alone, device)


@lru_cache(maxsize=64)
def _least(work: Work, device: DeviceProfile) -> float:
    """The cycles of the best strategy; infinite if there is none."""
    return min((cost(strategy, work, device) for strategy in candidates(work, device)), default=math.inf)
