"""ATTENTION: products of queries and keys, their softmax, and the sums of values, in one dispatch.

A workgroup computes one row of queries (`shaders/attention.comp`), or a tile of many (`lowering/attention/tiled.py`).
"""

from __future__ import annotations

import math

from nnvk.driver.vulkan.lowering.attention import tiled
from nnvk.driver.vulkan.lowering.attention.layout import (
    MOST_MATRICES,
    has_masks_of_vec4s,
    layout_of,
    masked_keys,
    strides,
)
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode

ATTENTION = Shader(
    "attention",
    where=lambda choice: choice["CACHE"] in (choice["DTYPE"], F32.name),
    DTYPE=(F32.name, F16.name),
    CACHE=(F32.name, F16.name),
)
_BLOCKS = {
    "query": "query",
    "key": "keys",
    "value": "values",
    "own_key": "ownkeys",
    "own_value": "ownvalues",
    "output": "dst",
}
"""The blocks of the shader, by the operands that they are."""
_OPERANDS = tuple(name for name in _BLOCKS if name != "output")
MOST_ROWS = 4
"""The most rows of queries that are computed one by one: each row reads all keys and values."""
_MOST_VEC4S = 4
"""Vec4s of columns of values that an invocation adds up (``shaders/attention.comp``)."""
_LARGE_FROM = 1 << 12
"""Elements of keys and values of a matrix from which on more invocations hide how long a GPU's loads take.

GPUs with small subgroups have few units, which are busy all the same: more invocations would wait for each other.
"""
_MOST_OWN = 64
"""Keys that follow the others."""
_LEAST_TEAM = 8
"""The invocations of a workgroup on any device, or more."""


def _takes_view(call: Call, tensor: Tensor, view: Tensor, alone: bool) -> bool:
    if tensor is call.mask:
        return False
    return layout_of(call.with_tensors(lambda each: view if each is tensor else each)) is not None


def refuse(call: Call) -> str | None:
    """The reason why the shader can't compute a call, or None."""
    if not (call.output.size and call.query.size):
        return "there are no elements"
    matrices = math.prod(call.output.shape[:-2])
    if matrices > MOST_MATRICES:
        return f"there are {matrices} matrices, the shader takes {MOST_MATRICES}"
    if layout_of(call) is None:
        return "the matrices have more than two strides between them"
    columns, keys = call.output.shape[-1], call.key.shape[-2]
    if columns > 4 * _LEAST_TEAM * _MOST_VEC4S:
        return f"values have {columns} columns, the shader has sums for {4 * _LEAST_TEAM * _MOST_VEC4S}"
    if call.own_key is not None and call.own_key.shape[-2] > _MOST_OWN:
        return f"{call.own_key.shape[-2]} keys follow the others, the shader takes {_MOST_OWN}"
    if call.output.shape[-2] > MOST_ROWS:
        return tiled.refuse(call)
    rounds = -(-keys // (4 * _LEAST_TEAM)) * (call.key.shape[-1] + 2) + keys
    return None if rounds <= MOST_ROUNDS else f"there are {keys} keys, which take too many rounds"


@kernel(InternalCode.ATTENTION, shaders=(ATTENTION, tiled.TILE), refuse=refuse, takes_view=_takes_view)
def lower(call: Call, g: Lowering) -> None:
    """Lower ATTENTION to one dispatch."""
    layout = layout_of(call)
    assert layout is not None
    rows, columns = call.output.shape[-2:]
    depth, keys = call.query.shape[-1], call.key.shape[-2]
    if rows > MOST_ROWS:
        tiled.dispatch(g, call, layout)
        return
    is_large = keys * (depth + columns) >= _LARGE_FROM and not g.device.has_small_subgroups
    local = g.device.large_team if is_large else g.device.team
    across = min(-(-columns // 4), local)
    has_own, mask = call.own_key is not None, call.mask
    places = layout.places
    operands = {name: getattr(call, name) for name in _OPERANDS if name in places}
    tensors = {name: g.tensor((operands.get(name) or operands[name.removeprefix("own_")]).whole) for name in _OPERANDS}

    def in_vec4s(name: str, width: int) -> bool:
        return all(places[each].in_vec4s(width) for each in (name, f"own_{name}") if each in places)

    g.dispatch(
        ATTENTION.variant(DTYPE=dtype(call.output), CACHE=dtype(call.key)),
        groups=(rows, *layout.batches),
        spec={
            "local_x": local,
            "LOCAL": local,
            "ACROSS": across,
            "OWN_VEC4S": -(-columns // (4 * across)),
            "OWN": has_own,
            "MASKED": mask is not None,
            "QUERY_VEC4S": in_vec4s("query", depth),
            "KEYS_VEC4S": in_vec4s("key", depth),
            "VALUES_VEC4S": in_vec4s("value", columns),
            "DST_VEC4S": in_vec4s("output", columns),
            "ZEROS": call.zeros,
            "MASK_VEC4S": has_masks_of_vec4s(call, places["mask"]),
        },
        tensors={
            **{_BLOCKS[name]: tensor for name, tensor in tensors.items()},
            "mask": tensors["query"] if mask is None else g.tensor(mask),
            "dst": g.tensor(call.output.whole),
            "strides": strides(g, layout, (*_OPERANDS, "mask", "output")),
        },
        **{f"{_BLOCKS[name]}_first": places[name].first if name in places else 0 for name in _OPERANDS},
        depth=depth,
        columns=columns,
        count=keys,
        own_count=call.own_key.shape[-2] if has_own else 0,
        masked=masked_keys(call),
        scale=1.0 if call.scale is None else call.scale,
        factor=call.beta,
    )
