"""SOFTMAX_ROWS: SOFTMAX of rows in one pass, with the scale and the mask that attention has before it."""

from __future__ import annotations

from nnvk.driver.vulkan.graph.program import four_sizes
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, dtype
from nnvk.driver.vulkan.lowering.elementwise.broadcast import broadcast_strides
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.reductions.row_sharing import own_vec4s, shared_out
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.internal import InternalCode

SOFTMAX_ROWS = Shader("softmax_rows", DTYPE=(F32.name, F16.name))


@kernel(InternalCode.SOFTMAX_ROWS, shaders=(SOFTMAX_ROWS,))
def lower(call: Call, g: Lowering) -> None:
    """Lower SOFTMAX_ROWS to one dispatch."""
    source, length = g.tensor(call.input), call.length
    rows = call.input.size // length
    groups, shares = shared_out(g, rows, length)
    if call.mask is None:
        mask, sizes, strides = source, [1, 1, rows, length], [0, 0, 0, 0]
    else:
        mask, sizes, strides = (
            g.tensor(call.mask),
            four_sizes(call.input.shape),
            broadcast_strides(call.mask.shape),
        )
    *outer, inner = strides
    vec4s = length % 4 == 0 and (inner == 0 or all(stride % 4 == 0 for stride in outer))
    g.dispatch(
        SOFTMAX_ROWS.variant(DTYPE=dtype(call.input)),
        groups=groups,
        spec={
            **shares,
            "SCALED": call.scale is not None,
            "MASKED": call.mask is not None,
            "SPREAD": inner == 0,
            "VEC4S": vec4s,
            "ZEROS": call.zeros,
            "OWN_VEC4S": own_vec4s(shares, length, in_vec4s=vec4s),
        },
        tensors={"src": source, "mask": mask, "dst": g.tensor(call.output)},
        rows=rows,
        length=length,
        size_1=sizes[1],
        size_2=sizes[2],
        **{f"mask_stride_{axis}": stride for axis, stride in enumerate(strides)},
        scale=1.0 if call.scale is None else call.scale,
        factor=call.beta,
    )
