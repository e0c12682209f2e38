"""ARGMAX and ARGMIN along any axis."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import LEAST_INVOCATIONS, MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_push
from nnvk.driver.vulkan.lowering.reductions.folds import SIDE_BY_SIDE, shared_out
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

ARGMAX = Shader("argmax", KIND=("max", "min"), DTYPE=("f32", "f16", "i32", "q8"))
LONGEST = LEAST_INVOCATIONS * MOST_ROUNDS
"""The most elements that a workgroup searches on every device."""
ALONE_ON_CPU = 512
"""The number of rows for each core of a CPU from which an invocation searches four rows at once."""

_KINDS = {OperationCode.ARGMAX: "max", OperationCode.ARGMIN: "min"}


def refuse(call: Call) -> str | None:
    """The reason why an axis is too long for one workgroup, or None."""
    size = call.input.shape[call.axis]
    return f"axis {call.axis} has {size} elements, the shader searches at most {LONGEST}" if size > LONGEST else None


@kernel(*_KINDS, shaders=(ARGMAX,), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower ARGMAX or ARGMIN: each element of the output is a row of the input, or four elements are neighbours."""
    source, output = call.input, call.output
    axis = call.axis % source.rank
    size, inner = source.shape[axis], math.prod(source.shape[axis + 1 :])
    along = inner == 1 and not (g.device.is_cpu and output.size >= ALONE_ON_CPU * g.device.units)
    count = output.size if along else -(-output.size // 4)
    steps = size // 4 + 1 if along else size
    groups, lanes = shared_out(g, count, steps, MOST_ROUNDS, 1 if along else SIDE_BY_SIDE)
    g.dispatch(
        ARGMAX.variant(KIND=_KINDS[call.code], DTYPE=dtype(source)),
        groups=groups,
        spec={**lanes, "ALONG": along, "ROWS": inner % 4 == 0},
        tensors={"src": g.tensor(source), "dst": g.tensor(output)},
        count=count,
        elements=output.size,
        size=size,
        inner=inner,
        **sign_push(source),
    )
