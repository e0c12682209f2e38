"""MEAN and ROUNDED_MEAN over any axes."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.copies.arrange import folded_dimensions
from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import offset, sign_push, zero_point
from nnvk.driver.vulkan.lowering.reductions.folds import shared_out
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.extension.rounded_mean import mean_factors
from nnvk.ops.quant import is_quantised
from nnvk.ops.reduce import reduced_axes
from nnvk.ops.strided import Box, Dimension, dense_dimensions, fold
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

MEAN = Shader("mean", PASS=("sum", "combine"), DTYPE=("f32", "f16", "q8", "q16"))
_RANK = 4
"""Dimensions that stay or are reduced, of mean.comp."""
PART = 1 << 14
"""Elements that are summed in one go; more that go into one are summed in parts, which then are summed."""
MOST_VALUES = {1: 2**23 - 1, 2: 2**15 - 1}
"""Quantised values whose sum surely fits in 31 bits, by the bytes of a quantised value."""


def refuse(call: Call) -> str | None:
    """Sums that could leave 32 bits."""
    reduced = call.input.size // max(call.output.size, 1)
    if not is_quantised(call.input.code):
        return None
    most = MOST_VALUES[call.input.dtype.itemsize]
    return f"{reduced} quantised elements go into one, the shader sums at most {most}" if reduced > most else None


def _quantisation(call: Call) -> dict[str, int]:
    """Constants of quantised means: the quantised value that sums count from, the output's, and the rescaling.

    NNAPI's MEAN truncates and has none.
    """
    if not is_quantised(call.input.code):
        return {}
    if call.code is OperationCode.MEAN:
        zero = offset(call.input)
        return {**sign_push(call.input), "zero": zero, "dst_zero": zero, "mantissa": 0, "shift": 0}
    mantissa, shift = mean_factors(call)
    zeros = {"zero": zero_point(call.input), "dst_zero": zero_point(call.output)}
    return {**sign_push(call.input), **zeros, "mantissa": mantissa, "shift": shift}


def _dimensions(call: Call, tensor: Tensor) -> tuple[list[Dimension], list[Dimension]] | None:
    """The dimensions of the input that stay and those that are reduced; None if they are no box of a view's source."""
    reduced = set(reduced_axes(call))
    axes: list[list[Dimension]] = [[each] for each in dense_dimensions(tensor.shape)]
    if tensor.view is not None:
        within = Box(tuple(dense_dimensions(tensor.shape))).within(tensor.view.box)
        if within is None or tensor.view.box.first:
            return None
        axes = within
    keep, reduce = (
        fold([each for axis, some in enumerate(axes) if (axis in reduced) is wanted for each in some])
        for wanted in (False, True)
    )
    return keep, reduce


def _takes_view(call: Call, tensor: Tensor, view: Tensor, alone: bool) -> bool:
    if tensor is not call.input:
        return False
    dimensions = _dimensions(call, view)
    if dimensions is None or tensor.size // call.output.size > PART:
        return False
    return all(len(some) <= _RANK and all(stride >= 0 for _, stride in some) for some in dimensions)


@kernel(
    OperationCode.MEAN,
    ExtendedOperationCode.ROUNDED_MEAN,
    shaders=(MEAN,),
    refuse=refuse,
    takes_view=_takes_view,
)
def lower(call: Call, g: Lowering) -> None:
    """Four results an invocation, or several invocations where much goes into few."""
    kind, dimensions = dtype(call.input), _dimensions(call, call.input)
    assert dimensions is not None
    keep, reduce = dimensions
    rows = keep[-1][1] == 1 and keep[-1][0] % 4 == 0 and all(stride % 4 == 0 for _, stride in (*keep[:-1], *reduce))
    reduced = call.input.size // call.output.size
    count, parts = -(-call.output.size // 4), -(-reduced // PART)
    source, target = g.tensor(call.input.whole), g.tensor(call.output)
    sums = g.scratch(16 * count * parts) if parts > 1 else target
    quantisation, rounded = _quantisation(call), call.code is not OperationCode.MEAN
    groups, lanes = shared_out(g, count * parts, min(reduced, PART), PART)
    g.dispatch(
        MEAN.variant(PASS="sum", DTYPE=kind),
        groups=groups,
        spec={**lanes, "PARTIAL": parts > 1, "FOLD_RANK": len(reduce), "ROWS": rows, "ROUNDED": rounded},
        tensors={"src": source, "dst": sums},
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
            spec={**lanes, "ROUNDED": rounded},
            tensors={"src": sums, "dst": target},
            count=count,
            reduced=reduced,
            parts=parts,
            **quantisation,
        )
