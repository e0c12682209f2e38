"""ATTENTION: products of queries and keys, their softmax, and the sums of values, in one dispatch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.lowering.dtypes import F16, F32, dtype
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode
from nnvk.ops.strided import Box, dense_dimensions
from nnvk.types.operand import Shape

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
_MOST_VEC4S = 4
"""Vec4s of columns of values that an invocation adds up (``shaders/attention.comp``)."""
_LARGE_FROM = 1 << 12
"""Elements of keys and values of a matrix from which on more invocations hide how long a GPU's loads take.

GPUs with small subgroups have few units, which are busy all the same: more invocations would wait for each other.
"""
_MOST_MATRICES = 65_535
"""Matrices, which are workgroups of one dimension: every device has so many."""
_MOST_OWN = 64
"""Keys that follow the others."""
_LEAST_TEAM = 8
"""The invocations of a workgroup on any device, or more."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the matrices of an operand are in a tensor."""

    first: int
    """The index of the first element."""
    strides: tuple[int, int, int, int]
    """Elements from matrix to matrix of both dimensions of batches, from row to row, and from column to column."""

    @property
    def in_rows(self) -> bool:
        """Whether the elements of a row follow each other."""
        return self.strides[-1] in (0, 1)

    def in_vec4s(self, columns: int) -> bool:
        """Whether each row consists of whole vec4s."""
        *outer, _ = self.strides
        return self.in_rows and columns % 4 == 0 and all(each % 4 == 0 for each in (self.first, *outer))


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of all operands, with batches in two dimensions."""

    inner: int
    """The size of the inner dimension of batches."""
    places: Mapping[str, Place]


def layout_of(call: Call) -> Layout | None:
    """The layout of a call's operands; None if the shader can't read or write them where they are."""
    *batches, rows, _ = call.output.shape
    count = math.prod(batches)
    for inner in (size for size in range(count, 0, -1) if count % size == 0):
        places: dict[str, Place] = {}
        for name in _BLOCKS:
            tensor: Tensor | None = getattr(call, name)
            if tensor is not None:
                own = Box(tuple(dense_dimensions(tensor.shape))) if tensor.view is None else tensor.view.box
                place = _place(own, (count // inner, inner, *tensor.shape[-2:]))
                if place is None or not (place.in_rows or name.endswith("key")):
                    break
                places[name] = place
        else:
            place = _place_of_mask(call, (count // inner, inner, rows))
            if place is not None:
                return Layout(inner, {**places, "mask": place})
    return None


def _place(own: Box, shape: Shape) -> Place | None:
    """The place of matrices of a shape whose elements in order are a box; None if they have no such strides."""
    matrices = Box(tuple(dense_dimensions(shape)))
    pieces = matrices.within(own)
    if pieces is None or any(len(each) > 1 for each in pieces):
        return None
    outer, inner, row, column = (each[0][1] if each else 0 for each in pieces)
    return Place(matrices.first_within(own), (outer, inner, row, column))


def _place_of_mask(call: Call, shape: tuple[int, int, int]) -> Place | None:
    """The place of the mask, with strides of 0 where it broadcasts."""
    if call.mask is None:
        return Place(0, (0, 0, 0, 0))
    width, batches = call.mask.shape[-1], call.output.shape[:-2]
    full = (1,) * (len(batches) + 2 - call.mask.rank) + call.mask.shape
    sizes = (*batches, shape[2], width)
    dimensions = [
        (size, 0 if own == 1 else stride)
        for size, own, (_, stride) in zip(sizes, full, dense_dimensions(full), strict=True)
    ]
    return _place(Box(tuple(dimensions)), (*shape, width))


def masked_keys(call: Call) -> int:
    """The keys, from the first one on, that the mask is added to."""
    own = 0 if call.own_key is None else call.own_key.shape[-2]
    return call.key.shape[-2] + own if call.masks_own else call.key.shape[-2]


def _has_masks_of_vec4s(call: Call, place: Place) -> bool:
    """Whether the masks of four keys are a vec4."""
    in_rows = place.strides[-1] == 1 and place.in_vec4s(masked_keys(call))
    return in_rows and (not call.masks_own or call.key.shape[-2] % 4 == 0)


def _takes_view(call: Call, tensor: Tensor, view: Tensor, alone: bool) -> bool:
    if tensor is call.mask:
        return False
    return layout_of(call.with_tensors(lambda each: view if each is tensor else each)) is not None


def refuse(call: Call) -> str | None:
    """The reason why the shader can't compute a call, or None."""
    if not (call.output.size and call.query.size):
        return "there are no elements"
    matrices = math.prod(call.output.shape[:-2])
    if matrices > _MOST_MATRICES:
        return f"there are {matrices} matrices, the shader takes {_MOST_MATRICES}"
    if layout_of(call) is None:
        return "the matrices have more than two strides between them"
    columns, keys = call.output.shape[-1], call.key.shape[-2]
    if columns > 4 * _LEAST_TEAM * _MOST_VEC4S:
        return f"values have {columns} columns, the shader has sums for {4 * _LEAST_TEAM * _MOST_VEC4S}"
    if call.own_key is not None and call.own_key.shape[-2] > _MOST_OWN:
        return f"{call.own_key.shape[-2]} keys follow the others, the shader takes {_MOST_OWN}"
    rounds = -(-keys // (4 * _LEAST_TEAM)) * (call.key.shape[-1] + 2) + keys
    return None if rounds <= MOST_ROUNDS else f"there are {keys} keys, which take too many rounds"


@kernel(InternalCode.ATTENTION, shaders=(ATTENTION,), refuse=refuse, takes_view=_takes_view)
def lower(call: Call, g: Lowering) -> None:
    """Lower ATTENTION to one dispatch."""
    layout = layout_of(call)
    assert layout is not None
    *batches, rows, columns = call.output.shape
    depth, keys = call.query.shape[-1], call.key.shape[-2]
    is_large = keys * (depth + columns) >= _LARGE_FROM and not g.device.has_small_subgroups
    local = g.device.large_team if is_large else g.device.team
    across = min(-(-columns // 4), local)
    has_own, mask = call.own_key is not None, call.mask
    places = layout.places
    operands = {name: getattr(call, name) for name in _OPERANDS if name in places}
    tensors = {name: g.tensor((operands.get(name) or operands[name.removeprefix("own_")]).whole) for name in _OPERANDS}
    strides = tuple(places[name].strides if name in places else (0,) * 4 for name in (*_OPERANDS, "mask", "output"))

    def in_vec4s(name: str, width: int) -> bool:
        return all(places[each].in_vec4s(width) for each in (name, f"own_{name}") if each in places)

    g.dispatch(
        ATTENTION.variant(DTYPE=dtype(call.output), CACHE=dtype(call.key)),
        groups=(rows, math.prod(batches), 1),
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
            "MASK_VEC4S": _has_masks_of_vec4s(call, places["mask"]),
        },
        tensors={
            **{_BLOCKS[name]: tensor for name, tensor in tensors.items()},
            "mask": tensors["query"] if mask is None else g.tensor(mask),
            "dst": g.tensor(call.output.whole),
            "strides": g.once(("attention", strides), lambda: g.constant(np.array(strides, np.uint32))),
        },
        **{f"{_BLOCKS[name]}_first": places[name].first if name in places else 0 for name in _OPERANDS},
        inner=layout.inner,
        depth=depth,
        columns=columns,
        count=keys,
        own_count=call.own_key.shape[-2] if has_own else 0,
        masked=masked_keys(call),
        scale=1.0 if call.scale is None else call.scale,
        factor=call.beta,
    )
