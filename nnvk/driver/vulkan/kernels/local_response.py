"""LOCAL_RESPONSE_NORMALIZATION along any axis."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.slices import Slices
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

LOCAL_RESPONSE = Shader("local_response", PASS=("sums", "apply"), DTYPE=("f32", "f16"))
LOCAL = 64
BLOCKS_FROM = 256
"""Radius from which windows are sums of blocks, which are summed up before."""


@kernel(OperationCode.LOCAL_RESPONSE_NORMALIZATION, shaders=(LOCAL_RESPONSE,))
def lower(call: Call, g: Lowering) -> None:
    """Four elements an invocation."""
    kind, slices = dtype(call.input), Slices.along(call.input.shape, call.axis)
    radius = min(call.radius, slices.length - 1)
    # The block at which the elements and blocks of a window are the fewest.
    block = max(1, math.isqrt(slices.length // 2))
    blocks = -(-slices.length // block)
    geometry = {**slices.push, "block": block, "blocks": blocks}
    source = g.tensor(call.input)
    sums = source
    if radius >= BLOCKS_FROM:
        sums = g.scratch(4 * slices.count * blocks)
        g.dispatch(
            LOCAL_RESPONSE.variant(PASS="sums", DTYPE=kind),
            groups=g.flat(slices.count * blocks, LOCAL),
            spec={"local_x": LOCAL},
            tensors={"src": source, "sums": sums},
            count=slices.count * blocks,
            **geometry,
        )
    count = -(-call.output.size // 4)
    g.dispatch(
        LOCAL_RESPONSE.variant(PASS="apply", DTYPE=kind),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "BLOCKS": radius >= BLOCKS_FROM, **slices.spec},
        tensors={"src": source, "sums": sums, "dst": g.tensor(call.output)},
        count=count,
        elements=call.output.size,
        radius=radius,
        bias=call.bias,
        alpha=call.alpha,
        beta=call.beta,
        **geometry,
    )
