"""ROI_ALIGN and ROI_POOLING: regions of a feature map, each scaled to one output size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.boxes import (
    BOX_TYPES,
    boxes_of,
    check_batch_indexes,
    check_box_scale,
    check_ordered,
    check_rois,
)
from nnvk.ops.call import Call
from nnvk.ops.quant import (
    dequantize,
    is_quantised,
    multiply_by_quantized_multiplier,
    quantize_multipliers,
    round_half_away,
    saturate,
)
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_same_quantisation
from nnvk.ops.signature import I32, Param, Signature, boolean, i32, one_of, real, tensor
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.ops.window import from_nhwc, layout_shape, nhwc_shape, to_nhwc
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_MOST_POINTS = 1 << 14
"""Sampling points of a bin that can be asked for: nobody needs as many, and they take their time one by one."""
WEIGHT_SCALE = np.float32(1) / np.float32(255)
"""Scale of the interpolation weights between quantised elements."""


def _params(*options: Param) -> Signature:
    return Signature(
        tensor("input", rank=4),
        tensor("rois", boxes_of, rank=2),
        tensor("batch_split", one_of(I32), rank=1),
        i32("output_height"),
        i32("output_width"),
        real("height_stride"),
        real("width_stride"),
        *options,
        boolean("nchw"),
    )


def _infer(call: Call) -> list[Shape]:
    count = check_rois(call.rois, call.batch_split)
    for name in ("output_height", "output_width", "height_stride", "width_stride"):
        if not getattr(call, name) > 0:
            raise bad_data(f"{name} must be more than 0, got {getattr(call, name):g}")
    channels = nhwc_shape(call.input.shape, call.nchw)[3]
    return [layout_shape((count, call.output_height, call.output_width, channels), call.nchw)]


def _regions(call: Call) -> tuple[np.ndarray, np.ndarray]:
    """Batch of each region, and its [start, end] in elements of the feature map: [regions, 2, (x, y)].

    BAD_DATA for a batch that does not exist and for regions that are turned over or outside of the map.
    """
    batches, height, width, _ = nhwc_shape(call.input.shape, call.nchw)
    rois = dequantize(call.rois)
    indexes = check_batch_indexes(call.batch_split, batches)
    check_ordered("rois", rois)
    one = np.float32(1)
    scale = np.array([one / np.float32(call.width_stride), one / np.float32(call.height_stride)], np.float32)
    scaled = rois.reshape(-1, 2, 2) * scale
    largest = (width or -1, height or -1)  # nothing lies on an empty map
    outside = np.flatnonzero(~((scaled >= 0) & (scaled <= largest)).all(axis=(1, 2)))  # NaN is outside, too
    if outside.size:
        first = int(outside[0])
        raise bad_data(
            f"rois must lie on the feature map, {width} x {height} elements, "
            f"got {rois[first].tolist()} (in pixels of the image) in region {first}"
        )
    return indexes, scaled


# --- ROI_ALIGN -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Samples:
    """Points along one axis at which each region is sampled, a fixed number in each output element's bin."""

    ratio: np.ndarray
    """Points in a bin, of each region."""
    first: np.ndarray
    """Where the first point of each bin is: [regions, bins], in elements of the feature map."""
    distance: np.ndarray
    """From point to point, of each region."""
    size: int
    """Elements of the feature map along the axis."""

    @classmethod
    def place(cls, start: np.ndarray, end: np.ndarray, bins: int, ratio: int, size: int) -> _Samples:
        """Spread ``ratio`` points (0: one for each element that a bin covers) evenly over each bin."""
        pitch = np.maximum(end - start, np.float32(1)) / np.float32(bins)
        ratios = np.full(len(pitch), ratio) if ratio > 0 else np.ceil(pitch).astype(np.int64)
        distance = pitch / ratios.astype(np.float32)
        first = pitch[:, np.newaxis] * np.arange(bins, dtype=np.float32) + start[:, np.newaxis]
        return cls(ratios, first + (distance / 2)[:, np.newaxis], distance, size)

    def neighbours(self, regions: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The elements on both sides of a bin's point of this number, and the second's share: [regions, bins] each."""
        point = self.first[regions] + (self.distance[regions] * np.float32(number))[:, np.newaxis]
        below = np.floor(point).astype(np.int64)
        last = below >= self.size - 1
        below = np.where(last, self.size - 1, below)
        return below, np.where(last, below, below + 1), np.where(last, np.float32(0), point - below.astype(np.float32))


def _infer_align(call: Call) -> list[Shape]:
    for name in ("height_sampling_ratio", "width_sampling_ratio"):
        if getattr(call, name) < 0:
            raise bad_data(f"{name} must be 0 (adaptive) or more, got {getattr(call, name)}")
    height, width = call.height_sampling_ratio, call.width_sampling_ratio
    if max(height, 1) * max(width, 1) > _MOST_POINTS:
        raise bad_data(
            f"height_sampling_ratio and width_sampling_ratio must give {_MOST_POINTS} points at most for each element "
            f"of the output, got {height} * {width}"
        )
    return _infer(call)


def _align(call: Call) -> np.ndarray:
    batches, scaled = _regions(call)
    quantised = is_quantised(call.input.code)
    source = to_nhwc(call.input.data, call.nchw)
    source = source.astype(np.int64) - call.input.zero_point if quantised else source.astype(np.float32)
    _, height, width, channels = source.shape
    (left, top), (right, bottom) = scaled[:, 0].T, scaled[:, 1].T
    y = _Samples.place(top, bottom, call.output_height, call.height_sampling_ratio, height)
    x = _Samples.place(left, right, call.output_width, call.width_sampling_ratio, width)
    shape = (len(batches), call.output_height, call.output_width, channels)
    sums = np.zeros(shape, source.dtype)
    for row in range(int(y.ratio.max(initial=0))):
        for column in range(int(x.ratio.max(initial=0))):
            # Regions that have this many points; with a given sampling ratio all have.
            regions = np.flatnonzero((y.ratio > row) & (x.ratio > column))
            rows, columns = y.neighbours(regions, row), x.neighbours(regions, column)
            sums[regions] += _interpolate(source, batches[regions], rows, columns)
    points = (y.ratio * x.ratio).astype(np.float32).reshape(-1, 1, 1, 1)
    if not quantised:
        return from_nhwc((sums / points).astype(call.output.dtype), call.nchw)
    multipliers = np.float32(call.input.scale) * WEIGHT_SCALE / np.float32(call.output.scale) / points
    mantissas, shifts = (part.reshape(points.shape) for part in _quantize(multipliers.reshape(-1)))
    levels = multiply_by_quantized_multiplier(sums, mantissas, shifts) + call.output.zero_point
    return from_nhwc(saturate(levels, call.output), call.nchw)


def _quantize(multipliers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mantissas and shifts; few multipliers differ, as they follow from the number of sampling points."""
    if not multipliers.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    distinct, places = np.unique(multipliers, return_inverse=True)
    mantissas, shifts = quantize_multipliers(distinct)
    return mantissas[places], shifts[places]


_Neighbours = tuple[np.ndarray, np.ndarray, np.ndarray]


def _interpolate(source: np.ndarray, batches: np.ndarray, rows: _Neighbours, columns: _Neighbours) -> np.ndarray:
    """Bilinear interpolation at one point of each bin: [regions, bins, bins, channels].

    Between integers, the weights are rounded to multiples of 1/255, and the result is in units of 1/255.
    """
    top, bottom, down = (part[:, :, np.newaxis] for part in rows)
    left, right, across = (part[:, np.newaxis, :] for part in columns)
    batch = batches[:, np.newaxis, np.newaxis]
    up, back = np.float32(1) - down, np.float32(1) - across
    total: np.ndarray = np.zeros((*np.broadcast_shapes(up.shape, back.shape), source.shape[3]), source.dtype)
    for y, upright in ((top, up), (bottom, down)):
        for x, level in ((left, back), (right, across)):
            weight = upright * level
            if source.dtype == np.int64:
                weight = round_half_away((weight / WEIGHT_SCALE).astype(np.float64)).astype(np.int64)
            total += source[batch, y, x] * weight[..., np.newaxis]
    return total


define(
    OperationCode.ROI_ALIGN,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types=BOX_TYPES,
    signatures=_params(i32("height_sampling_ratio"), i32("width_sampling_ratio")),
    infer=_infer_align,
    reference=_align,
    validate=lambda call: check_box_scale(call.rois),
)


# --- ROI_POOLING ---------------------------------------------------------------------------------------------


def _validate_pooling(call: Call) -> None:
    check_box_scale(call.rois)
    check_same_quantisation(call.input, call.output)


def _bins(start: np.ndarray, end: np.ndarray, bins: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """First and past-the-last element of each bin along an axis: [regions, bins] each."""
    start, end = round_half_away(start.astype(np.float64)), round_half_away(end.astype(np.float64))
    pitch = np.maximum(end - start + 1, 1).astype(np.float32) / np.float32(bins)
    number = np.arange(bins, dtype=np.float32)
    edges = [pitch[:, np.newaxis] * edge + start[:, np.newaxis].astype(np.float32) for edge in (number, number + 1)]
    first, past = np.floor(edges[0]).astype(np.int64), np.ceil(edges[1]).astype(np.int64)
    return np.minimum(first, size), np.minimum(past, size)


def _pool(call: Call) -> np.ndarray:
    batches, scaled = _regions(call)
    source = to_nhwc(call.input.data, call.nchw)
    _, height, width, channels = source.shape
    (left, top), (right, bottom) = scaled[:, 0].T, scaled[:, 1].T
    first_row, past_row = (part[:, :, np.newaxis] for part in _bins(top, bottom, call.output_height, height))
    first_column, past_column = (part[:, np.newaxis, :] for part in _bins(left, right, call.output_width, width))
    batch = batches[:, np.newaxis, np.newaxis]
    shape = (len(batches), call.output_height, call.output_width, channels)
    lowest = np.iinfo(source.dtype).min if is_quantised(call.input.code) else -np.inf
    largest = np.full(shape, lowest, source.dtype)
    for row in range(int((past_row - first_row).max(initial=0))):
        for column in range(int((past_column - first_column).max(initial=0))):
            # The element at this place of each bin, where the bin is that large.
            y, x = first_row + row, first_column + column
            inside = ((y < past_row) & (x < past_column))[..., np.newaxis]
            elements = source[batch, np.minimum(y, height - 1), np.minimum(x, width - 1)]
            np.maximum(largest, elements, out=largest, where=inside)
    empty = (first_row >= past_row) | (first_column >= past_column)
    largest[empty] = call.input.zero_point
    return from_nhwc(largest, call.nchw)


define(
    OperationCode.ROI_POOLING,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types=BOX_TYPES,
    signatures=_params(),
    infer=_infer,
    reference=_pool,
    validate=_validate_pooling,
)
