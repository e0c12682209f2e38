"""ROW_NORM: rows of floats normalised by their mean and deviation."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.dtypes import F16, F32, dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.reductions.row_sharing import own_vec4s, shared_out
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.internal import InternalCode

NORMALIZE_ROWS = Shader("normalize_rows", SRC=(F32.name, F16.name), DST=(F32.name, F16.name))


@kernel(InternalCode.ROW_NORM, shaders=(NORMALIZE_ROWS,))
def lower(call: Call, g: Lowering) -> None:
    """Lower ROW_NORM to one dispatch. float16 needs rows of whole vec4s, and numbers out of range are clamped."""
    source, length = g.tensor(call.input), call.length
    rows = call.input.size // length
    groups, shares = shared_out(g, rows, length)
    vec4s = length % 4 == 0
    g.dispatch(
        NORMALIZE_ROWS.variant(SRC=dtype(call.input), DST=dtype(call.output)),
        groups=groups,
        spec={
            **shares,
            "CENTRED": call.is_centred,
            "WEIGHTED": call.weights is not None,
            "BIASED": call.bias is not None,
            "ROOT": call.is_divided,
            "VEC4S": vec4s,
            "OWN_VEC4S": own_vec4s(shares, length, in_vec4s=vec4s),
        },
        tensors={
            "src": source,
            "weights": source if call.weights is None else g.tensor(call.weights),
            "bias": source if call.bias is None else g.tensor(call.bias),
            "dst": g.tensor(call.output),
        },
        rows=rows,
        length=length,
        epsilon=call.epsilon,
    )
