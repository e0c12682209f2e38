"""Operations that move elements: transpositions, slices, gathers and concatenations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.base.sizes import count, is_all
from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import chosen
from nnvk.importers.emitter import BOOL8, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

Op = OperationCode


def axis_of(axis: int, rank: int, what: str = "the axis") -> int:
    """Normalise an axis that may count from the end."""
    if not -rank <= axis < rank:
        raise Unmapped(f"{what} must be in [{-rank}, {rank}), got {axis}")
    return axis % rank


# --- parts ---------------------------------------------------------------------------------------------------


def sliced(c: Emitter, source: Value, taken: Sequence[range]) -> Value:
    """Add a SLICE, unless it takes all elements."""
    if all(is_all(axis, full) for axis, full in zip(taken, source.shape, strict=True)):
        return source
    return c.keep(Op.SLICE, source, np.array([axis.start for axis in taken]), np.array([count(axis) for axis in taken]))


def gathered(c: Emitter, source: Value, axis: int, indices: Value) -> Value:
    """Add a GATHER with indices of any rank."""
    flat = c.reshape(indices, (indices.size,))
    shape = (*source.shape[:axis], *indices.shape, *source.shape[axis + 1 :])
    return c.reshape(c.emit(Op.GATHER, source, axis, flat, out=source.type), shape)


def elements_at(c: Emitter, source: Value, axis: int, indices: np.ndarray) -> Value:
    """Elements along an axis, by constant indices from 0 up."""
    return gathered(c, source, axis, c.constant(indices.astype(np.int32), I32))


def strided(c: Emitter, source: Value, taken: Sequence[range]) -> Value:
    """The elements at these indices along each axis, in any direction, of a tensor of any type and rank."""
    if all(axis.step == 1 for axis in taken):
        return sliced(c, source, taken)
    if source.code is not I32.code:
        # An end before the first element can't be written down: it is masked.
        masked = sum(1 << axis for axis, one in enumerate(taken) if one.stop < 0)
        bounds = (np.array([getattr(axis, name) for axis in taken]) for name in ("start", "stop", "step"))
        return c.keep(Op.STRIDED_SLICE, source, *bounds, 0, masked, 0)
    for axis, one in enumerate(taken):
        if not is_all(one, source.shape[axis]):
            source = elements_at(c, source, axis, np.array(one))
    return source


def flat_picked(c: Emitter, source: Value, places: np.ndarray) -> Value:
    """Elements at constant places in the order of memory, in the places' shape."""
    flat = elements_at(c, c.reshape(source, (source.size,)), 0, places.reshape(-1))
    return c.reshape(flat, places.shape)


# --- order ---------------------------------------------------------------------------------------------------


def transposed(c: Emitter, source: Value, order: Sequence[int]) -> Value:
    """A TRANSPOSE of a tensor of any type."""
    rank = len(source.shape)
    if sorted(order) != list(range(rank)):
        raise Unmapped(f"the permutation must name each of {rank} axes, got {list(order)}")
    shape = [source.shape[axis] for axis in order]
    if [axis for axis in order if source.shape[axis] != 1] == [axis for axis in range(rank) if source.shape[axis] != 1]:
        return c.reshape(source, shape)
    if source.code is I32.code:  # which NNAPI does not transpose: elements are picked one by one
        places = c.computed(
            (source.size,),
            I32,
            lambda: charged.arange(source.size, dtype=np.int32).reshape(source.shape).transpose(order),
        )
        return c.reshape(gathered(c, c.reshape(source, (source.size,)), 0, places), shape)
    return c.keep(Op.TRANSPOSE, source, np.array(order))


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
    """Concatenate integers. NNAPI cannot do this, so they are packed piece by piece."""
    shape = joined_shape(values, axis)
    arrays = [value.array for value in values if value.is_constant]
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
    """Stack tensors of one shape along a new axis."""
    if any(value.shape != values[0].shape for value in values):
        raise Unmapped(f"shapes must agree, got {[list(value.shape) for value in values]}")
    return c.emit(Op.PACK, axis, *values, out=values[0].type)


def padded_integers(c: Emitter, value: Value, paddings: np.ndarray, number: int) -> Value:
    """Pad integers with a number. NNAPI cannot pad them, so elements are gathered, and padding is then replaced."""
    shape = tuple(
        size + int(before) + int(behind) for size, (before, behind) in zip(value.shape, paddings, strict=True)
    )
    is_there = c.computed(shape, BOOL8, lambda: charged.pad(charged.ones(value.shape, np.bool_), paddings))
    places = c.computed(
        shape, I32, lambda: charged.pad(charged.arange(value.size, dtype=np.int32).reshape(value.shape), paddings)
    )
    picked = gathered(c, c.reshape(value, (value.size,)), 0, places)
    return chosen(c, is_there, picked, c.constant(number, I32))


def unpacked(c: Emitter, source: Value, axis: int) -> list[Value]:
    """The slices of one element along an axis, without that axis."""
    count, shape = source.shape[axis], (*source.shape[:axis], *source.shape[axis + 1 :])
    if count == 1:
        return [c.reshape(source, shape)]
    return [c.reshape(one, shape) for one in c.emit_many(Op.SPLIT, source, axis, count, outs=[source.type] * count)]


# --- the best ------------------------------------------------------------------------------------------------


def largest(c: Emitter, source: Value, k: int) -> tuple[Value, Value]:
    """The ``k`` largest elements along the last axis, and their places.

    The first of equal elements comes first, as in TFLite and ONNX. NNAPI takes the last one first, so rows are
    reversed.
    """
    turned = c.keep(Op.REVERSE, source, np.array([len(source.shape) - 1]))
    best, places = c.emit_many(Op.TOPK_V2, turned, k, outs=[source.type, I32])
    return best, c.emit(Op.SUB, c.constant(source.shape[-1] - 1, I32), places, NONE, out=I32)
