"""MediaPipe's custom operators: pools that keep places, and parts of images around landmarks.

Their kernels are in MediaPipe's ``mediapipe/util/tflite/operations``. Landmarks and matrices are of one image. Options
tell the versions of an operator apart, because TensorFlow Lite says version 1 of all that it has no kernels for.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.importers import charged
from nnvk.importers.bounds import INT32
from nnvk.importers.decompositions.arithmetic import chosen, each, with_number
from nnvk.importers.decompositions.moving import elements_at, sliced, strided, transposed
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.decompositions.sampling import SampledAxis, compared, sampled
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.flex_options import FlexOptions
from nnvk.importers.tflite.mappers.convolution import PADDING_PARAMS, check_rank
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.window import Axis, axis
from nnvk.types.codes import OperationCode, PaddingCode
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

Op = OperationCode

_POOL_PARAMS = "<6i"
"""TfLitePoolParams: padding, strides of width and height, sizes of width and height, activation."""
_ACTIVATIONS = {0: None, 1: Op.RELU, 2: Op.RELU1, 3: Op.RELU6}
"""The operations of the numbers of TfLiteFusedActivation."""
_MOST_TAPS = 1024
_MATRIX = (1, 4, 4)


# --- pools ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pool:
    """A pool's options; heights are before widths."""

    padding: PaddingCode
    strides: tuple[int, int]
    sizes: tuple[int, int]
    activation: Op | None

    @classmethod
    def of(cls, c: Context) -> _Pool:
        """The options of an operator."""
        options = c.operator.custom_options()
        if len(options) < struct.calcsize(_POOL_PARAMS):
            raise Unmapped(f"the options must have {struct.calcsize(_POOL_PARAMS)} bytes, got {len(options)}")
        kind, stride_w, stride_h, width, height, activation = struct.unpack_from(_POOL_PARAMS, options)
        if kind not in PADDING_PARAMS:
            raise Unmapped(f"unknown padding {kind}")
        if activation not in _ACTIVATIONS:
            raise Unmapped(f"unknown activation {activation}")
        if min(stride_w, stride_h, width, height) < 1 or width * height > _MOST_TAPS:
            raise Unmapped(
                f"windows of {height}x{width} with strides {stride_h}x{stride_w} must have 1 to {_MOST_TAPS} taps"
            )
        return cls(PADDING_PARAMS[kind], (stride_h, stride_w), (height, width), _ACTIVATIONS[activation])

    def axes(self, spatial: Shape) -> list[Axis]:
        """How the windows go along both axes of an image."""
        return [
            axis(name, size, window, stride, self.padding, 1)
            for name, size, window, stride in zip(("height", "width"), spatial, self.sizes, self.strides, strict=True)
        ]


@builtin("MaxPoolingWithArgmax2D")
def max_pool_with_places(c: Context) -> Sequence[Value]:
    """Map the pool whose second output has the place of each maximum in its window, counted row by row, plus 0.1.

    The first of equal elements counts, so the last axis goes first.
    """
    value = c.real(c.input(0))
    pool = _Pool.of(c)
    check_rank("the input", value, 4)
    places: Value | None = None
    for number, window in reversed(list(enumerate(pool.axes(value.shape[1:3]), 1))):
        pads = charged.zeros((4, 2), np.int32)
        pads[number] = window.before, window.after
        value = c.keep(Op.PAD_V2, value, pads, float(np.finfo(np.float32).min))
        if places is not None:
            places = c.keep(Op.PAD_V2, places, pads, 0.0)
        best: tuple[Value, Value] | None = None
        for tap in range(window.window):
            taken = [range(size) for size in value.shape]
            taken[number] = range(tap, tap + (window.out - 1) * window.stride + 1, window.stride)
            seen = strided(c, value, taken)
            if places is None:
                place = c.filled(float(tap), F32, seen.shape)
            else:
                place = with_number(c, Op.ADD, strided(c, places, taken), float(tap * pool.sizes[1]), NONE)
            if best is not None:
                is_larger = c.emit(Op.GREATER, seen, best[0], out=BOOL8)
                seen, place = chosen(c, is_larger, seen, best[0]), chosen(c, is_larger, place, best[1])
            best = seen, place
        assert best is not None
        value, places = best
    assert places is not None
    results = value if pool.activation is None else each(c, pool.activation, value)
    return [results, with_number(c, Op.ADD, places, 0.1, NONE)]


@builtin("MaxUnpooling2D")
def max_unpool(c: Context) -> Value:
    """Map the reverse: SCATTER_ND into zeros. A place beyond the output counts for nothing."""
    value, places = c.real(c.input(0)), c.real(c.input(1))
    pool = _Pool.of(c)
    check_rank("the input", value, 4)
    if places.shape != value.shape:
        raise Unmapped(f"places of shape {list(places.shape)} do not fit an input of shape {list(value.shape)}")
    count, *spatial, channels = value.shape
    sizes = [size * window for size, window in zip(spatial, pool.sizes, strict=True)]
    nowhere = count * math.prod(sizes) * channels
    if nowhere >= INT32[1]:
        raise Unmapped(f"an output of {nowhere} elements is too large for places of 32 bits")
    index = c.emit(Op.CAST, places, out=I32)
    down = with_number(c, Op.DIV, index, pool.sizes[1], NONE)
    right = c.emit(Op.SUB, index, with_number(c, Op.MUL, down, pool.sizes[1], NONE), NONE, out=I32)
    is_there: Value | None = None
    total: Value = c.constant(
        charged.outer(
            np.add, charged.arange(count).reshape(-1, 1, 1) * math.prod(sizes) * channels, charged.arange(channels)
        ),
        I32,
    )
    for number, tap in enumerate((down, right)):
        size, stride, window = sizes[number], pool.strides[number], pool.sizes[number]
        before = max(0, (spatial[number] - 1) * stride + window - size) // 2
        shape = [1] * 4
        shape[number + 1] = spatial[number]
        firsts = c.constant(charged.arange(spatial[number]).reshape(shape) * stride - before, I32)
        at = c.emit(Op.ADD, tap, firsts, NONE, out=I32)
        inside = c.emit(
            Op.LOGICAL_AND,
            c.emit(Op.GREATER_EQUAL, at, c.constant(0, I32), out=BOOL8),
            c.emit(Op.LESS, at, c.constant(size, I32), out=BOOL8),
            out=BOOL8,
        )
        is_there = inside if is_there is None else c.emit(Op.LOGICAL_AND, is_there, inside, out=BOOL8)
        elements = channels * math.prod(sizes[number + 1 :])
        total = c.emit(Op.ADD, with_number(c, Op.MUL, at, elements, NONE), total, NONE, out=I32)
    assert is_there is not None
    where = c.reshape(chosen(c, is_there, total, c.constant(nowhere, I32)), (value.size, 1))
    zeros = c.filled(0.0, F32, (nowhere + 1,))
    flat = c.emit(ExtendedOperationCode.SCATTER_ND, zeros, where, c.reshape(value, (value.size,)), 0, out=F32)
    return c.reshape(sliced(c, flat, [range(nowhere)]), (count, *sizes, channels))


# --- landmarks -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Crop:
    """How landmarks tell where a part of an image is. Pairs are x and y."""

    left: int
    right: int
    subset: list[int]
    """Two landmarks that shall be level, and those that the part has in it."""
    target: float
    """The angle that the line from left to right shall have, in radians."""
    scale: tuple[float, float]
    """A pixel of the part as a share of the box around the subset."""
    middle: tuple[float, float]
    """The pixel of the part at the middle of this box."""
    unit: tuple[float, float]
    """Pixels of the image for each unit of landmarks."""
    is_ratio: bool = False
    """Whether the angle is the arctangent of a ratio, so that left and right are whichever is left and right."""

    @classmethod
    def of(cls, c: Context) -> _Crop:
        """The options of an operator, in its version."""
        options = FlexOptions(c.operator.custom_options(), {"target_rotation_radians": 0.0})
        left, right = int(options["left_rotation_idx"]), int(options["right_rotation_idx"])
        if "subset" in options:
            (height, width), (out_height, out_width) = (_pair(options, name) for name in ("input_hw", "output_hw"))
            extent = options.positive("landmarks_range")
            share = 2 * options.positive("bbox_size_multiplier")
            unit = (width - 1) / extent, (height - 1) / extent
            if min(out_height, out_width) < 2:
                raise Unmapped(f"output_hw must be 2 at least, got {[out_height, out_width]}")
            last = out_width - 1, out_height - 1
            return cls(
                left,
                right,
                options.integers("subset"),
                0.0,
                (share / 2 / last[0], share / 2 / last[1]),
                (last[0] / 2, last[1] / 2),
                unit,
                is_ratio=True,
            )
        out = options.positive("output_width"), options.positive("output_height")
        return cls(
            left,
            right,
            options.integers("subset_idxs"),
            float(options["target_rotation_radians"]),
            (options.positive("scale_x") / out[0], options.positive("scale_y") / out[1]),
            (out[0] / 2, out[1] / 2),
            (1.0, 1.0),
        )


def _pair(options: FlexOptions, name: str) -> tuple[int, int]:
    numbers = options.integers(name)
    if len(numbers) != 2 or min(numbers) < 1:
        raise Unmapped(f"the option {name} must have two sizes, got {numbers}")
    return numbers[0], numbers[1]


def _check_version(c: Context) -> None:
    if c.operator.version not in (1, 2):
        raise Unmapped(f"version {c.operator.version} is unknown, 1 and 2 are known")


@builtin("Landmarks2TransformMatrix")
def landmarks_to_matrix(c: Context) -> Value:
    """The matrix that takes pixels of a part of an image, which is turned level, to pixels of the image.

    With R, which turns landmarks level, the box around them has the size s and the middle m: the matrix is
    [R^T diag(s scale), m - R^T diag(s scale) middle]. Sines and cosines follow from two landmarks without an angle.
    """
    _check_version(c)
    landmarks = c.real(c.input(0))
    crop = _Crop.of(c)
    shape, count = landmarks.shape, landmarks.size // 3
    if shape[-1] % 3 or (shape[0] if shape else 0) != 1:
        raise Unmapped(f"the landmarks must be of one image and have 3 coordinates each, got shape {list(shape)}")
    wanted = [crop.left, crop.right, *crop.subset]
    if not crop.subset or not all(0 <= index < count for index in wanted):
        raise Unmapped(f"indices of landmarks must be from 0 to {count - 1}, got {sorted(set(wanted))}")
    points = sliced(c, c.reshape(landmarks, (count, 3)), [range(count), range(2)])
    picked = elements_at(c, points, 0, np.array(wanted))
    turned = _level(c, crop, picked)
    rest = sliced(c, picked, [range(2, len(wanted)), range(2)])
    turned_points = c.emit(Op.BATCH_MATMUL, rest, turned, False, True, out=F32)
    high, low = (c.reshape(folded(c, code, turned_points, [0]), (1, 2)) for code in (Op.REDUCE_MAX, Op.REDUCE_MIN))
    scaled = c.emit(Op.SUB, high, low, NONE, out=F32)
    scaled = c.emit(Op.MUL, scaled, c.constant(np.array([crop.scale]), F32), NONE, out=F32)
    matrix = c.emit(Op.MUL, transposed(c, turned, (1, 0)), scaled, NONE, out=F32)
    middle = with_number(c, Op.MUL, c.emit(Op.ADD, high, low, NONE, out=F32), 0.5, NONE)
    middle = c.reshape(c.emit(Op.BATCH_MATMUL, middle, turned, False, False, out=F32), (2, 1))
    offset = c.constant(np.array(crop.middle).reshape(2, 1), F32)
    shift = c.emit(Op.SUB, middle, c.emit(Op.BATCH_MATMUL, matrix, offset, False, False, out=F32), NONE, out=F32)
    top = c.emit(Op.CONCATENATION, matrix, c.filled(0.0, F32, (2, 1)), shift, 1, out=F32)
    if crop.unit != (1.0, 1.0):
        top = c.emit(Op.MUL, top, c.constant(np.array(crop.unit).reshape(2, 1), F32), NONE, out=F32)
    bottom = c.constant(np.array([[0, 0, 1, 0], [0, 0, 0, 1]]), F32)
    return c.reshape(c.emit(Op.CONCATENATION, top, bottom, 0, out=F32), _MATRIX)


def _level(c: Context, crop: _Crop, picked: Value) -> Value:
    """The matrix [[cos, -sin], [sin, cos]] of the turn that brings the first two points to the target angle."""
    first, second = (sliced(c, picked, [range(row, row + 1), range(2)]) for row in range(2))
    along = c.emit(Op.SUB, second, first, NONE, out=F32)
    if crop.is_ratio:
        x = sliced(c, along, [range(1), range(1)])
        along = chosen(c, compared(c, Op.LESS, x, 0.0), each(c, Op.NEG, along), along)
    squares = folded(c, Op.REDUCE_SUM, c.emit(Op.MUL, along, along, NONE, out=F32), [1])
    length = c.reshape(each(c, Op.SQRT, squares), (1, 1))
    is_none = compared(c, Op.EQUAL, length, 0.0)
    divisor = chosen(c, is_none, c.constant(charged.ones((1, 1)), F32), length)
    unit = c.emit(Op.DIV, along, divisor, NONE, out=F32)
    unit = chosen(c, is_none, c.constant(np.array([[1.0, 0.0]]), F32), unit)
    cos, sin = math.cos(crop.target), math.sin(crop.target)
    weights = np.array([[cos, sin], [-sin, cos], [sin, -cos], [cos, sin]])
    no_bias = c.constant(charged.zeros(4), F32)
    return c.reshape(c.emit(Op.FULLY_CONNECTED, unit, c.constant(weights, F32), no_bias, NONE, out=F32), (2, 2))


@builtin("TransformLandmarks")
def transform_landmarks(c: Context) -> Value:
    """Map x and y of each landmark by a matrix; a third coordinate stays."""
    _check_version(c)
    landmarks, matrix = c.real(c.input(0)), c.real(c.input(1))
    shape, dimensions, scale = landmarks.shape, landmarks.shape[-1] if landmarks.shape else 0, 1.0
    if custom := c.operator.custom_options():
        options = FlexOptions(custom, {"scale": 1.0})
        dimensions, scale = int(options["dimensions"]), float(options["scale"])
    if dimensions not in (2, 3) or shape[-1] % dimensions or shape[0] != 1:
        raise Unmapped(
            f"the landmarks must be of one image and have 2 or 3 coordinates each, got {dimensions} of shape "
            f"{list(shape)}"
        )
    points = c.reshape(landmarks, (landmarks.size // dimensions, dimensions))
    rows = range(points.shape[0])
    placed = _transformed(c, sliced(c, points, [rows, range(2)]), matrix, scale)
    if dimensions == 3:
        depth = sliced(c, points, [rows, range(2, 3)])
        placed = c.emit(Op.CONCATENATION, placed, depth, 1, out=F32)
    return c.reshape(placed, shape)


def _transformed(c: Context, points: Value, matrix: Value, scale: float = 1.0) -> Value:
    """Points [N, 2] by the rows for x and y of a matrix; ``scale`` is that of the shift."""
    if matrix.shape != _MATRIX:
        raise Unmapped(f"the matrix (input 1) must have shape {list(_MATRIX)}, got {list(matrix.shape)}")
    rows = c.reshape(matrix, (4, 4))
    turn, shift = (sliced(c, rows, [range(2), columns]) for columns in (range(2), range(3, 4)))
    if scale != 1:
        shift = with_number(c, Op.MUL, shift, scale, NONE)
    turned = c.emit(Op.BATCH_MATMUL, points, turn, False, True, out=F32)
    return c.emit(Op.ADD, turned, c.reshape(shift, (1, 2)), NONE, out=F32)


@builtin("TransformTensor", "TransformTensorBilinear")
def transform_tensor(c: Context) -> Value:
    """Map a part of an image that a matrix takes from it, with linear interpolation; it is 0 beyond the image.

    Version 2 has its coordinates at the corners of pixels, version 1 at their middles.
    """
    _check_version(c)
    image, matrix = c.real(c.input(0)), c.real(c.input(1))
    check_rank("the input", image, 4)
    if image.shape[0] != 1:
        raise Unmapped(f"the input must be one image, got shape {list(image.shape)}")
    options = FlexOptions(c.operator.custom_options())
    if "output_size" in options:
        height, width = _pair(options, "output_size")
        margin = 0.0
    else:
        height, width = int(options.positive("output_height")), int(options.positive("output_width"))
        margin = 0.5
    y, x = charged.indices((height, width)).reshape(2, -1) + margin
    places = _transformed(c, c.constant(np.stack([x, y], axis=1), F32), matrix)
    places = with_number(c, Op.ADD, places, -margin, NONE) if margin else places
    columns = c.emit_many(Op.SPLIT, places, 1, 2, outs=[F32, F32])
    inside: Value | None = None
    for column, size in zip(columns, (image.shape[2], image.shape[1]), strict=True):
        is_low, is_high = (compared(c, Op.GREATER_EQUAL, column, 0), compared(c, Op.LESS_EQUAL, column, size - 1))
        both = c.emit(Op.LOGICAL_AND, is_low, is_high, out=BOOL8)
        inside = both if inside is None else c.emit(Op.LOGICAL_AND, inside, both, out=BOOL8)
    assert inside is not None
    axes = [SampledAxis(size, 0.0, size - 1.0, "zeros") for size in image.shape[1:3]]
    part = sampled(c, image, axes, [columns[1], columns[0]], "linear")
    part = chosen(c, inside, part, c.constant(0.0, F32))
    return c.reshape(part, (1, height, width, image.shape[3]))
