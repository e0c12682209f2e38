"""Constants that the file keeps sparse: levels of dimensions, dense or compressed, as TFLite's DENSIFY unfolds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.importers import charged
from nnvk.importers.errors import Unmapped
from nnvk.types.operand import Shape


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One dimension, in the order of storage: all of ``size`` indices, or those that it names."""

    size: int
    compressed: tuple[np.ndarray, np.ndarray] | None = None
    """The segments, which are where the indices under each element of the level above begin and where the last end, and
    the indices; None of a dense level.
    """


@dataclass(frozen=True, slots=True, eq=False)
class Sparsity:
    """The storage of a sparse constant."""

    order: tuple[int, ...]
    """The dimension of each level: of the tensor, or behind these, of a block."""
    blocks: tuple[int, ...]
    """The dimensions of the tensor that are cut into blocks."""
    levels: tuple[Level, ...]


def densified(values: np.ndarray, shape: Shape, sparsity: Sparsity) -> np.ndarray:
    """All elements of a sparse constant, which stores ``values``. `Unmapped` where they don't fit."""
    strides = _strides(shape, sparsity)
    # Each element of a level has one of the next level's segments, or a value: all of them are in the file.
    segments_of = [level.compressed[0] for level in sparsity.levels if level.compressed is not None]
    most = max(one.size for one in (values, *segments_of))
    nodes: np.ndarray = charged.zeros(1, np.int64)
    offsets: np.ndarray = nodes
    for level, (stride, size) in zip(sparsity.levels, strides, strict=True):
        if level.compressed is None:
            if level.size != size:
                raise Unmapped(f"a dense level of a sparse constant has {level.size} indices, its shape {size}")
            if nodes.size * size > most:
                raise Unmapped(f"a sparse constant names {nodes.size * size} elements, its file has {most}")
            index = charged.arange(size)
            nodes = charged.outer(np.add, nodes * size, index).reshape(-1)
            offsets = charged.outer(np.add, offsets, index * stride).reshape(-1)
            continue
        segments, indices = (one.astype(np.int64) for one in level.compressed)
        if segments.size <= np.max(nodes, initial=0) + 1 or np.any(np.diff(segments) < 0):
            raise Unmapped("the segments of a sparse constant do not fit the level above")
        if np.min(segments) < 0 or segments[-1] > indices.size or np.any((indices < 0) | (indices >= size)):
            raise Unmapped("the indices of a sparse constant lie outside its shape")
        counts = segments[nodes + 1] - segments[nodes]
        # The numbers from the first to the last of each segment, one after the other.
        firsts = charged.repeat(segments[nodes] - np.cumsum(counts) + counts, counts)
        nodes, offsets = firsts + charged.arange(counts.sum()), charged.repeat(offsets, counts)
        offsets = offsets + indices[nodes] * stride
    if nodes.size and np.max(nodes) >= values.size:
        raise Unmapped(f"a sparse constant names {np.max(nodes) + 1} elements and has {values.size}")
    dense = charged.zeros(math.prod(shape), values.dtype)
    dense[offsets] = values[nodes]
    return dense.reshape(shape)


def _strides(shape: Shape, sparsity: Sparsity) -> Sequence[tuple[int, int]]:
    """The stride in the dense constant, and the number of indices, of each level."""
    rank = len(shape)
    order, blocks, levels = sparsity.order, sparsity.blocks, sparsity.levels
    if sorted(order) != list(range(rank + len(blocks))) or len(levels) != len(order):
        raise Unmapped(f"a sparse constant of rank {rank} with {len(blocks)} blocks has the levels {list(order)}")
    if len(set(blocks)) < len(blocks) or any(not 0 <= axis < rank for axis in blocks):
        raise Unmapped(f"a sparse constant of rank {rank} has blocks along {list(blocks)}")
    sizes = dict.fromkeys(range(rank), 1)
    for dimension, level in zip(order, levels, strict=True):
        if dimension >= rank:
            sizes[blocks[dimension - rank]] = level.size
    if any(size < 1 or shape[axis] % size for axis, size in sizes.items()):
        raise Unmapped(f"a sparse constant of shape {list(shape)} has blocks of {list(sizes.values())}")
    dense = [math.prod(shape[axis + 1 :]) for axis in range(rank)]
    return [
        (dense[dimension] * sizes[dimension], shape[dimension] // sizes[dimension])
        if dimension < rank
        else (dense[blocks[dimension - rank]], sizes[blocks[dimension - rank]])
        for dimension in order
    ]
