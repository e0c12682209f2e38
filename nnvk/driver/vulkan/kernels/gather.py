"""GATHER, EMBEDDING_LOOKUP and HASHTABLE_LOOKUP: rows of a tensor by their numbers, or by keys."""

from __future__ import annotations

import math

from nnvk.base.extents import computed
from nnvk.driver.vulkan.lowering.copies.arrange import ARRANGE, arrange
from nnvk.driver.vulkan.lowering.divide import divisors
from nnvk.driver.vulkan.lowering.dtypes import MOVED, moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.selection.coordinates import units_of
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.gather import evenly_spaced
from nnvk.ops.internal import InternalCode
from nnvk.types.codes import OperationCode

GATHER = Shader("gather", INDICES=("checked", "known"), DTYPE=MOVED)
GATHER_ROWS = Shader("gather_rows", INDICES=("checked", "known"))
GATHERING = (GATHER, GATHER_ROWS, ARRANGE)
"""All shaders that taking rows dispatches."""
HASHTABLE_LOOKUP = Shader("hashtable_lookup")
LOCAL = 64


@kernel(OperationCode.GATHER, shaders=GATHERING, checks_data=True)
def lower(call: Call, g: Lowering) -> None:
    """Lower GATHER."""
    _gather_checked(g, call.input, call.axis % call.input.rank, call.indices, call.output)


@kernel(InternalCode.GATHER_WRAPPED, shaders=GATHERING, checks_data=True)
def lower_wrapped(call: Call, g: Lowering) -> None:
    """GATHER whose indices may count from the end."""
    _gather_checked(g, call.input, call.axis % call.input.rank, call.indices, call.output, wraps=True)


@kernel(OperationCode.EMBEDDING_LOOKUP, shaders=GATHERING, checks_data=True)
def lower_embedding(call: Call, g: Lowering) -> None:
    """GATHER along the first axis."""
    _gather_checked(g, call.value, 0, call.lookup, call.output)


@kernel(OperationCode.HASHTABLE_LOOKUP, shaders=(HASHTABLE_LOOKUP, *GATHERING), checks_data=True)
def lower_hashtable(call: Call, g: Lowering) -> None:
    """Keys become rows, -1 for those that are not there, whose elements are zeros."""
    lookups, keys = call.lookup.size, call.key.size
    rows = g.scratch(4 * lookups)
    g.dispatch(
        HASHTABLE_LOOKUP.variant(),
        groups=g.flat(-(-max(lookups, keys) // 4), LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "lookup": g.tensor(call.lookup),
            "key": g.tensor(call.key),
            "rows": rows,
            "hits": g.tensor(call.hits),
            "flag": g.flag("key must ascend, got {} after a larger one"),
        },
        lookups=lookups,
        keys=keys,
    )
    gather_rows(g, call.value, keys, math.prod(call.value.shape[1:]), rows, lookups, call.output)


def _in_range(name: str, least: int, end: int) -> str:
    """The assertion of indices, into which the wrong one goes."""
    return f"{name} must be in [{least}, {end}), got {{}}"


def _gather_checked(
    g: Lowering, source: Tensor, axis: int, indices: Tensor, output: Tensor, *, wraps: bool = False
) -> None:
    """Indices that are constants were checked with the model."""
    size, inner = source.shape[axis], math.prod(source.shape[axis + 1 :])
    box = evenly_spaced(source, axis, indices) if output.size and not wraps else None
    if box is not None:
        arrange(g, moved(source), g.tensor(source), g.tensor(output), box)
        return
    flag = None
    if not indices.is_constant:
        flag = g.flag(computed(_in_range, indices.name, -size if wraps else 0, size))
    gather_rows(g, source, size, inner, g.tensor(indices), indices.size, output, flag, wraps=wraps)


def gather_rows(
    g: Lowering,
    source: Tensor,
    size: int,
    inner: int,
    rows: TensorRef,
    taken: int,
    output: Tensor,
    flag: TensorRef | None = None,
    *,
    wraps: bool = False,
) -> None:
    """Take rows of ``inner`` elements each out of every ``size`` of them, zeros for rows that there are not.

    With a flag, such rows are complained of. ``wraps``: numbers of rows that are below 0 count from the end.
    """
    units = units_of(output, inner)
    elements = output.size // max(inner, 1) * units.inner
    spec: dict[str, int | bool] = {"local_x": LOCAL, "OUTER": elements > taken * units.inner, "WRAPS": wraps}
    tensors = {"src": g.tensor(source), "indices": rows, "dst": g.tensor(output)}
    push, indices, unused = {"taken": taken, "size": size, **divisors(taken=taken)}, "known", 0
    if flag is not None:
        indices, tensors["flag"] = "checked", flag
    if units.are_quads and elements and not g.device.avoids(GATHER_ROWS.variant(INDICES=indices)):
        chunk = units.chunk(g.device)
        count, chunks = elements // (4 * chunk), units.inner // (4 * chunk)
        g.dispatch(
            GATHER_ROWS.variant(INDICES=indices),
            groups=g.flat(count, LOCAL),
            spec={**spec, "CHUNK": chunk},
            tensors=tensors,
            count=count,
            chunks=chunks,
            **push,
            **divisors(chunks=chunks),
        )
        return
    count = -(-elements // 4)
    if flag is not None:
        unused = 0 if elements else taken
        push["unused"] = unused
    g.dispatch(
        GATHER.variant(INDICES=indices, DTYPE=units.dtype),
        groups=g.flat(max(count, unused), LOCAL),
        spec={**spec, "SINGLE": units.inner == 1, "LONG": units.inner >= 4},
        tensors=tensors,
        count=count,
        elements=elements,
        inner=units.inner,
        **push,
        **divisors(inner=units.inner),
    )
