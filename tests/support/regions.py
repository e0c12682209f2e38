"""Operations on regions of images in the plainest way: loops over boxes and elements, in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

HARD, LINEAR, GAUSSIAN = range(3)
"""How BOX_WITH_NMS_LIMIT suppresses."""


def iou(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union of two boxes."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    return width * height / area if area else math.nan


# --- boxes -------------------------------------------------------------------------------------------------------


def transform(rois: np.ndarray, deltas: np.ndarray, split: Sequence[int], images: np.ndarray) -> np.ndarray:
    """AXIS_ALIGNED_BBOX_TRANSFORM."""
    results = np.zeros(deltas.shape)
    for row, (x1, y1, x2, y2) in enumerate(rois.astype(float)):
        height, width = images[split[row]]
        for first in range(0, deltas.shape[1], 4):
            dx, dy, dw, dh = deltas[row, first : first + 4].astype(float)
            x, y = (x1 + x2) / 2 + dx * (x2 - x1), (y1 + y2) / 2 + dy * (y2 - y1)
            w, h = math.exp(dw) * (x2 - x1) / 2, math.exp(dh) * (y2 - y1) / 2
            corners = zip((x - w, y - h, x + w, y + h), (width, height, width, height), strict=True)
            results[row, first : first + 4] = [min(max(corner, 0), limit) for corner, limit in corners]
    return results


def limit(
    scores: np.ndarray,
    rois: np.ndarray,
    split: np.ndarray,
    *,
    threshold: float,
    most: int,
    kernel: int,
    overlap: float,
    sigma: float,
    least: float,
) -> list[tuple[float, list[float], int, int]]:
    """BOX_WITH_NMS_LIMIT: (score, box, class, batch) of each detection."""
    decays: dict[int, Callable[[float], float]] = {
        HARD: lambda value: float(value < overlap),
        LINEAR: lambda value: 1 if value < overlap else 1 - value,
        GAUSSIAN: lambda value: math.exp(-value * value / sigma),
    }
    boxes = rois.reshape(*scores.shape, 4).astype(float)
    detections = []
    for batch in dict.fromkeys(split.tolist()):
        found = []
        for class_ in range(1, scores.shape[1]):
            waiting = {
                row: float(scores[row, class_])
                for row in range(len(split))
                if split[row] == batch and scores[row, class_] > np.float32(threshold)
            }
            count = 0
            while waiting and count != most:
                best = max(waiting, key=lambda row: waiting[row])
                found.append((waiting.pop(best), boxes[best, class_].tolist(), class_, batch))
                count += 1
                for row in list(waiting):
                    waiting[row] *= decays[kernel](iou(found[-1][1], boxes[row, class_]))
                    if waiting[row] < least:
                        del waiting[row]
        best_of_all = sorted(found, key=lambda item: -item[0])[: most if most >= 0 else None]
        detections += sorted(best_of_all, key=lambda item: item[2])
    return detections


def propose(
    scores: np.ndarray,
    deltas: np.ndarray,
    anchors: np.ndarray,
    images: np.ndarray,
    *,
    strides: tuple[float, float],
    before: int,
    after: int,
    overlap: float,
    least: float,
) -> list[tuple[float, list[float], int]]:
    """GENERATE_PROPOSALS in NHWC, ``strides`` down and across: (score, box, batch) of each proposal."""
    found = []
    for batch in range(len(scores)):
        image = images[batch : batch + 1].astype(float)
        candidates = []
        for position in np.ndindex(scores.shape[1:]):
            y, x, anchor = position
            box = anchors[anchor] + np.array([x * strides[1], y * strides[0]] * 2)
            delta = deltas[batch, y, x, anchor * 4 : anchor * 4 + 4]
            box = transform(box[None], delta[None], [0], image)[0]
            candidates.append((scores[(batch, *position)], box.tolist()))
        candidates.sort(key=lambda item: -item[0])
        if before > 0:
            candidates = candidates[:before]
        waiting = [
            (score, box)
            for score, box in candidates
            if min(box[2] - box[0], box[3] - box[1]) > least
            and (box[0] + box[2]) / 2 < image[0, 1]
            and (box[1] + box[3]) / 2 < image[0, 0]
        ]
        count = 0
        while waiting and (after <= 0 or count < after):
            score, box = waiting.pop(0)
            found.append((score, box, batch))
            count += 1
            waiting = [item for item in waiting if not iou(box, item[1]) >= overlap]
    return found


def detect(
    scores: np.ndarray,
    deltas: np.ndarray,
    anchors: np.ndarray,
    *,
    scales: tuple[float, float, float, float],
    regular: bool,
    most: int,
    classes: int,
    per_class: int,
    threshold: float,
    overlap: float,
) -> list[tuple[float, list[float], int]]:
    """DETECTION_POSTPROCESSING of one image, ``scales`` of y, x, height and width: (score, box, class) of each."""
    boxes = []
    for (cy, cx, h, w), (dy, dx, dh, dw) in zip(anchors.astype(float), deltas[:, :4].astype(float), strict=True):
        y, x = cy + dy / scales[0] * h, cx + dx / scales[1] * w
        half_h, half_w = h * math.exp(dh / scales[2]) / 2, w * math.exp(dw / scales[3]) / 2
        boxes.append([y - half_h, x - half_w, y + half_h, x + half_w])

    def suppress(score: np.ndarray, count: int) -> list[int]:
        waiting = sorted((a for a in range(len(boxes)) if score[a] > threshold), key=lambda a: -score[a])
        picked: list[int] = []
        while waiting and len(picked) < count:
            picked.append(waiting.pop(0))
            waiting = [a for a in waiting if not iou(boxes[picked[-1]], boxes[a]) >= overlap]
        return picked

    number = scores.shape[1]
    if regular:
        found = [(scores[a, c], boxes[a], c) for c in range(1, number) for a in suppress(scores[:, c], per_class)]
        return sorted(found, key=lambda item: -item[0])[:most]
    picked = suppress(scores[:, 1:].max(axis=1), most)
    order = {a: sorted(range(1, number), key=lambda c: -scores[a, c])[:classes] for a in picked}
    return [(scores[a, c], boxes[a], c) for a in picked for c in order[a]]


# --- feature maps ------------------------------------------------------------------------------------------------


def _points(start: float, end: float, bins: int, ratio: int, position: int) -> list[float]:
    """Sampling points of one bin."""
    pitch = max(end - start, 1.0) / bins
    ratio = ratio or math.ceil(pitch)
    return [start + pitch * position + pitch / ratio * (0.5 + number) for number in range(ratio)]


def _neighbours(point: float, size: int) -> list[tuple[int, float]]:
    """(element, weight) on both sides of a point."""
    below = int(point)
    if below >= size - 1:
        return [(size - 1, 1.0), (size - 1, 0.0)]
    return [(below, 1 - (point - below)), (below + 1, point - below)]


def align(
    source: np.ndarray,
    boxes: np.ndarray,
    split: Sequence[int],
    size: tuple[int, int],
    strides: tuple[float, float],
    ratios: tuple[int, int],
    weigh: Callable[[float], float] = lambda weight: weight,
) -> tuple[np.ndarray, np.ndarray]:
    """ROI_ALIGN in NHWC: sums over the sampling points of each output element, and the number of points.

    ``size``, ``strides`` and ``ratios`` are down and across.
    """
    _, rows, columns, channels = source.shape
    sums, counts = np.zeros((len(boxes), *size, channels)), np.ones((len(boxes), 1, 1, 1))
    for region, (x1, y1, x2, y2) in enumerate(boxes.astype(float)):
        for row, column in np.ndindex(*size):
            ys = _points(y1 / strides[0], y2 / strides[0], size[0], ratios[0], row)
            xs = _points(x1 / strides[1], x2 / strides[1], size[1], ratios[1], column)
            counts[region] = len(ys) * len(xs)
            for y in ys:
                for x in xs:
                    for i, upright in _neighbours(y, rows):
                        for j, level in _neighbours(x, columns):
                            sums[region, row, column] += weigh(upright * level) * source[split[region], i, j]
    return sums, counts


def pool(
    source: np.ndarray,
    boxes: np.ndarray,
    split: Sequence[int],
    size: tuple[int, int],
    strides: tuple[float, float],
    empty: float = 0,
) -> np.ndarray:
    """ROI_POOLING in NHWC; ``size`` and ``strides`` are down and across."""
    result = np.zeros((len(boxes), *size, source.shape[3]), source.dtype)
    for region, (x1, y1, x2, y2) in enumerate(boxes.astype(float)):
        edges = (x1 / strides[1], x2 / strides[1], y1 / strides[0], y2 / strides[0])
        left, right, top, bottom = (math.floor(edge + 0.5) for edge in edges)
        y_pitch, x_pitch = (bottom - top + 1) / size[0], (right - left + 1) / size[1]
        for row, column in np.ndindex(*size):
            first, past = math.floor(y_pitch * row + top), math.ceil(y_pitch * (row + 1) + top)
            begin, stop = math.floor(x_pitch * column + left), math.ceil(x_pitch * (column + 1) + left)
            window = source[split[region], first:past, begin:stop]
            result[region, row, column] = window.max(axis=(0, 1)) if window.size else empty
    return result


def keypoints(maps: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """HEATMAP_MAX_KEYPOINT in NHWC: scores and places, by a Taylor expansion around the largest element."""
    count, size, _, kinds = maps.shape
    scores, places = np.zeros((count, kinds)), np.zeros((count, kinds, 2))
    for box, kind in np.ndindex(count, kinds):
        grid = np.pad(maps[box, :, :, kind].astype(float), 1, mode="reflect")
        row, column = np.unravel_index(maps[box, :, :, kind].argmax(), (size, size))
        near = grid[row : row + 3, column : column + 3]
        gradient = np.array([near[1, 2] - near[1, 0], near[2, 1] - near[0, 1]]) / 2
        mixed = (near[2, 2] - near[2, 0] - near[0, 2] + near[0, 0]) / 4
        across, down = near[1, 0] - 2 * near[1, 1] + near[1, 2], near[0, 1] - 2 * near[1, 1] + near[2, 1]
        hessian = np.array([[across, mixed], [mixed, down]])
        moved, score = np.zeros(2), near[1, 1]
        if abs(np.linalg.det(hessian)) >= 1e-5 + 1e-5 * across * down:
            moved = np.linalg.solve(hessian, -gradient)
            moved *= min(1, 1.5 / np.abs(moved).max()) if moved.any() else 1
            score = near[1, 1] + gradient @ moved + moved @ hessian @ moved / 2
        corner, far = boxes[box, :2], boxes[box, 2:]
        scores[box, kind] = score
        places[box, kind] = corner + (np.array([column, row]) + 0.5 + moved) / size * (far - corner)
    return scores, places
