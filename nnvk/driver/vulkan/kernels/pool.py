"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from nnvk.driver.vulkan.kernel import kernel
from nnvk.driver.vulkan.lowering import Lowering
from nnvk.driver.vulkan.move import MOVE, from_nhwc, to_nhwc
from nnvk.driver.vulkan.quantised import clamp, dtype, sign_mask
from nnvk.driver.vulkan.shader import Shader
from nnvk.ops.call import Call
from nnvk.ops.pool import pool_axes
from nnvk.ops.quant import is_quantised
from nnvk.ops.window import nhwc_shape
from nnvk.types.codes import OperationCode

POOL = Shader("pool2d", KIND=("avg", "max"), DTYPE=("f32", "q8"))
LOCAL = 64

_KINDS = {OperationCode.AVERAGE_POOL_2D: "avg", OperationCode.MAX_POOL_2D: "max"}


@kernel(*_KINDS, shaders=(POOL, MOVE))
def lower(call: Call, g: Lowering) -> None:
    """Four output elements an invocation; NCHW goes through transposed copies."""
    kind = dtype(call.input)
    vertical, horizontal = pool_axes(call)
    batches, height, width, channels = nhwc_shape(call.input.shape, call.nchw)
    source = to_nhwc(g, kind, g.tensor(call.input), call.input.shape, call.nchw)
    result = g.tensor(call.output)
    target = g.scratch(result.nbytes) if call.nchw else result
    count = -(-call.output.size // 4)
    g.dispatch(
        POOL.variant(KIND=_KINDS[call.code], DTYPE=kind),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL, "VECTOR": channels % 4 == 0},
        tensors={"src": source, "dst": target},
        count=count,
        height=height,
        width=width,
        channels=channels,
        out_height=vertical.out,
        out_width=horizontal.out,
        filter_height=vertical.window,
        filter_width=horizontal.window,
        stride_y=vertical.stride,
        stride_x=horizontal.stride,
        pad_top=vertical.before,
        pad_left=horizontal.before,
        **clamp(call),
        **({"sign_mask": sign_mask(call.input)} if is_quantised(call.input.code) else {}),
    )
    if call.nchw:
        from_nhwc(g, kind, target, result, (batches, vertical.out, horizontal.out, channels))
