"""CONV_3D as a convolution of images: the depth of the window becomes channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnvk.api import NnapiError, OperationCode
from nnvk.importers.decompositions.moving import strided, transposed
from nnvk.importers.emitter import F32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.convolution import check_rank, padding
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.window import Axis, axis

Op = OperationCode


def _depth(options: Any, planes: int, taps: int) -> Axis:
    """The way of the window along the depth of an image of so many planes."""
    try:
        return axis("depth", planes, taps, options.StrideD(), padding(options), options.DilationDFactor())
    except NnapiError as error:
        raise Unmapped(error.reason) from error


@builtin("CONV_3D")
def conv_3d(c: Context) -> Value:
    """Map CONV_3D: the planes below the window are the channels of an image, one for each place along the depth."""
    options, source, weights = c.options("Conv3DOptions"), c.input(0), c.input(1)
    check_rank("the input", source, 5)
    check_rank("the filter", weights, 5)
    if source.code is not F32.code or weights.code is not F32.code:
        raise Unmapped(f"volumes must be of FLOAT32, got {source.type} and a filter of {weights.type}")
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
    bias = c.optional(2) or c.filled(0, F32, (units,))
    result = c.emit(Op.CONV_2D, images, laid, bias, *window, *dilated, out=F32)
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
