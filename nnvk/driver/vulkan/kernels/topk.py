"""TOPK_V2: the largest elements of each row, and their positions."""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.dtypes import dtype, moved
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_push
from nnvk.driver.vulkan.lowering.selection.sort import SORTING, sort_keys
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.types.codes import OperationCode

_COMPUTED = ("f32", "f16", "i32", "q8")
TOPK = Shader(
    "topk",
    where=lambda choice: (choice["PASS"] == "keys") == (choice["DTYPE"] in _COMPUTED),
    PASS=("keys", "take"),
    DTYPE=(*_COMPUTED, "b8", "b16", "b32"),
)
LOCAL = 64


@kernel(OperationCode.TOPK_V2, shaders=(TOPK, *SORTING))
def lower(call: Call, g: Lowering) -> None:
    """Lower TOPK_V2: make keys, sort their entries, and copy the elements of the first ones."""
    source, output = call.input, call.output
    length = source.shape[-1]
    rows = source.size // length
    keys = g.scratch(4 * source.size)
    g.dispatch(
        TOPK.variant(PASS="keys", DTYPE=dtype(source)),
        groups=g.flat(source.size, LOCAL),
        spec={"local_x": LOCAL},
        tensors={"src": g.tensor(source), "keys": keys},
        count=source.size,
        length=length,
        **sign_push(source),
    )
    count = -(-output.size // 4)
    g.dispatch(
        TOPK.variant(PASS="take", DTYPE=moved(source)),
        groups=g.flat(count, LOCAL),
        spec={"local_x": LOCAL},
        tensors={
            "src": g.tensor(source),
            "entries": sort_keys(g, keys, rows, length, call.k),
            "dst": g.tensor(output),
            "indices": g.tensor(call.indices),
        },
        count=count,
        length=length,
        elements=output.size,
        k=call.k,
    )
