"""The operators of StableHLO that move elements, and those that put elements around them or between them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnvk.api import OperationCode
from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import chosen
from nnvk.importers.decompositions.moving import (
    axis_of,
    joined_integers,
    packed,
    padded_integers,
    sliced,
    strided,
    transposed,
)
from nnvk.importers.emitter import BOOL8, F32, I32, Emitter, is_quantised
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.scattering import updated
from nnvk.importers.tflite.registry import builtin

Op = OperationCode


def numbers(options: Any, name: str, count: int | None = None, default: int | None = None) -> list[int]:
    """The numbers of a list of the options, or ``count`` times the default where the file has none."""
    found = getattr(options, f"{name}AsNumpy")()
    listed: list[int] = found.tolist() if isinstance(found, np.ndarray) else []
    if not listed and count is not None and default is not None:
        return [default] * count
    if count is not None and len(listed) != count:
        raise Unmapped(f"there must be {count} of {name}, got {listed}")
    return listed


# --- shape and order -----------------------------------------------------------------------------------------


@builtin("STABLEHLO_RESHAPE")
def reshape(c: Context) -> Value:
    """Map STABLEHLO_RESHAPE, to the shape that the file declares."""
    shape = c.declared_shape()
    if shape is None:
        raise Unmapped("the output's shape must be declared")
    return c.reshape(c.input(), shape)


@builtin("STABLEHLO_TRANSPOSE")
def transpose(c: Context) -> Value:
    """Map STABLEHLO_TRANSPOSE."""
    source = c.input()
    return transposed(c, source, numbers(c.options("StablehloTransposeOptions"), "Permutation", len(source.shape)))


@builtin("STABLEHLO_BROADCAST_IN_DIM")
def broadcast_in_dim(c: Context) -> Value:
    """Map STABLEHLO_BROADCAST_IN_DIM: the options name the output's axis of each axis of the input."""
    source, shape = c.input(), c.declared_shape()
    if shape is None:
        raise Unmapped("the output's shape must be declared")
    axes = numbers(c.options("StablehloBroadcastInDimOptions"), "BroadcastDimensions")
    if not axes and source.size == 1:
        return c.broadcast(c.reshape(source, (1,) * len(shape)), shape)
    if len(axes) != len(source.shape) or sorted(set(axes)) != sorted(axes) or not set(axes) <= set(range(len(shape))):
        raise Unmapped(f"axes {axes} do not fit an input of {list(source.shape)} and an output of {list(shape)}")
    order = sorted(range(len(axes)), key=axes.__getitem__)
    sizes = [1] * len(shape)
    for axis, size in zip(axes, source.shape, strict=True):
        sizes[axis] = size
    return c.broadcast(c.reshape(transposed(c, source, order), sizes), shape)


@builtin("STABLEHLO_CONCATENATE")
def concatenate(c: Context) -> Value:
    """Map STABLEHLO_CONCATENATE."""
    values = c.all_inputs()
    axis = axis_of(c.options("StablehloConcatenateOptions").Dimension(), len(values[0].shape))
    if values[0].code is I32.code:
        return joined_integers(c, values, axis)
    return c.emit(Op.CONCATENATION, *values, axis, out=values[0].type)


@builtin("STABLEHLO_IOTA")
def iota(c: Context) -> Value:
    """Map STABLEHLO_IOTA: the index of each element along one axis, a constant."""
    shape, out = c.declared_shape(), c.out()
    if shape is None or out.code not in (F32.code, I32.code):
        raise Unmapped(f"the output must be FLOAT32 or INT32 and its shape declared, got {out}")
    axis = axis_of(c.options("StablehloIotaOptions").IotaDimension(), len(shape))
    behind = [1] * (len(shape) - axis - 1)
    return c.computed(shape, out, lambda: charged.broadcast_to(charged.arange(shape[axis]).reshape(-1, *behind), shape))


# --- parts ---------------------------------------------------------------------------------------------------


@builtin("STABLEHLO_SLICE")
def slice_(c: Context) -> Value:
    """Map STABLEHLO_SLICE, from the first index up to the limit."""
    source, options = c.input(), c.options("StablehloSliceOptions")
    rank = len(source.shape)
    starts, limits = numbers(options, "StartIndices", rank), numbers(options, "LimitIndices", rank)
    taken = [range(*bounds) for bounds in zip(starts, limits, numbers(options, "Strides", rank, 1), strict=True)]
    if any(not axis or axis[0] < 0 or axis[-1] >= size for axis, size in zip(taken, source.shape, strict=True)):
        raise Unmapped(f"the slice from {starts} to {limits} is not within {list(source.shape)}")
    return strided(c, source, taken)


def _starts(c: Context, position: int, rank: int) -> Value:
    """The first indices, of which each is an input of its own."""
    given = [c.reshape(c.input(at), (1,)) for at in range(position, position + rank)]
    if len(c.inputs) != position + rank or any(value.code is not I32.code for value in given):
        raise Unmapped(f"there must be {rank} first indices of INT32, got {len(c.inputs) - position}")
    return c.reshape(packed(c, given, 0), (rank,))


@builtin("STABLEHLO_DYNAMIC_SLICE")
def dynamic_slice(c: Context) -> Value:
    """Map STABLEHLO_DYNAMIC_SLICE: a slice that is moved to lie inside."""
    source = c.input(0)
    rank = len(source.shape)
    sizes = numbers(c.options("StablehloDynamicSliceOptions"), "SliceSizes", rank)
    if any(not 0 < size <= full for size, full in zip(sizes, source.shape, strict=True)):
        raise Unmapped(f"a slice of {sizes} does not fit {list(source.shape)}")
    first = c.emit(Op.MAXIMUM, _starts(c, 1, rank), c.constant(0, I32), out=I32)
    first = c.emit(Op.MINIMUM, first, c.constant(np.array(source.shape) - sizes, I32), out=I32)
    return c.add(Op.SLICE, [source, first, np.array(sizes)], [source.type], [tuple(sizes)])[0]


@builtin("STABLEHLO_DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(c: Context) -> Value:
    """Map STABLEHLO_DYNAMIC_UPDATE_SLICE: write a box, moved to lie inside."""
    base = c.input(0)
    return updated(c, base, c.input(1), _starts(c, 2, len(base.shape)))


# --- padding -------------------------------------------------------------------------------------------------


def spread(c: Emitter, source: Value, spaces: list[int]) -> Value:
    """Put as many zeros between the elements as each axis says."""
    for axis, space in enumerate(spaces):
        size = source.shape[axis]
        if not space or size == 1:
            continue
        before, behind = math.prod(source.shape[:axis]), math.prod(source.shape[axis + 1 :])
        rows = surrounded(c, c.reshape(source, (before, size, 1, behind)), [(0, 0), (0, 0), (0, space), (0, 0)])
        length = size + (size - 1) * space
        rows = c.reshape(rows, (before, size * (space + 1), behind))
        rows = sliced(c, rows, [range(before), range(length), range(behind)])
        source = c.reshape(rows, (*source.shape[:axis], length, *source.shape[axis + 1 :]))
    return source


def surrounded(c: Emitter, source: Value, pairs: list[tuple[int, int]]) -> Value:
    """Put zeros before and behind the elements of each axis."""
    if not any(map(any, pairs)):
        return source
    if source.code is I32.code:
        return padded_integers(c, source, np.array(pairs), 0)
    return c.keep(Op.PAD, source, np.array(pairs))


def filled_up(
    c: Emitter, source: Value, number: Value, lows: list[int], highs: list[int], spaces: list[int] | None = None
) -> Value:
    """Put a number before, behind and between the elements of each axis. Sides below 0 are cut off instead."""
    if number.code is not source.code or number.size != 1:
        raise Unmapped(f"{source.type} is padded with one number of its type, got {number.type}")
    spaces = spaces or [0] * len(source.shape)
    if is_quantised(source) or min(spaces, default=0) < 0:
        raise Unmapped(f"spaces of {spaces} can't be put between elements of {source.type}")
    is_zero = number.is_constant and not number.array.any()
    sizes = [size + (size - 1) * space for size, space in zip(source.shape, spaces, strict=True)]
    kept = [range(max(0, -low), size + min(0, high)) for low, high, size in zip(lows, highs, sizes, strict=True)]
    if not all(kept):
        raise Unmapped(f"paddings of {lows} and {highs} leave nothing of {list(source.shape)}")
    pairs = [(max(0, low), max(0, high)) for low, high in zip(lows, highs, strict=True)]
    result = surrounded(c, sliced(c, spread(c, source, spaces), kept), pairs)
    if is_zero or result is source:
        return result

    def own() -> np.ndarray:
        """Whether an element of the result is one of the source."""
        every = charged.zeros(sizes, np.bool_)
        every[tuple(slice(None, None, space + 1) for space in spaces)] = True
        return charged.pad(every[tuple(slice(axis.start, axis.stop) for axis in kept)], pairs)

    return chosen(c, c.computed(result.shape, BOOL8, own), result, c.reshape(number, (1,)))


@builtin("STABLEHLO_PAD")
def pad(c: Context) -> Value:
    """Map STABLEHLO_PAD: put a number around the elements and between them, or cut elements off."""
    source, options = c.input(0), c.options("StablehloPadOptions")
    names = "EdgePaddingLow", "EdgePaddingHigh", "InteriorPadding"
    lows, highs, spaces = (numbers(options, name, len(source.shape), 0) for name in names)
    return filled_up(c, source, c.input(1), lows, highs, spaces)


@builtin("DILATE")
def dilate(c: Context) -> Value:
    """Map DILATE: put a number between the elements, so that each axis has them at a distance."""
    source, distances = c.input(0), c.ints(1, "the distances")
    if len(distances) != len(source.shape) or min(distances) < 1:
        raise Unmapped(f"there must be a distance from 1 on for each axis of {list(source.shape)}, got {distances}")
    nothing = [0] * len(distances)
    return filled_up(c, source, c.input(2), nothing, nothing, [distance - 1 for distance in distances])
