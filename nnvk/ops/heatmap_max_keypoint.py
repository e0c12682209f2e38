"""HEATMAP_MAX_KEYPOINT: the peak of each heatmap, placed between its elements, in its box of the image."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.boxes import BOX_TYPES, boxes_of, check_box_scale, check_ordered
from nnvk.ops.call import Call
from nnvk.ops.quant import dequantize, quantize
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import F16, Signature, boolean, tensor
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.ops.window import nhwc_shape, to_nhwc
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape

_FURTHEST = np.float32(1.5)
"""The most elements by which a peak is moved along an axis."""


def _validate(call: Call) -> None:
    check_box_scale(call.boxes, call.keypoints)


def _infer(call: Call) -> list[Shape]:
    boxes, height, width, keypoints = nhwc_shape(call.heatmap.shape, call.nchw)
    if height != width or height < 2:
        raise bad_data(f"heatmap must be square and at least 2 x 2, got shape {list(call.heatmap.shape)}")
    check_shape(call.boxes, (boxes, 4))
    return [(boxes, keypoints), (boxes, keypoints, 2)]


def _neighbourhood(maps: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The 3 x 3 elements around a place of each map [..., size, size], mirrored at the edges: [3, 3, ...]."""
    last = maps.shape[-1] - 1

    def mirrored(index: np.ndarray) -> np.ndarray:
        return np.where(index < 0, 1, np.where(index > last, last - 1, index))

    offsets = np.arange(-1, 2).reshape(3, *[1] * row.ndim)
    y, x = mirrored(row + offsets)[:, np.newaxis], mirrored(column + offsets)[np.newaxis]
    boxes, keypoints = np.indices(row.shape)
    grid: np.ndarray = maps[boxes, keypoints, y, x]
    return grid


def _refine(grid: np.ndarray, tolerance: np.float32) -> tuple[np.ndarray, np.ndarray]:
    """The offset [..., (x, y)] of the peak of the surface through [3, 3, ...] elements from the middle, and its height.

    The surface is the Taylor expansion to the second order. Where it has no single peak, the middle stays.
    """
    middle = grid[1, 1]
    slope = np.stack(((grid[1, 2] - grid[1, 0]) / 2, (grid[2, 1] - grid[0, 1]) / 2), axis=-1)
    xx = grid[1, 0] - 2 * middle + grid[1, 2]
    yy = grid[0, 1] - 2 * middle + grid[2, 1]
    xy = (grid[2, 2] - grid[2, 0] - grid[0, 2] + grid[0, 0]) / 4
    product = xx * yy
    determinant = product - xy * xy
    solvable = ~(np.abs(determinant) < tolerance + tolerance * product)
    divisor = np.where(solvable, determinant, 1)
    moved = np.stack(((xy * slope[..., 1] - yy * slope[..., 0]), (xy * slope[..., 0] - xx * slope[..., 1])), axis=-1)
    moved = np.where(solvable[..., np.newaxis], moved / divisor[..., np.newaxis], 0)
    furthest = np.abs(moved).max(axis=-1, keepdims=True)
    moved = moved * np.where(furthest > _FURTHEST, _FURTHEST / np.maximum(furthest, _FURTHEST), 1)
    x, y = moved[..., 0], moved[..., 1]
    height = middle + (slope * moved).sum(axis=-1) + (xx * x * x + 2 * xy * x * y + yy * y * y) / 2
    return moved, np.where(solvable, height, middle)


def _reference(call: Call) -> list[np.ndarray]:
    boxes = dequantize(call.boxes)
    check_ordered("boxes", boxes)
    maps = np.moveaxis(to_nhwc(dequantize(call.heatmap), call.nchw), 3, 1)
    count, keypoints, size, _ = maps.shape
    peak = maps.reshape(count, keypoints, size * size).argmax(axis=2)
    row, column = peak // size, peak % size
    moved, score = _refine(_neighbourhood(maps, row, column), np.float32(1e-3 if call.heatmap.code == F16 else 1e-5))
    place = (np.stack((column, row), axis=-1).astype(np.float32) + moved + np.float32(0.5)) / np.float32(size)
    corner, extent = boxes[:, np.newaxis, :2], boxes[:, np.newaxis, 2:] - boxes[:, np.newaxis, :2]
    return [quantize(score, call.scores), quantize(place * extent + corner, call.keypoints)]


define(
    OperationCode.HEATMAP_MAX_KEYPOINT,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types=BOX_TYPES,
    signatures=Signature(tensor("heatmap", rank=4), tensor("boxes", boxes_of, rank=2), boolean("nchw")),
    outputs=(tensor("scores"), tensor("keypoints", boxes_of)),
    infer=_infer,
    reference=_reference,
    validate=_validate,
)
