"""SCATTER_ND: copy the base, and combine the updates with it at their places, in order."""

from __future__ import annotations

import math

import numpy as np

from nnvk.driver.vulkan.lowering.divide import divisors
from nnvk.driver.vulkan.lowering.dtypes import BOOL, MOVED, dtype, moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.move import FILL, fill
from nnvk.driver.vulkan.lowering.places import FINDING, Units, last_places, sorted_places, units_of
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
    DTYPE=(*_NUMBERS, BOOL.name, *MOVED),
)
LOCAL = 64
MOST = MOST_ROUNDS
"""The most updates, because all of them may be for one place."""


def refuse(call: Call) -> str | None:
    """The reason why there are too many updates for an invocation, or None."""
    rows = call.indices.size // call.indices.shape[-1]
    if reduction_of(call) is Reduction.NONE or rows <= MOST:
        return None
    return f"there are {rows} updates, the shader combines at most {MOST}"


@kernel(ExtendedOperationCode.SCATTER_ND, shaders=(SCATTER_ND, FILL, *FINDING), refuse=refuse, checks_data=True)
def lower(call: Call, g: Lowering) -> None:
    """Lower to two dispatches: a copy of the base, then the slices of the updates."""
    output, updates, depth = call.output, call.updates, call.indices.shape[-1]
    sizes, inner = output.shape[:depth], math.prod(output.shape[depth:])
    rows = call.indices.size // depth
    reduction = reduction_of(call)
    if not rows and call.has("input"):
        g.alias(call.input, output)
        return
    if call.has("input"):
        g.copy(g.tensor(call.input), g.tensor(output), output.size * output.dtype.itemsize)
    else:
        fill(g, g.tensor(output), np.zeros((), output.dtype))
    if not rows:
        return
    found = (last_places if reduction is Reduction.NONE else sorted_places)(g, call.indices, sizes)
    if not output.size:
        return  # nothing but the indices' check
    units, chunk = Units(_dtype(updates), inner), 1
    if reduction is Reduction.NONE:
        units = units_of(updates, inner)
        chunk = units.chunk(g.device)
    chunks = units.inner // ((4 if units.are_vec4s else 1) * chunk)
    g.dispatch(
        SCATTER_ND.variant(KIND=reduction.name.lower(), DTYPE=units.dtype),
        groups=g.flat(rows * chunks, LOCAL),
        spec={"local_x": LOCAL, "VEC4S": units.are_vec4s, "CHUNK": chunk},
        tensors={
            "updates": g.tensor(updates),
            "places" if reduction is Reduction.NONE else "entries": found,
            "dst": g.tensor(output),
        },
        count=rows * chunks,
        rows=rows,
        chunks=chunks,
        **divisors(chunks=chunks),
    )


def _dtype(updates: Tensor) -> str:
    """Levels are added as the whole numbers that they are, and wrap."""
    return moved(updates) if is_quantised(updates.code) else dtype(updates)
