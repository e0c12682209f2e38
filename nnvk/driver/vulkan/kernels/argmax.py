"""ARGMAX and ARGMIN along any axis."""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.quantised import sign_push
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

ARGMAX = Shader("argmax", KIND=("max", "min"), DTYPE=("f32", "f16", "i32", "q8"))
LOCAL = 64
LONGEST = MOST_ROUNDS
"""The most elements that an invocation searches."""

_KINDS = {OperationCode.ARGMAX: "max", OperationCode.ARGMIN: "min"}


def refuse(call: Call) -> str | None:
    """The reason why an axis is too long for one invocation, or None."""
    size = call.input.shape[call.axis]
    return f"axis {call.axis} has {size} elements, the shader searches at most {LONGEST}" if size > LONGEST else None


@kernel(*_KINDS, shaders=(ARGMAX,), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower ARGMAX or ARGMIN: each invocation computes four elements of the output."""
    source, output = call.input, call.output
    axis = call.axis % source.rank
    count = -(-output.size // 4)
    g.dispatch(
        ARGMAX.variant(KIND=_KINDS[call.code], DTYPE=dtype(source)),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"src": g.tensor(source), "dst": g.tensor(output)},
        count=count,
        elements=output.size,
        size=source.shape[axis],
        inner=math.prod(source.shape[axis + 1 :]),
        **sign_push(source),
    )
