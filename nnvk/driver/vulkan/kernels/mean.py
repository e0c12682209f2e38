"""MEAN over any axes."""

from __future__ import annotations

from collections.abc import Sequence

from nnvk.driver.vulkan.kernel import kernel
from nnvk.driver.vulkan.lowering import Lowering
from nnvk.driver.vulkan.move import dense_strides
from nnvk.driver.vulkan.quantised import dtype, sign_mask, zero_point
from nnvk.driver.vulkan.shader import Shader
from nnvk.ops.call import Call
from nnvk.ops.quant import is_quantised
from nnvk.ops.reduce import reduced_axes
from nnvk.types.codes import OperationCode

MEAN = Shader("mean", DTYPE=("f32", "q8"))
LOCAL = 64
WIDE_FROM = 256
"""Elements that go into one from which a workgroup sums them together, where there are few results."""


@kernel(OperationCode.MEAN, shaders=(MEAN,))
def lower(call: Call, g: Lowering) -> None:
    """Four results an invocation, or four a workgroup where much goes into few."""
    shape, axes = call.input.shape, reduced_axes(call)
    strides = dense_strides(shape)
    keep = [(shape[axis], strides[axis]) for axis in range(len(shape)) if axis not in axes]
    fold = [(shape[axis], strides[axis]) for axis in axes]
    reduced = call.input.size // call.output.size
    count = -(-call.output.size // 4)
    wide = reduced >= WIDE_FROM and count < LOCAL
    g.dispatch(
        MEAN.variant(DTYPE=dtype(call.input)),
        groups=g.flat(count, 1 if wide else LOCAL),
        spec={"local_x": LOCAL, "LOCAL": LOCAL, "WIDE": wide},
        tensors={"src": g.tensor(call.input), "dst": g.tensor(call.output)},
        count=count,
        elements=call.output.size,
        reduced=reduced,
        **_dimensions("keep", keep),
        **_dimensions("fold", fold),
        **(
            {"sign_mask": sign_mask(call.input), "zero": zero_point(call.input)}
            if is_quantised(call.input.code)
            else {}
        ),
    )


def _dimensions(name: str, rows: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Sizes and strides of up to four dimensions as push constants; the outermost size is not needed."""
    full = [(1, 0)] * (4 - len(rows)) + list(rows)
    sizes = {f"{name}_size_{axis}": size for axis, (size, _) in enumerate(full) if axis}
    return sizes | {f"{name}_stride_{axis}": stride for axis, (_, stride) in enumerate(full)}
