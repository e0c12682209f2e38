"""SCATTER_ND: updates sorted by their places, and then each element of the output with its updates."""

from __future__ import annotations

import math

import numpy as np

from nnvk.driver.vulkan.lowering.divide import divisors
from nnvk.driver.vulkan.lowering.dtypes import BOOL, MOVED, dtype, moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.move import FILL, fill
from nnvk.driver.vulkan.lowering.places import FINDING, sorted_places
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.extension.scatter_nd import Reduction, reduction_of
from nnvk.ops.quant import is_quantised
from nnvk.types.extension import ExtendedOperationCode

_NUMBERS = ("f32", "f16", "i32")
_COMPUTED = {"none": MOVED, "add": (*_NUMBERS, BOOL.name, "b8", "b16")}
SCATTER_ND = Shader(
    "scatter_nd",
    where=lambda choice: choice["DTYPE"] in _COMPUTED.get(choice["KIND"], _NUMBERS),
    KIND=tuple(reduction.name.lower() for reduction in Reduction),
    ONTO=("zeros", "input"),
    DTYPE=(*_NUMBERS, BOOL.name, *MOVED),
)
LOCAL = 64
MOST = MOST_ROUNDS
"""Updates at most: all may be for one place."""


def refuse(call: Call) -> str:
    """More updates than an invocation may have to combine."""
    rows = call.indices.size // call.indices.shape[-1]
    return f"there are {rows} updates, the shader takes at most {MOST}" if rows > MOST else ""


@kernel(ExtendedOperationCode.SCATTER_ND, shaders=(SCATTER_ND, FILL, *FINDING), refuse=refuse, checks_data=True)
def lower(call: Call, g: Lowering) -> None:
    """Four elements of the output an invocation."""
    output, updates, depth = call.output, call.updates, call.indices.shape[-1]
    sizes, inner = output.shape[:depth], math.prod(output.shape[depth:])
    rows = call.indices.size // depth
    source = call.input if call.has("input") else None
    if not rows:
        if source is None:
            fill(g, g.tensor(output), np.zeros((), output.dtype))
        else:
            g.alias(source, output)
        return
    entries = sorted_places(g, call.indices, sizes)
    if not output.size:
        return  # nothing but the indices' check
    count = -(-output.size // 4)
    reduction = reduction_of(call)
    g.dispatch(
        SCATTER_ND.variant(
            KIND=reduction.name.lower(), ONTO="zeros" if source is None else "input", DTYPE=_dtype(reduction, updates)
        ),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "updates": g.tensor(updates),
            "entries": entries,
            "dst": g.tensor(output),
            **({} if source is None else {"src": g.tensor(source)}),
        },
        count=count,
        elements=output.size,
        rows=rows,
        inner=inner,
        **divisors(inner=inner),
    )


def _dtype(reduction: Reduction, updates: Tensor) -> str:
    """Steps are added as the whole numbers that they are, and wrap."""
    if reduction is Reduction.NONE or is_quantised(updates.code):
        return moved(updates)
    return dtype(updates)
