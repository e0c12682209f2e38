"""The custom operator of Coral's PoseNet models: people in maps of keypoints, on the reference device.

Its kernel is google-coral/edgetpu's ``posenet_decoder.cc``. The way is that of PersonLab (arXiv:1803.08225): the
strongest keypoint that belongs to nobody yet is the root of a person, whose other keypoints follow along edges.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnvk.importers import charged, operator
from nnvk.importers.errors import Unmapped
from nnvk.importers.tflite.flex_options import FlexOptions

_KEYPOINTS = 17
_PARENTS = (0, 1, 0, 2, 0, 5, 7, 5, 11, 13, 0, 6, 8, 6, 12, 14)
_CHILDREN = (1, 3, 2, 4, 5, 7, 9, 11, 13, 15, 6, 8, 10, 12, 14, 16)
"""The edges from the nose (0) outwards: eyes (1, 2), ears, shoulders, elbows, wrists, hips, knees, ankles (15, 16)."""
_EDGES = len(_PARENTS)
_CHANNELS = (_KEYPOINTS, 2 * _KEYPOINTS, 4 * _EDGES)
_REFINEMENTS = 5
_MOST_DETECTIONS = 1024

_WAYS: list[list[tuple[int, int]]] = [[] for _ in range(_KEYPOINTS)]
"""From each keypoint: the keypoint at the other end of an edge, and the channel of the edge's offset along y.

The channels are those along y and x outwards, then along y and x inwards. The first edge inwards has the channel of
the first one along x outwards, as in Coral's kernel.
"""
for _edge, (_parent, _child) in enumerate(zip(_PARENTS, _CHILDREN, strict=True)):
    _WAYS[_parent].append((_child, _edge))
for _edge, (_parent, _child) in enumerate(zip(_PARENTS, _CHILDREN, strict=True)):
    _WAYS[_child].append((_parent, _edge + (2 * _EDGES if _edge else _EDGES)))

Maps = np.ndarray
"""Maps [height, width, channels]."""


@operator("PosenetDecoderOp", real=True)
def decode_poses(heatmaps: Maps, shorts: Maps, mids: Maps, *, custom_options: bytes = b"") -> tuple[np.ndarray, ...]:
    """Find people in maps of one image, each with a leading dimension 1.

    ``heatmaps`` are the logits of keypoints. ``shorts`` are offsets to a keypoint nearby, and ``mids`` along edges, in
    pixels; ``stride`` is the number of pixels from one element to the next. Returns coordinates y and x in pixels
    [1, most, 17, 2], scores [1, most, 17], the scores of people above a threshold [1, most], best first, and their
    number [1]. A keypoint within a radius, in pixels, of another person's belongs to that person.
    """
    options = FlexOptions(custom_options)
    stride, most = (int(options.positive(name)) for name in ("stride", "max_detections"))
    threshold, radius = options["score_threshold"], options["nms_radius"]
    shape = heatmaps.shape
    if [one.shape for one in (heatmaps, shorts, mids)] != [(1, *shape[1:3], channels) for channels in _CHANNELS]:
        shapes = ", ".join(str(list(one.shape)) for one in (heatmaps, shorts, mids))
        raise Unmapped(f"the maps must be of one image and have {_CHANNELS} channels, got shapes {shapes}")
    if most > _MOST_DETECTIONS:
        raise Unmapped(f"the option max_detections must be at most {_MOST_DETECTIONS}, got {most}")
    offsets = np.float32(1 / stride)
    found = _People(heatmaps[0], shorts[0] * offsets, mids[0] * offsets, (radius / stride) ** 2)
    poses: list[np.ndarray] = []
    keypoints: list[np.ndarray] = []
    for root in found.candidates(threshold):
        if len(poses) == most:
            break
        if any(found.is_near(root[1], pose[root[0]]) for pose in poses):
            continue
        pose, logits = found.followed(*root)
        likely = 1 / (1 + np.exp(-logits))
        if likely.mean() >= threshold:
            poses.append(pose)
            keypoints.append(likely)
    best = found.rescored(poses, keypoints)
    order = [index for index in np.argsort(-best, kind="stable") if best[index] >= threshold]
    places, scores, totals = (
        charged.zeros(shape, np.float32) for shape in ((most, _KEYPOINTS, 2), (most, _KEYPOINTS), most)
    )
    for place, index in enumerate(order):
        places[place], scores[place], totals[place] = poses[index] * stride, keypoints[index], best[index]
    return places[None], scores[None], totals[None], np.array([len(order)], np.float32)


class _People:
    """The maps of an image, in elements."""

    def __init__(self, heatmaps: Maps, shorts: Maps, mids: Maps, near: float) -> None:
        self._heatmaps, self._shorts, self._mids, self._near = heatmaps, shorts, mids, near
        self._last = np.array(heatmaps.shape[:2], np.float32) - 1

    def candidates(self, threshold: float) -> list[tuple[int, np.ndarray]]:
        """Keypoints that are the strongest of those around, with their places, the strongest first."""
        with np.errstate(divide="ignore", invalid="ignore"):
            least = -np.log(1 / np.float32(threshold + 1e-6) - 1)
        maps = self._heatmaps
        height, width, _ = maps.shape
        wide = charged.pad(maps, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
        around = np.max([wide[y : y + height, x : x + width] for y in range(3) for x in range(3)], axis=0)
        ys, xs, kinds = np.nonzero((maps >= least) & (maps == around))
        order = np.argsort(-maps[ys, xs, kinds], kind="stable")
        places = np.stack([ys, xs], axis=1) + np.stack(
            [self._shorts[ys, xs, kinds], self._shorts[ys, xs, kinds + _KEYPOINTS]], axis=1
        )
        places = np.clip(places, 0, self._last).astype(np.float32)
        return [(int(kinds[index]), places[index]) for index in order]

    def followed(self, root: int, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places and logits of all keypoints, from one of them, along the strongest edge first."""
        places = charged.zeros((_KEYPOINTS, 2), np.float32)
        logits = charged.zeros(_KEYPOINTS, np.float32)
        known: set[int] = set()
        count = 0
        queue: list[Any] = [(-self._at(self._heatmaps, place, [root])[0], count, root, place)]
        while queue:
            score, _, keypoint, place = heapq.heappop(queue)
            if keypoint in known:
                continue
            known.add(keypoint)
            places[keypoint], logits[keypoint] = place, -score
            for other, channel in _WAYS[keypoint]:
                if other in known:
                    continue
                there = self._moved(place, self._at(self._mids, place, [channel, channel + _EDGES]))
                for _ in range(_REFINEMENTS):
                    there = self._moved(there, self._at(self._shorts, there, [other, other + _KEYPOINTS]))
                count += 1
                heapq.heappush(queue, (-self._at(self._heatmaps, there, [other])[0], count, other, there))
        return places, logits

    def _moved(self, place: np.ndarray, offset: np.ndarray) -> np.ndarray:
        return np.clip(place + offset, 0, self._last)

    def _at(self, maps: Maps, place: np.ndarray, channels: list[int]) -> np.ndarray:
        """Channels between four elements."""
        low, high = np.floor(place).astype(int), np.ceil(place).astype(int)
        down, right = place - low
        top, bottom = (
            (1 - right) * maps[y, low[1], channels] + right * maps[y, high[1], channels] for y in (low[0], high[0])
        )
        result: np.ndarray = (1 - down) * top + down * bottom
        return result

    def is_near(self, one: np.ndarray, other: np.ndarray) -> bool:
        """Whether two places are so close that they are one person's."""
        return bool(((one - other) ** 2).sum() <= self._near)

    def rescored(self, poses: Sequence[np.ndarray], keypoints: Sequence[np.ndarray]) -> np.ndarray:
        """The mean score of people, without keypoints that a person with a better mean has too."""
        means = np.array([scores.mean() for scores in keypoints], np.float32)
        order = np.argsort(-means, kind="stable")
        best = charged.zeros(len(poses), np.float32)
        for place, index in enumerate(order):
            is_own = charged.ones(_KEYPOINTS, bool)
            for other in order[:place]:
                is_own &= ((poses[index] - poses[other]) ** 2).sum(axis=1) > self._near
            best[index] = np.where(is_own, keypoints[index], 0).sum() / _KEYPOINTS
        return best
