"""ROI_ALIGN_V2: regions of a feature map as ONNX's RoiAlign has them.

NNAPI's ROI_ALIGN wants regions to lie on the map and takes means. Here regions may lie anywhere, corners may be moved
by half a pixel, and the result is the mean or the largest of what is sampled. ONNX, "RoiAlign-16"; He et al.,
"Mask R-CNN".
"""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.boxes import check_batch_indexes, check_rois
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.signature import EXTENSIONS_SINCE, F32, I32, Signature, boolean, i32, one_of, real, tensor
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

MOST_POINTS = 1 << 14
"""The most sampling points of an element of the output."""
TOO_MANY = f"an element of the output may have {MOST_POINTS} sampling points at most, region {{}} has more"

_Neighbours = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _infer(call: Call) -> list[Shape]:
    count = check_rois(call.rois, call.batch_split)
    if not all(call.input.shape[2:]):
        raise bad_data(f"input must have elements to sample, got shape {list(call.input.shape)}")
    for name in ("output_height", "output_width"):
        if getattr(call, name) < 1:
            raise bad_data(f"{name} must be more than 0, got {getattr(call, name)}")
    if not 0 <= call.sampling_ratio <= int(MOST_POINTS**0.5):
        raise bad_data(f"sampling_ratio must be in [0, {int(MOST_POINTS**0.5)}], got {call.sampling_ratio}")
    return [(count, call.input.shape[1], call.output_height, call.output_width)]


def _points(start: np.ndarray, extent: np.ndarray, bins: int, ratio: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of sampling points of a bin along an axis, by region, and their places [regions, bins, points]."""
    pitch = extent / np.float32(bins)
    counts = np.full(len(pitch), ratio) if ratio else np.where(pitch > 0, np.ceil(pitch), 0)
    counts = np.minimum(counts, MOST_POINTS + 1).astype(np.int64)
    number = np.arange(min(int(counts.max(initial=0)), MOST_POINTS), dtype=np.float32) + np.float32(0.5)
    inside = number * pitch[:, None] / np.maximum(counts, 1).astype(np.float32)[:, None]
    first = start[:, None] + np.arange(bins, dtype=np.float32) * pitch[:, None]
    return counts, first[:, :, None] + inside[:, None, :]


def _neighbours(points: np.ndarray, size: int) -> _Neighbours:
    """The elements on both sides of each point, the weight of the second one, and whether the point lies on the map."""
    inside = (points >= -1) & (points <= size)
    place = np.where(inside, np.clip(points, 0, size - 1), 0)
    below = np.floor(place).astype(np.int64)
    return below, np.minimum(below + 1, size - 1), place - below.astype(np.float32), inside


def _align(call: Call) -> np.ndarray:
    source, (height, width) = call.input.data, call.input.shape[2:]
    batch = check_batch_indexes(call.batch_split, call.input.shape[0])
    scaled = call.rois.data * np.float32(call.spatial_scale) - np.float32(0.5 if call.half_pixel else 0)
    start, extent = scaled[:, :2], scaled[:, 2:] - scaled[:, :2]
    if not call.half_pixel:
        extent = np.maximum(extent, np.float32(1))
    columns, x = _points(start[:, 0], extent[:, 0], call.output_width, call.sampling_ratio)
    rows, y = _points(start[:, 1], extent[:, 1], call.output_height, call.sampling_ratio)
    many = np.flatnonzero(rows * columns > MOST_POINTS)
    if many.size:
        raise bad_data(TOO_MANY.format(many[0]))
    result = np.full(call.output.shape, -np.inf if call.largest else 0, np.float32)
    batch = batch[:, None, None]
    for row in range(y.shape[2]):
        top, bottom, down, high = (part[:, :, None] for part in _neighbours(y[:, :, row], height))
        for column in range(x.shape[2]):
            left, right, along, wide = (part[:, None, :] for part in _neighbours(x[:, :, column], width))
            is_inside = (high & wide)[..., None]
            parts = [
                np.where(is_inside, source[batch, :, line, place] * (share * other)[..., None], np.float32(0))
                for line, share in ((top, 1 - down), (bottom, down))
                for place, other in ((left, 1 - along), (right, along))
            ]
            taken = (np.maximum if call.largest else np.add).reduce(parts).transpose(0, 3, 1, 2)
            counts = ((rows > row) & (columns > column))[:, None, None, None]
            both = np.maximum(result, taken) if call.largest else result + taken
            result = np.where(counts, both, result)
    number = (rows * columns)[:, None, None, None]
    if call.largest:
        return np.where(number > 0, result, np.float32(0))
    return result / np.maximum(number, 1).astype(np.float32)


define(
    ExtendedOperationCode.ROI_ALIGN_V2,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types={F32: EXTENSIONS_SINCE},
    signatures=Signature(
        tensor("input", rank=4),
        tensor("rois", one_of(F32), rank=2),
        tensor("batch_split", one_of(I32), rank=1),
        i32("output_height"),
        i32("output_width"),
        real("spatial_scale"),
        i32("sampling_ratio"),
        boolean("half_pixel"),
        boolean("largest"),
    ),
    infer=_infer,
    reference=_align,
)
