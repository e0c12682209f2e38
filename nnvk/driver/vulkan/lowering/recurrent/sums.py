"""32-bit sums of products of bytes, for the gates of the quantised LSTMs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.lowering.copies.move import fill
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.gemm.tiles.subgroup import uses_subgroups
from nnvk.driver.vulkan.lowering.gemm.verification import exact
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK, WEIGHT_SHADERS, packed, unsigned_bytes, weights_of
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_mask, zero_point
from nnvk.driver.vulkan.lowering.recurrent.gates import GATES_SHADERS
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader, Variant
from nnvk.ops.call import Tensor

TILES, ARITHMETICS = ("subgroup", "shared"), ("none", "dot")
"""The axes of shaders that include `shaders/include/byte_sums.glsl`."""
SUMS = Shader("quantized_sums", TILE=TILES, ARITHMETIC=ARITHMETICS)
SUMS_SHADERS = (SUMS, *WEIGHT_SHADERS, *GATES_SHADERS, exact.EXACT)
"""The shaders that this module may dispatch."""

_LANES = 8
_SLICES = 16
"""The invocations that share K."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The arguments of a dispatch of a shader that includes byte_sums.glsl."""

    variant: Variant
    groups: tuple[int, int, int]
    spec: Mapping[str, int | bool]
    tensors: Mapping[str, TensorRef]
    push: Mapping[str, int]


def sums_of(
    g: Lowering, variant: Callable[..., Variant], weights: Tensor, source: Tensor, behind: Tensor | None = None
) -> Sums:
    """Rows of ``source`` [rows, ...], any of ``behind`` after them, times weights [columns, K], less zero points.

    ``variant`` is the variant of the shader for values of the axes TILE and ARITHMETIC.

    Columns are a multiple of four, K is not 0; sums wrap round.
    """
    rows, split = source.shape
    columns, length = weights.shape
    filters = packed(g, weights_of(weights))
    zero = zero_point(source)
    due = filters
    if weights.is_constant:
        due = g.constant_form(weights, ("due", zero), lambda: _due(weights, zero))
    tensors = {"src": g.tensor(source), "weights": filters, "due": due}
    push = {
        "length": length,
        "sign_mask": sign_mask(source),
        "zero": _wrapped(zero),
        "weight_zero": zero_point(weights),
    }
    if behind is not None:
        tensors["src"] = g.tensor(source if source.size else behind)
        tensors["behind"] = g.tensor(behind if behind.size else source)
        push["split"] = split
    return Sums(
        variant=_chosen(g, variant, f"{rows} x {length} to {columns}"),
        groups=(-(-columns // BLOCK), rows, 1),
        spec={
            "local_x": _LANES,
            "local_y": 1 if g.device.is_cpu else _SLICES,
            "ALIGNED": split % 4 == 0 and length % 4 == 0,
            "DUE": weights.is_constant,
        },
        tensors=tensors,
        push=push,
    )


def without_products(sums: Sums) -> Sums:
    """The same, but all sums are 0."""
    return replace(sums, spec={**sums.spec, "DUE": False}, push={**sums.push, "length": 0})


def add_up(g: Lowering, weights: Tensor, source: Tensor) -> TensorRef:
    """`sums_of` as 32-bit integers, [rows, columns]."""
    rows, (columns, length) = source.shape[0], weights.shape
    target = g.scratch(4 * rows * columns)
    if not length:
        fill(g, target, np.zeros(1, np.int32))
        return target
    if exact.may_verify_sums(g, length):
        return exact.add_up(g, weights, source)
    sums = sums_of(g, SUMS.variant, weights, source)
    g.dispatch(
        sums.variant,
        groups=sums.groups,
        spec=sums.spec,
        tensors={**sums.tensors, "dst": target},
        **sums.push,
        quads=columns // 4,
    )
    return target


def _chosen(g: Lowering, variant: Callable[..., Variant], sizes: str) -> Variant:
    """The best variant for a device that it does not avoid, or the best of all if it avoids all.

    The second computation of a verified plan takes another one, if there are several.
    """
    tiles = ("subgroup", "shared") if uses_subgroups(g.device) else ("shared",)
    arithmetics = ("dot", "none") if g.device.has_dots else ("none",)
    every = {f"{tile} {way}": variant(TILE=tile, ARITHMETIC=way) for tile in tiles for way in arithmetics}
    usable = [name for name, each in every.items() if not g.device.avoids(each)]
    shader = next(iter(every.values())).shader
    return every[g.choose(g.tuning_key(shader, sizes), usable or list(every)[:1], is_exact=True)]


def _due(weights: Tensor, zero: int) -> np.ndarray:
    """The contribution of zero points to each column of a block; see byte_sums.glsl."""
    columns, length = weights.shape
    owed = np.zeros(round_up(columns, BLOCK), np.int64)
    counts = unsigned_bytes(weights.data).sum(axis=1, dtype=np.int64)
    owed[:columns] = zero * (length * zero_point(weights) - counts)
    return owed.astype(np.int32)


def _wrapped(number: int) -> int:
    """A number wrapped to 32 bits, like the sums."""
    return (number + 2**31) % 2**32 - 2**31
