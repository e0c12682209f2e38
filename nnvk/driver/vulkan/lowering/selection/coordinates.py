"""Coordinates of rows by indices into several axes (``shaders/coordinates.comp``), and the units of rows to copy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.base.extents import computed
from nnvk.driver.vulkan.lowering.divide import divisors
from nnvk.driver.vulkan.lowering.dtypes import moved
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.selection.sort import SORTING, sort_keys
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Tensor
from nnvk.ops.extension.coordinates import assertion, flat_coordinates, strides_of

COORDINATES = Shader("coordinates", GIVES=("coordinates", "keys"))
LAST_WRITER = Shader("last_writer", PASS=("clear", "claim", "drop"))
FINDING = (COORDINATES, LAST_WRITER, *SORTING)
"""The shaders that `coordinates` and `last_coordinates` may dispatch."""
LOCAL = 64
_CHUNK = 8
"""The most units that an invocation copies on a CPU. On a GPU it copies one, so that neighbours access neighbours."""


def coordinates(g: Lowering, indices: Tensor, sizes: Sequence[int], batches: int = 1, first: int = 0) -> TensorRef:
    """The coordinate of each row of indices into axes of these sizes; ``first`` is the number of the first axis.

    Constant indices were checked with the model; the shader checks the others.
    """
    if indices.is_constant:
        form = "coordinates", tuple(sizes), batches
        return g.constant_form(indices, form, lambda: flat_coordinates(indices.data, sizes, batches).astype(np.uint32))
    return _found(g, "coordinates", indices, sizes, batches, first)


def last_coordinates(g: Lowering, indices: Tensor, sizes: Sequence[int]) -> TensorRef:
    """`coordinates`, but if several rows name one coordinate, only the last row gets it. The others get 2^32 - 1."""
    if indices.is_constant:
        return g.constant_form(indices, ("last coordinates", tuple(sizes)), lambda: _last(indices.data, sizes))
    rows, found = indices.size // len(sizes), coordinates(g, indices, sizes)
    tensors = {"coordinates": found, "owners": g.scratch(4 * math.prod(sizes))}
    for which in ("clear", "claim", "drop") if rows > 1 else ():
        g.dispatch(
            LAST_WRITER.variant(PASS=which),
            groups=g.flat(rows, LOCAL),
            spec={"local_x": LOCAL},
            tensors=tensors,
            count=rows,
        )
    return found


def _last(indices: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    found = flat_coordinates(indices, sizes).astype(np.uint32)
    _, from_the_end = np.unique(found[::-1], return_index=True)
    result = np.full(found.shape, 0xFFFFFFFF, np.uint32)
    last = found.size - 1 - from_the_end
    result[last] = found[last]
    return result


def sorted_coordinates(g: Lowering, indices: Tensor, sizes: Sequence[int]) -> TensorRef:
    """Entries [rows, 2] of all rows of indices: the coordinates' complements and the rows' numbers, in this order."""
    if indices.is_constant:
        return g.constant_form(indices, ("sorted coordinates", tuple(sizes)), lambda: _entries(indices.data, sizes))
    rows = indices.size // len(sizes)
    return sort_keys(g, _found(g, "keys", indices, sizes), 1, rows, rows)


def _entries(indices: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    found = flat_coordinates(indices, sizes).astype(np.uint32)
    order = np.argsort(found, kind="stable")
    return np.stack([~found[order], order.astype(np.uint32)], axis=1)


def _found(
    g: Lowering, gives: str, indices: Tensor, sizes: Sequence[int], batches: int = 1, first: int = 0
) -> TensorRef:
    rows = indices.size // len(sizes)
    found = g.scratch(4 * rows)
    g.dispatch(
        COORDINATES.variant(GIVES=gives),
        groups=g.flat(-(-rows // 4), LOCAL),
        spec={"local_x": LOCAL, "BATCHES": batches > 1},
        tensors={
            "indices": g.tensor(indices),
            "sizes": sizes_of_axes(g, sizes),
            "dst": found,
            "flag": g.flag(computed(assertion, tuple(sizes), first)),
        },
        count=rows,
        depth=len(sizes),
        first=first,
        per_batch=rows // batches if batches else 0,
        whole=math.prod(sizes),
        **divisors(per_batch=rows // batches if batches else 0),
    )
    return found


def sizes_of_axes(g: Lowering, sizes: Sequence[int]) -> TensorRef:
    """The tensor ``sizes`` of shaders that find coordinates: the size of each axis, and its stride."""
    return g.computed_constant((len(sizes), 2), np.uint32, _sizes_and_strides, *sizes)


def _sizes_and_strides(*sizes: int) -> np.ndarray:
    return np.array([sizes, strides_of(sizes)], np.uint32).T


@dataclass(frozen=True, slots=True)
class Units:
    """The units that a row consists of."""

    dtype: str
    """The value of the axis DTYPE. It is for whole words if rows consist of whole words."""
    inner: int
    """Units of a row."""

    @property
    def are_vec4s(self) -> bool:
        """Whether they are whole vec4s."""
        return self.inner % 4 == 0

    @property
    def are_quads(self) -> bool:
        """Whether they are whole quads of words."""
        return self.are_vec4s and self.dtype == "b32"

    def chunk(self, device: DeviceProfile) -> int:
        """How many units, or vec4s of them, an invocation copies."""
        count = self.inner // 4 if self.are_vec4s else self.inner
        most = _CHUNK if device.is_cpu else 1
        return max(chunk for chunk in range(1, most + 1) if count % chunk == 0)


def units_of(tensor: Tensor, inner: int) -> Units:
    """The units of rows of ``inner`` elements of a tensor's."""
    words, rest = divmod(inner * tensor.dtype.itemsize, 4)
    return Units(moved(tensor), inner) if rest else Units("b32", words)
