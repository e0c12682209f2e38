"""LSH_PROJECTION: fingerprints of all items under all seeds, and the signs of their weighted sums."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, as_float32
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.lsh_projection import DENSE, SPARSE
from nnvk.types.codes import OperationCode

LSH_PROJECTION = Shader(
    "lsh_projection",
    where=lambda choice: choice["PASS"] == "hash" or choice["WEIGHTS"] == "one",
    PASS=("hash", "estimate", "sum", "signature"),
    WEIGHTS=("one", "given"),
)
LOCAL = 64
SEED = 4
"""The bytes of a seed, with which each key begins."""
MOST_TERMS = 4 << 20
"""The most terms in memory at once. A loop of dispatches handles more items."""
ESTIMATED_FROM = 256
"""The number of items from which a workgroup of a GPU estimates each sum first."""


def refuse(call: Call) -> str | None:
    """The reason why items are too long for an invocation, or None."""
    length, most = _length(call), 64 * MOST_ROUNDS
    return f"input has items of {length} bytes, the shader takes at most {most}" if length > most else None


def _length(call: Call) -> int:
    """The bytes of an item."""
    return call.input.size // call.input.shape[0] * call.input.dtype.itemsize


@kernel(OperationCode.LSH_PROJECTION, shaders=(LSH_PROJECTION, CONVERT), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower LSH_PROJECTION. Each bit of a signature is the sign of a sum."""
    functions, bits = call.hash.shape
    sums = g.scratch(8 * call.hash.size)
    if call.hash.size:
        _add_up(call, g, sums)
    if call.type == DENSE:
        functions, bits = functions * bits, 1
    g.dispatch(
        LSH_PROJECTION.variant(PASS="signature", WEIGHTS="one"),
        groups=g.flat(functions, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"sums": sums, "dst": g.tensor(call.output)},
        count=functions,
        bits=bits,
        numbered=call.type == SPARSE,
    )


def _add_up(call: Call, g: Lowering, sums: TensorRef) -> None:
    """Dispatch the sums of the items' fingerprints under each seed."""
    count, items = call.hash.size, call.input.shape[0]
    weights = {} if call.weight is None else {"weights": as_float32(g, call.weight)}
    seeds = as_float32(g, call.hash)
    each = min(items, max(1, MOST_TERMS // count))
    for first in range(0, items, each):
        number = min(each, items - first)
        terms = g.scratch(8 * count * number)
        g.dispatch(
            LSH_PROJECTION.variant(PASS="hash", WEIGHTS="given" if weights else "one"),
            groups=g.flat(count * number, LOCAL),
            spec={"local_x": LOCAL, "LENGTH": SEED + _length(call)},
            tensors={"src": g.tensor(call.input), "seeds": seeds, "terms": terms, **weights},
            count=count * number,
            first=first,
            in_row=count,
        )
        is_estimated = number == items >= ESTIMATED_FROM and not g.device.is_cpu
        still_open = _estimate(g, terms, sums, items, count) if is_estimated else sums
        for skipped in range(0, number, MOST_ROUNDS):
            g.dispatch(
                LSH_PROJECTION.variant(PASS="sum", WEIGHTS="one"),
                groups=g.flat(count, LOCAL),
                spec={"local_x": LOCAL, "ESTIMATED": is_estimated},
                tensors={"terms": terms, "sums": sums, "open": still_open},
                count=count,
                items=min(MOST_ROUNDS, number - skipped),
                skipped=skipped,
                has_begun=first + skipped > 0,
            )


def _estimate(g: Lowering, terms: TensorRef, sums: TensorRef, items: int, count: int) -> TensorRef:
    """Dispatch estimates of the sums. The result says for each sum whether it has to be computed in order."""
    still_open = g.scratch(4 * count)
    local = g.device.large_team
    g.dispatch(
        LSH_PROJECTION.variant(PASS="estimate", WEIGHTS="one"),
        groups=g.flat(count, 1),
        spec={"local_x": local, "LOCAL": local},
        tensors={"terms": terms, "sums": sums, "open": still_open},
        count=count,
        items=items,
        error_power=53 - 2 - (items - 1).bit_length(),
    )
    return still_open
