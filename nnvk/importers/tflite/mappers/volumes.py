"""CONV_3D and CONV_3D_TRANSPOSE as convolutions of images: the depth of the window becomes channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnvk.api import FuseCode, NnapiError, OperationCode
from nnvk.importers.decompositions.moving import sliced, strided, transposed
from nnvk.importers.emitter import F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.convolution import check_rank, padding
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.window import Axis, axis
from nnvk.types.operand import Shape

Op = OperationCode


def _depth(options: Any, planes: int, taps: int) -> Axis:
    """The way of the window along the depth of an image of so many planes."""
    try:
        return axis("depth", planes, taps, options.StrideD(), padding(options), options.DilationDFactor())
    except NnapiError as error:
        raise Unmapped(error.reason) from error


def _check_real(source: Value, weights: Value) -> None:
    check_rank("the input", source, 5)
    check_rank("the filter", weights, 5)
    if source.code is not F32.code or weights.code is not F32.code:
        raise Unmapped(f"volumes must be of FLOAT32, got {source.type} and a filter of {weights.type}")


def _bias(c: Context, position: int, channels: int) -> Value:
    value = c.optional(position)
    return c.filled(0, F32, (channels,)) if value is None else c.reshape(value, (channels,))


@builtin("CONV_3D")
def conv_3d(c: Context) -> Value:
    """Map CONV_3D: the planes below the window are the channels of an image, one for each place along the depth."""
    options, source, weights = c.options("Conv3DOptions"), c.input(0), c.input(1)
    _check_real(source, weights)
    taps, height, width, channels, units = weights.shape
    if source.shape[4] != channels:
        raise Unmapped(f"a filter of {channels} channels does not fit an input of shape {list(source.shape)}")
    count, planes = source.shape[:2]
    depth = _depth(options, planes, taps)
    images = _stacked(c, source, depth)
    laid = c.reshape(transposed(c, weights, (4, 1, 2, 0, 3)), (units, height, width, taps * channels))
    window = [padding(options), options.StrideW(), options.StrideH(), c.fuse(options)]
    dilation = [options.DilationWFactor(), options.DilationHFactor()]
    dilated = [] if dilation == [1, 1] else [False, *dilation]
    result = c.emit(Op.CONV_2D, images, laid, _bias(c, 2, units), *window, *dilated, out=F32)
    return c.reshape(result, (count, depth.out, *result.shape[1:]))


def _stacked(c: Context, source: Value, depth: Axis) -> Value:
    """Volumes [N, D, H, W, C] as images [N * places, H, W, taps * C]."""
    count, planes, height, width, channels = source.shape
    flat = _padded(c, c.reshape(source, (count, planes, height * width * channels)), (depth.before, depth.after))
    seen = []
    for tap in range(depth.window):
        first = tap * depth.dilation
        last = first + (depth.out - 1) * depth.stride
        taken = range(count), range(first, last + 1, depth.stride), range(flat.shape[2])
        seen.append(c.reshape(strided(c, flat, taken), (count * depth.out, height, width, channels)))
    return seen[0] if len(seen) == 1 else c.emit(Op.CONCATENATION, *seen, 3, out=F32)


def _padded(c: Context, flat: Value, missing: Sequence[int]) -> Value:
    """Zeros before and behind the planes of [N, D, ...]."""
    if not any(missing):
        return flat
    return c.keep(Op.PAD, flat, np.array([(0, 0), missing, *[(0, 0)] * (len(flat.shape) - 2)]))


@builtin("CONV_3D_TRANSPOSE")
def conv_3d_transpose(c: Context) -> Value:
    """Map CONV_3D_TRANSPOSE. The inputs are the output's shape, the filter, the input and perhaps a bias.

    A transposed convolution of images gives the planes of all taps as channels. Their sum, each tap's planes at its
    own place, is the output.
    """
    options, weights, source = c.options("Conv3DOptions"), c.input(1), c.input(2)
    _check_real(source, weights)
    taps, height, width, units, channels = weights.shape
    size = tuple(c.ints(0, "the output's shape"))
    count, planes = source.shape[:2]
    if len(size) != 5 or (size[0], size[4], source.shape[4]) != (count, units, channels):
        raise Unmapped(
            f"a filter of shape {list(weights.shape)} and an input of shape {list(source.shape)} do not give "
            f"an output of shape {list(size)}"
        )
    dilation = [options.DilationDFactor(), options.DilationHFactor(), options.DilationWFactor()]
    if dilation != [1, 1, 1]:
        raise Unmapped(f"NNAPI has no transposed convolution with dilation, got {dilation}")
    depth = _depth(options, size[1], taps)
    if depth.out != planes:
        raise Unmapped(f"{planes} planes do not give {size[1]} with a stride of {depth.stride} and {taps} taps")
    images = c.reshape(source, (count * planes, *source.shape[2:]))
    laid = c.reshape(transposed(c, weights, (0, 3, 1, 2, 4)), (taps * units, height, width, channels))
    spread = c.emit(
        *(Op.TRANSPOSE_CONV_2D, images, laid, c.filled(0, F32, (taps * units,))),
        np.array([count * planes, size[2], size[3], taps * units]),
        *(padding(options), options.StrideW(), options.StrideH(), FuseCode.NONE, False),
        out=F32,
    )
    total = _overlapped(c, spread, depth, size)
    result = c.emit(Op.ADD, total, _bias(c, 3, units), NONE, out=F32)
    return c.reshape(c.activated(result, options), size)


def _overlapped(c: Context, spread: Value, depth: Axis, size: Shape) -> Value:
    """The sum of the taps' planes [N * D, H, W, taps * C], as rows [N, out, H * W, C]."""
    count, out, units = size[0], size[1], size[4]
    area = size[2] * size[3]
    total = None
    for tap in range(depth.window):
        taken = [range(full) for full in spread.shape]
        taken[3] = range(tap * units, (tap + 1) * units)
        plane = c.reshape(sliced(c, spread, taken), (count, depth.out, area * units))
        moved = _placed(c, plane, depth, tap - depth.before)
        total = moved if total is None else c.emit(Op.ADD, total, moved, NONE, out=F32)
    assert total is not None
    return c.reshape(total, (count, out, area, units))


def _placed(c: Context, flat: Value, depth: Axis, first: int) -> Value:
    """Planes [N, D, n] at ``first``, ``first + stride`` and so on among those of the output; others are dropped."""
    count, planes, elements = flat.shape
    out = depth.size
    begin = max(0, math.ceil(-first / depth.stride))
    end = min(planes, -(-(out - first) // depth.stride))
    if begin >= end:
        return c.filled(0, F32, (count, out, elements))
    flat = sliced(c, flat, (range(count), range(begin, end), range(elements)))
    kept, position = end - begin, first + begin * depth.stride
    if depth.stride > 1:
        apart = c.reshape(flat, (count, kept, 1, elements))
        apart = c.keep(Op.PAD, apart, np.array([(0, 0), (0, 0), (0, depth.stride - 1), (0, 0)]))
        flat = c.reshape(apart, (count, kept * depth.stride, elements))
    length = min(flat.shape[1], out - position)
    flat = sliced(c, flat, (range(count), range(length), range(elements)))
    return _padded(c, flat, (position, out - position - length))
