"""LSH_PROJECTION: fingerprints of all items under all seeds, and the signs of their weighted sums."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.convert import CONVERT, as_float32
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
    PASS=("hash", "sum", "signature"),
    WEIGHTS=("one", "given"),
)
LOCAL = 64
SEED = 4
"""The bytes of a seed, with which each key begins."""
MOST_TERMS = 4 << 20
"""The most terms in memory at once. A loop of dispatches handles more items."""


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
    each = min(items, MOST_ROUNDS, max(1, MOST_TERMS // count))
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
        g.dispatch(
            LSH_PROJECTION.variant(PASS="sum", WEIGHTS="one"),
            groups=g.flat(count, LOCAL),
            spec={"local_x": LOCAL},
            tensors={"terms": terms, "sums": sums},
            count=count,
            items=number,
            first=first,
        )
