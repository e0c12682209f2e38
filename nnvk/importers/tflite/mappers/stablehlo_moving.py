"""The operators of StableHLO that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnvk.api import OperationCode
from nnvk.importers import charged
from nnvk.importers.decompositions.moving import (
    axis_of,
    joined_integers,
    packed,
    strided,
    transposed,
)
from nnvk.importers.emitter import F32, I32
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
