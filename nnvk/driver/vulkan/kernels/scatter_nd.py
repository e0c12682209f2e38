"""SCATTER_ND: copy the base, and combine the updates with it at their places, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.driver.vulkan.lowering.copies.move import FILL, fill
from nnvk.driver.vulkan.lowering.divide import divisors
from nnvk.driver.vulkan.lowering.dtypes import BOOL, MOVED, dtype, moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.selection.coordinates import (
    FINDING,
    Units,
    last_coordinates,
    sizes_of_axes,
    sorted_coordinates,
    units_of,
)
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.extension.coordinates import assertion
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
SCATTER_ROWS = Shader("scatter_rows", DTYPE=MOVED)
LOCAL = 64
FEW = 32
"""The most updates that one dispatch finds the places of: each of them looks at all later ones."""
MOST = MOST_ROUNDS
"""The most updates, because all of them may be for one place."""


def refuse(call: Call) -> str | None:
    """The reason why there are too many updates for an invocation, or None."""
    rows = call.indices.size // call.indices.shape[-1]
    if reduction_of(call) is Reduction.NONE or rows <= MOST:
        return None
    return f"there are {rows} updates, the shader combines at most {MOST}"


@kernel(
    ExtendedOperationCode.SCATTER_ND,
    shaders=(SCATTER_ND, SCATTER_ROWS, FILL, *FINDING),
    refuse=refuse,
    checks_data=True,
)
def lower(call: Call, g: Lowering) -> None:
    """Lower to a copy of the base, and dispatches that find the places of updates and combine them with it."""
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
    if reduction is Reduction.NONE and output.size and rows <= FEW and not call.indices.is_constant:
        _scatter_few(call, g, sizes, inner)
        return
    found = (last_coordinates if reduction is Reduction.NONE else sorted_coordinates)(g, call.indices, sizes)
    if not output.size:
        return  # nothing but the indices' check
    units, chunk = Units(_dtype(updates), inner), 1
    if reduction is Reduction.NONE:
        units = units_of(updates, inner)
        chunk = units.chunk(g.device)
    chunks = _chunks(units, chunk)
    g.dispatch(
        SCATTER_ND.variant(KIND=reduction.name.lower(), DTYPE=units.dtype),
        groups=g.flat(rows * chunks, LOCAL),
        spec={"local_x": LOCAL, "VEC4S": units.are_vec4s, "CHUNK": chunk},
        tensors={
            "updates": g.tensor(updates),
            "coordinates" if reduction is Reduction.NONE else "entries": found,
            "dst": g.tensor(output),
        },
        count=rows * chunks,
        rows=rows,
        chunks=chunks,
        **divisors(chunks=chunks),
    )


def _scatter_few(call: Call, g: Lowering, sizes: Sequence[int], inner: int) -> None:
    """Find the places of few updates and write them by one dispatch."""
    units, rows = units_of(call.updates, inner), call.indices.size // len(sizes)
    chunk = units.chunk(g.device)
    chunks = _chunks(units, chunk)
    g.dispatch(
        SCATTER_ROWS.variant(DTYPE=units.dtype),
        groups=g.flat(rows * chunks, LOCAL),
        spec={"local_x": LOCAL, "VEC4S": units.are_vec4s, "CHUNK": chunk},
        tensors={
            "updates": g.tensor(call.updates),
            "indices": g.tensor(call.indices),
            "sizes": sizes_of_axes(g, sizes),
            "dst": g.tensor(call.output),
            "flag": g.flag(assertion(sizes, 0)),
        },
        count=rows * chunks,
        rows=rows,
        depth=len(sizes),
        first=0,
        chunks=chunks,
        **divisors(chunks=chunks),
    )


def _chunks(units: Units, chunk: int) -> int:
    """The chunks of an update, of so many units or vec4s of them."""
    return units.inner // ((4 if units.are_vec4s else 1) * chunk)


def _dtype(updates: Tensor) -> str:
    """Quantised values are added as the whole numbers that they are, and wrap."""
    return moved(updates) if is_quantised(updates.code) else dtype(updates)
