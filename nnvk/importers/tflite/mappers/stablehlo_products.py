"""STABLEHLO_DOT_GENERAL and STABLEHLO_CONVOLUTION."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnvk.api import OperationCode
from nnvk.importers.decompositions.moving import axis_of, sliced, transposed
from nnvk.importers.emitter import F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.stablehlo_moving import numbers
from nnvk.importers.tflite.registry import builtin

Op = OperationCode


def _real_pair(c: Context) -> tuple[Value, Value]:
    first, second = c.input(0), c.input(1)
    if first.code is not F32.code or second.code is not F32.code:
        raise Unmapped(f"its inputs must be FLOAT32, got {first.type} and {second.type}")
    return first, second


def _laid(c: Context, value: Value, groups: Sequence[Sequence[int]]) -> Value:
    """A tensor of three axes, each of which is several of the given one."""
    ordered = transposed(c, value, [axis for group in groups for axis in group])
    return c.reshape(ordered, [math.prod(value.shape[axis] for axis in group) for group in groups])


@builtin("STABLEHLO_DOT_GENERAL")
def dot_general(c: Context) -> Value:
    """Map STABLEHLO_DOT_GENERAL to BATCH_MATMUL: sums over the contracted axes, for each index of the batches."""
    options = c.options("StablehloDotGeneralOptions")
    values = _real_pair(c)
    batches, contracted, free = [], [], []
    for side, value in zip(("Lhs", "Rhs"), values, strict=True):
        rank = len(value.shape)
        batches.append([axis_of(axis, rank) for axis in numbers(options, f"{side}BatchingDimensions")])
        contracted.append([axis_of(axis, rank) for axis in numbers(options, f"{side}ContractingDimensions")])
        used = {*batches[-1], *contracted[-1]}
        free.append([axis for axis in range(rank) if axis not in used])
    for what in (batches, contracted):
        sizes = [[value.shape[axis] for axis in axes] for value, axes in zip(values, what, strict=True)]
        if sizes[0] != sizes[1]:
            raise Unmapped(f"the axes {what[0]} and {what[1]} have the sizes {sizes[0]} and {sizes[1]}")
    first = _laid(c, values[0], (batches[0], free[0], contracted[0]))
    second = _laid(c, values[1], (batches[1], free[1], contracted[1]))
    result = c.emit(Op.BATCH_MATMUL, first, second, False, True, out=F32)
    axes = [values[0].shape[axis] for axis in (*batches[0], *free[0])]
    return c.reshape(result, [*axes, *(values[1].shape[axis] for axis in free[1])])


@dataclass(frozen=True)
class _Window:
    """The options along both spatial axes; one of size 1 comes before a single axis."""

    strides: list[int]
    lows: list[int]
    highs: list[int]
    spaces: list[int]
    """Zeros between the elements of the input."""
    dilations: list[int]
    reversed: list[bool]


def _window(options: Any, rank: int) -> _Window:
    missing = 2 - rank
    pairs = [0] * 2 * missing + numbers(options, "Padding", 2 * rank, 0)
    names = "WindowStrides", "LhsDilation", "RhsDilation"
    lists = [[1] * missing + numbers(options, name, rank, 1) for name in names]
    return _Window(
        strides=lists[0],
        lows=pairs[::2],
        highs=pairs[1::2],
        spaces=[dilation - 1 for dilation in lists[1]],
        dilations=lists[2],
        reversed=[False] * missing + [bool(one) for one in numbers(options, "WindowReversal", rank, 0)],
    )


@builtin("STABLEHLO_CONVOLUTION")
def convolution(c: Context) -> Value:
    """Map STABLEHLO_CONVOLUTION along one or two spatial axes, in any order of the axes."""
    options = c.options("StablehloConvolutionOptions")
    source, filters = _real_pair(c)
    spatial = [numbers(options, f"{name}SpatialDimensions") for name in ("Input", "Kernel", "Output")]
    rank = len(spatial[0])
    if rank not in (1, 2) or any(len(axes) != rank for axes in spatial) or len(source.shape) != rank + 2:
        raise Unmapped(f"NNAPI has one or two spatial axes, got {spatial[0]} of {list(source.shape)}")
    if options.BatchGroupCount() > 1:
        raise Unmapped(f"NNAPI has no groups of batches, got {options.BatchGroupCount()}")
    image = transposed(c, source, [options.InputBatchDimension(), *spatial[0], options.InputFeatureDimension()])
    kernel = [options.KernelOutputFeatureDimension(), *spatial[1], options.KernelInputFeatureDimension()]
    laid = transposed(c, filters, kernel)
    if rank == 1:
        image, laid = (c.reshape(one, (one.shape[0], 1, *one.shape[1:])) for one in (image, laid))
    result = _convolved(c, image, laid, _window(options, rank), max(1, options.FeatureGroupCount()))
    if rank == 1:
        result = c.reshape(result, (result.shape[0], *result.shape[2:]))
    places = [options.OutputBatchDimension(), *spatial[2], options.OutputFeatureDimension()]
    if sorted(places) != list(range(rank + 2)):
        raise Unmapped(f"the output's axes must be {rank + 2}, got {places}")
    return transposed(c, result, [places.index(axis) for axis in range(rank + 2)])


def _convolved(c: Context, image: Value, laid: Value, window: _Window, groups: int) -> Value:
    """A convolution of images [N, H, W, C] with filters [units, H, W, C / groups]."""
    channels, units = image.shape[3], laid.shape[0]
    if channels != groups * laid.shape[3] or units % groups:
        raise Unmapped(f"{groups} groups do not fit images of {image.shape} and filters of {laid.shape}")
    for axis in (1, 2):
        if window.reversed[axis - 1]:
            laid = c.keep(Op.REVERSE, laid, np.array([axis]))
    sides = zip(window.lows, window.highs, strict=True)
    if any(window.spaces) or any(side < 0 for pair in sides for side in pair):
        around = [[0, *side, 0] for side in (window.lows, window.highs, window.spaces)]
        image = _filled_up(c, image, *around)
        pads = [0, 0, 0, 0]
    else:
        pads = [window.lows[1], window.highs[1], window.lows[0], window.highs[0]]
    numbers_ = (*pads, *window.strides[::-1])
    dilated = () if window.dilations == [1, 1] else (False, *window.dilations[::-1])
    bias = c.filled(0.0, F32, (units,))
    if groups == 1:
        return c.emit(Op.CONV_2D, image, laid, bias, *numbers_, NONE, *dilated, out=F32)
    if groups == channels:
        depthwise = transposed(c, laid, (3, 1, 2, 0))
        return c.emit(Op.DEPTHWISE_CONV_2D, image, depthwise, bias, *numbers_, units // groups, NONE, *dilated, out=F32)
    if dilated:  # which NNAPI's grouped convolutions do not have
        laid = _spread(c, laid, [0, *(dilation - 1 for dilation in window.dilations), 0])
    return c.emit(Op.GROUPED_CONV_2D, image, laid, bias, *numbers_, groups, NONE, False, out=F32)


def _spread(c: Context, source: Value, spaces: list[int]) -> Value:
    """Put as many zeros between the elements as each axis says."""
    for axis, space in enumerate(spaces):
        size = source.shape[axis]
        if not space or size == 1:
            continue
        before, behind = math.prod(source.shape[:axis]), math.prod(source.shape[axis + 1 :])
        rows = _surrounded(c, c.reshape(source, (before, size, 1, behind)), [(0, 0), (0, 0), (0, space), (0, 0)])
        length = size + (size - 1) * space
        rows = c.reshape(rows, (before, size * (space + 1), behind))
        rows = sliced(c, rows, [range(before), range(length), range(behind)])
        source = c.reshape(rows, (*source.shape[:axis], length, *source.shape[axis + 1 :]))
    return source


def _surrounded(c: Context, source: Value, pairs: list[tuple[int, int]]) -> Value:
    """Put zeros before and behind the elements of each axis."""
    if not any(map(any, pairs)):
        return source
    return c.keep(Op.PAD, source, np.array(pairs))


def _filled_up(c: Context, source: Value, lows: list[int], highs: list[int], spaces: list[int]) -> Value:
    """Put zeros before, behind and between the elements of each axis. Sides below 0 are cut off instead."""
    if min(spaces) < 0:
        raise Unmapped(f"spaces of {spaces} can't be put between elements of {source.type}")
    sizes = [size + (size - 1) * space for size, space in zip(source.shape, spaces, strict=True)]
    kept = [range(max(0, -low), size + min(0, high)) for low, high, size in zip(lows, highs, sizes, strict=True)]
    if not all(kept):
        raise Unmapped(f"paddings of {lows} and {highs} leave nothing of {list(source.shape)}")
    pairs = [(max(0, low), max(0, high)) for low, high in zip(lows, highs, strict=True)]
    return _surrounded(c, sliced(c, _spread(c, source, spaces), kept), pairs)
