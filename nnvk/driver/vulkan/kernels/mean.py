"""MEAN and ROUNDED_MEAN over any axes."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.arrange import fold, folded_dimensions
from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.folds import shared_out
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import dense_strides
from nnvk.driver.vulkan.lowering.quantised import offset, sign_push, zero_point
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.quant import is_quantised
from nnvk.ops.reduce import reduced_axes
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

MEAN = Shader("mean", PASS=("sum", "combine"), DTYPE=("f32", "f16", "q8"))
PART = 1 << 14
"""Elements that are summed in one go; more that go into one are summed in parts, which then are summed."""
MOST_BYTES = 2**23 - 1
"""Bytes whose sum, rounded up by half their number, surely fits in 31 bits."""


def refuse(call: Call) -> str | None:
    """Sums that could leave 32 bits."""
    reduced = call.input.size // max(call.output.size, 1)
    if is_quantised(call.input.code) and reduced > MOST_BYTES:
        return f"{reduced} quantised elements go into one, the shader sums at most {MOST_BYTES}"
    return None


def _quantisation(call: Call, reduced: int) -> dict[str, int]:
    """From which step sums count, and what rounds them: NNAPI's mean of steps drops the fraction."""
    if call.code is OperationCode.MEAN:
        return {**sign_push(call.input), "zero": offset(call.input), "nudge": 0}
    return {**sign_push(call.input), "zero": zero_point(call.input), "nudge": reduced // 2}


@kernel(OperationCode.MEAN, ExtendedOperationCode.ROUNDED_MEAN, shaders=(MEAN,), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Four results an invocation, or several invocations where much goes into few."""
    shape, axes, kind = call.input.shape, reduced_axes(call), dtype(call.input)
    strides = dense_strides(shape)
    keep = fold([(shape[axis], strides[axis]) for axis in range(len(shape)) if axis not in axes])
    reduce = fold([(shape[axis], strides[axis]) for axis in axes])
    rows = keep[-1][1] == 1 and keep[-1][0] % 4 == 0 and all(stride % 4 == 0 for _, stride in (*keep[:-1], *reduce))
    reduced = call.input.size // call.output.size
    count, parts = -(-call.output.size // 4), -(-reduced // PART)
    target = g.tensor(call.output)
    sums = g.scratch(16 * count * parts) if parts > 1 else target
    quantisation = _quantisation(call, reduced) if kind == "q8" else {}
    groups, lanes = shared_out(g, count * parts, min(reduced, PART), PART)
    g.dispatch(
        MEAN.variant(PASS="sum", DTYPE=kind),
        groups=groups,
        spec={**lanes, "PARTIAL": parts > 1, "FOLD_RANK": len(reduce), "ROWS": rows},
        tensors={"src": g.tensor(call.input), "dst": sums},
        count=count,
        elements=call.output.size,
        reduced=reduced,
        parts=parts,
        part=PART,
        **folded_dimensions("keep", keep),
        **folded_dimensions("fold", reduce),
        **quantisation,
    )
    if parts > 1:
        groups, lanes = shared_out(g, count, parts, PART)
        g.dispatch(
            MEAN.variant(PASS="combine", DTYPE=kind),
            groups=groups,
            spec=lanes,
            tensors={"src": sums, "dst": target},
            count=count,
            reduced=reduced,
            parts=parts,
            **quantisation,
        )
