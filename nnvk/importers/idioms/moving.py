"""Elements in another order, in part, or together with others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.importers.emitter import F32, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph import MAX_RANK, Value
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import Shape

Op = OperationCode


def axis_of(axis: int, rank: int, what: str = "the axis") -> int:
    """An axis that may count from the end, as one from 0."""
    if not -rank <= axis < rank:
        raise Unmapped(f"{what} must be in [{-rank}, {rank}), got {axis}")
    return axis % rank


# --- parts ---------------------------------------------------------------------------------------------------


def sliced(c: Emitter, source: Value, taken: Sequence[range]) -> Value:
    """A SLICE. An axis that is taken whole is one with the axis before it, so that fewer than `MAX_RANK` are left."""
    shape = [len(axis) for axis in taken]
    if all(axis == range(full) for axis, full in zip(taken, source.shape, strict=True)):
        return source
    if len(shape) <= MAX_RANK:
        return c.keep(Op.SLICE, source, np.array([axis.start for axis in taken]), np.array(shape))
    begins, sizes, merged = [0], [1], [1]
    for axis, full in zip(taken, source.shape, strict=True):
        if axis == range(full):
            begins[-1], sizes[-1], merged[-1] = begins[-1] * full, sizes[-1] * full, merged[-1] * full
        else:
            begins, sizes, merged = [*begins, axis.start], [*sizes, len(axis)], [*merged, full]
    return c.reshape(c.keep(Op.SLICE, c.reshape(source, merged), np.array(begins), np.array(sizes)), shape)


def gathered(c: Emitter, source: Value, axis: int, indices: Value) -> Value:
    """A GATHER with indices of any rank."""
    flat = c.reshape(indices, (indices.size,))
    shape = (*source.shape[:axis], *indices.shape, *source.shape[axis + 1 :])
    if len(source.shape) > MAX_RANK:
        picked = c.emit(Op.GATHER, c.around(source, axis), 1, flat, out=source.type)
    else:
        picked = c.emit(Op.GATHER, source, axis, flat, out=source.type)
    return c.reshape(picked, shape)


def elements_at(c: Emitter, source: Value, axis: int, indices: np.ndarray) -> Value:
    """Elements along an axis, by constant indices from 0 up; booleans too."""
    if source.code is OperandCode.TENSOR_BOOL8:
        return c.as_bool(elements_at(c, c.as_number(source, F32), axis, indices))
    return gathered(c, source, axis, c.constant(indices.astype(np.int32), I32))


def strided(c: Emitter, source: Value, taken: Sequence[range]) -> Value:
    """The elements at these indices along each axis, in any direction, of a tensor of any type and rank."""
    if source.code is OperandCode.TENSOR_BOOL8:
        return c.as_bool(strided(c, c.as_number(source, F32), taken))
    if all(axis.step == 1 for axis in taken):
        return sliced(c, source, taken)
    if len(taken) <= MAX_RANK and source.code is not I32.code:
        # An end before the first element can't be written down: it is masked.
        masked = sum(1 << axis for axis, one in enumerate(taken) if one.stop < 0)
        bounds = (np.array([getattr(axis, name) for axis in taken]) for name in ("start", "stop", "step"))
        return c.keep(Op.STRIDED_SLICE, source, *bounds, 0, masked, 0)
    for axis, one in enumerate(taken):
        if one != range(source.shape[axis]):
            source = elements_at(c, source, axis, np.array(one))
    return source


# --- order ---------------------------------------------------------------------------------------------------


def transposed(c: Emitter, source: Value, order: Sequence[int]) -> Value:
    """Above `MAX_RANK`, neighbours that stay neighbours are one axis, and what is left moves axis by axis."""
    rank = len(source.shape)
    if sorted(order) != list(range(rank)):
        raise Unmapped(f"the permutation must name each of {rank} axes, got {list(order)}")
    shape = [source.shape[axis] for axis in order]
    if [axis for axis in order if source.shape[axis] != 1] == [axis for axis in range(rank) if source.shape[axis] != 1]:
        return c.reshape(source, shape)
    if source.code is OperandCode.TENSOR_BOOL8:
        return c.as_bool(transposed(c, c.as_number(source, F32), order))
    if source.code is I32.code:  # which NNAPI does not transpose: elements are picked one by one
        places = c.computed(
            (source.size,), I32, lambda: np.arange(source.size, dtype=np.int32).reshape(source.shape).transpose(order)
        )
        return c.reshape(gathered(c, c.reshape(source, (source.size,)), 0, places), shape)
    if rank <= MAX_RANK:
        return c.keep(Op.TRANSPOSE, source, np.array(order))
    runs = _runs(
        [axis for axis in order if source.shape[axis] != 1], [axis for axis in range(rank) if source.shape[axis] != 1]
    )
    axes = sorted(runs)
    sizes = {run: math.prod(source.shape[axis] for axis in run) for run in runs}
    value = c.reshape(source, [sizes[run] for run in axes])
    if len(runs) <= MAX_RANK:
        value = c.keep(Op.TRANSPOSE, value, np.array([axes.index(run) for run in runs])) if len(runs) > 1 else value
    else:
        for place, run in enumerate(runs):
            now = axes.index(run)
            if now == place:
                continue
            parts = axes[:place], axes[place:now], axes[now : now + 1], axes[now + 1 :]
            value = c.reshape(value, [math.prod(sizes[one] for one in part) for part in parts])
            value = c.keep(Op.TRANSPOSE, value, np.array([0, 2, 1, 3]))
            axes.insert(place, axes.pop(now))
    return c.reshape(value, shape)


def _runs(order: Sequence[int], axes: list[int]) -> list[tuple[int, ...]]:
    """``order`` cut where the next axis is not the one that follows in ``axes``."""
    runs: list[tuple[int, ...]] = []
    for axis in order:
        place = axes.index(axis)
        if runs and place and axes[place - 1] == runs[-1][-1]:
            runs[-1] += (axis,)
        else:
            runs.append((axis,))
    return runs


# --- joining -------------------------------------------------------------------------------------------------

_MAX_PIECES = 256


def joined_shape(values: Sequence[Value], axis: int) -> Shape:
    """The shape of a concatenation."""
    first = values[0].shape
    for value in values:
        if (*value.shape[:axis], *value.shape[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]):
            raise Unmapped(f"shapes must agree but for axis {axis}, got {[list(value.shape) for value in values]}")
    return (*first[:axis], sum(value.shape[axis] for value in values), *first[axis + 1 :])


def joined_integers(c: Emitter, values: Sequence[Value], axis: int) -> Value:
    """A concatenation of integers, which NNAPI does not join: they are packed piece by piece."""
    shape = joined_shape(values, axis)
    arrays = [value.array for value in values if value.array is not None]
    if len(arrays) == len(values):
        return c.computed(shape, I32, lambda: np.concatenate(arrays, axis))
    size = math.gcd(*(value.shape[axis] for value in values))
    if shape[axis] // size > _MAX_PIECES:
        raise Unmapped(f"NNAPI joins no integers, and {shape[axis] // size} pieces of one size are too many to pack")
    pieces: list[Value] = []
    for value in values:
        count = value.shape[axis] // size
        pieces += c.emit_many(Op.SPLIT, value, axis, count, outs=[value.type] * count) if count > 1 else [value]
    return c.reshape(packed(c, pieces, axis), shape)


def packed(c: Emitter, values: Sequence[Value], axis: int) -> Value:
    """Tensors of one shape along a new axis."""
    shape = values[0].shape
    if any(value.shape != shape for value in values):
        raise Unmapped(f"shapes must agree, got {[list(value.shape) for value in values]}")
    if len(shape) < MAX_RANK:
        return c.emit(Op.PACK, axis, *values, out=values[0].type)
    sides = math.prod(shape[:axis]), math.prod(shape[axis:])
    together = c.emit(Op.PACK, 1, *(c.reshape(value, sides) for value in values), out=values[0].type)
    return c.reshape(together, (*shape[:axis], len(values), *shape[axis:]))


def unpacked(c: Emitter, source: Value, axis: int) -> list[Value]:
    """The slices of one element along an axis, without that axis."""
    count, shape = source.shape[axis], (*source.shape[:axis], *source.shape[axis + 1 :])
    if count == 1:
        return [c.reshape(source, shape)]
    if len(source.shape) > MAX_RANK:
        source, axis = c.around(source, axis), 1
    return [c.reshape(one, shape) for one in c.emit_many(Op.SPLIT, source, axis, count, outs=[source.type] * count)]


# --- along several axes --------------------------------------------------------------------------------------


def merged(shape: Shape, folded: set[int]) -> tuple[list[int], list[int]]:
    """A shape with neighbours that are folded, or not, as one, and which of these are folded."""
    sizes: list[int] = []
    runs: list[int] = []
    for axis, size in enumerate(shape):
        if axis and (axis in folded) == (axis - 1 in folded):
            sizes[-1] *= size
            continue
        sizes.append(size)
        if axis in folded:
            runs.append(len(sizes) - 1)
    return sizes, runs


# --- the best ------------------------------------------------------------------------------------------------


def largest(c: Emitter, source: Value, k: int) -> tuple[Value, Value]:
    """The ``k`` largest elements along the last axis, and their places.

    Of equal ones the first comes first, as in TFLite and ONNX. NNAPI takes the last one first: rows are turned round.
    """
    turned = c.keep(Op.REVERSE, source, np.array([len(source.shape) - 1]))
    best, places = c.emit_many(Op.TOPK_V2, turned, k, outs=[source.type, I32])
    return best, c.emit(Op.SUB, c.constant(source.shape[-1] - 1, I32), places, NONE, out=I32)
