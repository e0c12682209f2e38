"""The photo server turns pictures into rows for its models, and their results into boxes and texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

CELL = 4
"""Regions of text are found in cells of so many pixels."""
MOST_BOXES = 64
"""The most boxes of a picture, which bound the time of a request."""
OVERLAP = 0.4
"""The share of the area of two boxes from which on they show the same."""
Box = tuple[float, float, float, float, float]
"""A score, and the left, upper, right and lower edge in pixels of the picture."""


def pixels(image: Image.Image, mean: float | Sequence[float], std: float | Sequence[float]) -> np.ndarray:
    """A picture as a row of a batch: its channels, normalised."""
    array = (np.asarray(image, np.float32) - np.float32(mean)) / np.float32(std)
    return np.ascontiguousarray(array.transpose(2, 0, 1)[None])


def on_canvas(image: Image.Image, width: int, height: int, most: float = np.inf) -> tuple[Image.Image, float]:
    """A picture in the upper left corner of a canvas, as large as it fits with at most so many pixels a side.

    The second value is what its sides were multiplied by.
    """
    scale = min(width / image.width, height / image.height, most / max(image.size))
    canvas = Image.new("RGB", (width, height))
    canvas.paste(image.resize([max(1, round(side * scale)) for side in image.size], Image.Resampling.BILINEAR))
    return canvas, scale


def best_boxes(found: np.ndarray, scale: float, size: tuple[int, int], least_score: float) -> list[Box]:
    """The boxes with a high score that don't overlap a better one, the best first.

    ``found`` has rows of a score and four edges, ``scale`` is how many pixels their unit is, ``size`` is the picture's.
    """
    kept: list[Box] = []
    good = found[found[:, 0] >= least_score]
    for row in good[np.argsort(-good[:, 0], kind="stable")][: 16 * MOST_BOXES]:
        box = _within(row, scale, size)
        if box is not None and len(kept) < MOST_BOXES and all(_overlap(box, other) < OVERLAP for other in kept):
            kept.append(box)
    return kept


def text_boxes(likely: np.ndarray, scale: float, size: tuple[int, int], least_score: float) -> list[Box]:
    """The boxes around regions of a map in which text is likely, in reading order. `best_boxes` has the arguments."""
    height, width = (side // CELL for side in likely.shape)
    cells = likely[: height * CELL, : width * CELL].reshape(height, CELL, width, CELL).max((1, 3))
    boxes = []
    for left, top, right, bottom in _regions(cells > least_score):
        space = (bottom - top) // 2  # models mark the middle of a line
        edges = left - space, top - space, right + space, bottom + space
        boxes.append(_within(np.array([cells[top:bottom, left:right].mean(), *edges]), CELL * scale, size))
    kept = sorted(filter(None, boxes), key=lambda box: (box[1] - box[3]) * (box[4] - box[2]))[:MOST_BOXES]
    return sorted(kept, key=lambda box: (box[2], box[1]))


def letters(likely: np.ndarray, alphabet: str) -> tuple[str, float]:
    """The text that the columns of a line say, and its score. Letter 0 is none; equal neighbours are one letter."""
    best = likely.argmax(1)
    starts = (best > 0) & (best != np.concatenate([[0], best[:-1]]))
    score = float(likely.max(1)[starts].mean()) if starts.any() else 0.0
    return "".join(alphabet[place - 1] for place in best[starts]), score


def _within(row: np.ndarray, scale: float, size: tuple[int, int]) -> Box | None:
    """A box in pixels, as far as it is in the picture; None if that is less than a pixel."""
    left, top, right, bottom = np.clip(row[1:] * scale, 0, size * 2).tolist()
    return (float(row[0]), left, top, right, bottom) if min(right - left, bottom - top) >= 1 else None


def _overlap(one: Box, other: Box) -> float:
    """The area that two boxes share, as a share of what they have together."""
    width, height = (min(one[edge + 2], other[edge + 2]) - max(one[edge], other[edge]) for edge in (1, 2))
    shared = max(width, 0) * max(height, 0)
    areas = [(box[3] - box[1]) * (box[4] - box[2]) for box in (one, other)]
    return shared / (sum(areas) - shared)


def _regions(mask: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
    """The left, upper, right and lower edge of each region of neighbours in a mask."""
    rest = dict.fromkeys(zip(*(place.tolist() for place in np.nonzero(mask)), strict=True))
    while rest:
        region = [rest.popitem()[0]]
        for y, x in region:  # which grows
            for place in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if place in rest:
                    del rest[place]
                    region.append(place)
        ys, xs = zip(*region, strict=True)
        yield min(xs), min(ys), max(xs) + 1, max(ys) + 1
