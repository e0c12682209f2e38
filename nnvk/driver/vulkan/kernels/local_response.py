"""LOCAL_RESPONSE_NORMALIZATION along any axis."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

LOCAL_RESPONSE = Shader("local_response", PASS=("sums", "apply"), DTYPE=("f32", "f16"))
LOCAL = 64
BLOCKS_FROM = 256
"""Radius from which windows are sums of blocks, which are summed up before."""

# What four NEIGHBOURS are to the shader.
_ANYWHERE, _IN_FOUR_SLICES, _IN_ONE_SLICE = 0, 1, 2


@kernel(OperationCode.LOCAL_RESPONSE_NORMALIZATION, shaders=(LOCAL_RESPONSE,))
def lower(call: Call, g: Lowering) -> None:
    """Four elements an invocation."""
    shape, kind = call.input.shape, dtype(call.input)
    axis = call.axis % len(shape)
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    radius = min(call.radius, length - 1)
    # The block at which the elements and blocks of a window are the fewest.
    block = max(1, math.isqrt(length // 2))
    blocks = -(-length // block)
    geometry = {"length": length, "inner": inner, "block": block, "blocks": blocks}
    source = g.tensor(call.input)
    sums = source
    if radius >= BLOCKS_FROM:
        slices = call.input.size // length
        sums = g.scratch(4 * slices * blocks)
        g.dispatch(
            LOCAL_RESPONSE.variant(PASS="sums", DTYPE=kind),
            groups=g.flat(slices * blocks, LOCAL),
            spec={"local_x": LOCAL},
            tensors={"src": source, "sums": sums},
            count=slices * blocks,
            **geometry,
        )
    in_one_slice = inner == 1 and length % 4 == 0
    count = -(-call.output.size // 4)
    g.dispatch(
        LOCAL_RESPONSE.variant(PASS="apply", DTYPE=kind),
        groups=g.flat(count, LOCAL),
        spec={
            "local_x": LOCAL,
            "BLOCKS": radius >= BLOCKS_FROM,
            "NEIGHBOURS": _IN_FOUR_SLICES if inner % 4 == 0 else _IN_ONE_SLICE if in_one_slice else _ANYWHERE,
        },
        tensors={"src": source, "sums": sums, "dst": g.tensor(call.output)},
        count=count,
        elements=call.output.size,
        radius=radius,
        bias=call.bias,
        alpha=call.alpha,
        beta=call.beta,
        **geometry,
    )
