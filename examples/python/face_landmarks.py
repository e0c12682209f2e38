"""Draws 468 landmarks on a face: MediaPipe's detector finds it, and a second model looks at what was found.

    .venv/bin/pip install --no-deps mediapipe==0.10.21  # after scripts/install.sh; only its models are used
    python face_landmarks.py photo.jpg --out landmarks.png

The models come with the package mediapipe; ``--models`` takes another folder that has them.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageOps

import nnvk

DETECTOR = "face_detection/face_detection_short_range.tflite"
LANDMARKS = "face_landmark/face_landmark.tflite"
STRIDES = ((8, 2), (16, 6))
"""Pixels between anchors, and how many there are in each place."""
MARGIN = 0.25
"""Of a face's size, on each of its sides."""


FROM_MINUS_1, FROM_0 = (
    nnvk.ImageOptions(nnvk.Normalization((mean,), (std,))) for mean, std in ((127.5, 127.5), (0.0, 255.0))
)
"""Pixels from -1 to 1, as the detector takes them, and from 0 to 1."""


def main() -> None:
    """Find the face, find its landmarks, draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--out", type=Path, default=Path("landmarks.png"))
    parser.add_argument("--models", type=Path, help="default: those in the package mediapipe")
    arguments = parser.parse_args()
    folder = arguments.models or packaged()
    picture = ImageOps.exif_transpose(Image.open(arguments.picture)).convert("RGB")

    found = detect(nnvk.load(folder / DETECTOR, images=FROM_MINUS_1), picture)
    if found is None:
        raise SystemExit(f"no face in {arguments.picture}")
    score, (left, top, right, bottom) = found
    half = (0.5 + MARGIN) * max(right - left, bottom - top)
    x, y = (left + right) / 2, (top + bottom) / 2
    face = picture.crop((round(x - half), round(y - half), round(x + half), round(y + half)))
    model = nnvk.load(folder / LANDMARKS, images=FROM_0)
    points = model(face)[0].reshape(-1, 3)[:, :2] / model.inputs[0].shape[1] * 2 * half + (x - half, y - half)

    draw = ImageDraw.Draw(picture)
    draw.rectangle((left, top, right, bottom), outline="yellow", width=2)
    size = max(1.0, half / 120)
    for px, py in points:
        draw.ellipse((px - size, py - size, px + size, py + size), "red")
    picture.save(arguments.out)
    print(f"a face ({score:.0%}) with {len(points)} landmarks, {model.compilation.plan.summary}: {arguments.out}")


def detect(model: nnvk.LoadedModel, picture: Image.Image) -> tuple[float, tuple[float, float, float, float]] | None:
    """The best face's score and its box in pixels; None where there is none."""
    side = max(picture.size)
    square = Image.new("RGB", (side, side))
    square.paste(picture)
    boxes, logits = (each.reshape(896, -1) for each in model(square))
    scores = 1 / (1 + np.exp(-np.clip(logits[:, 0], -80, 80)))
    best = int(scores.argmax())
    if scores[best] < 0.5:
        return None
    size = model.inputs[0].shape[1]
    x, y = anchors(size)[best] + boxes[best, :2] / size
    width, height = boxes[best, 2:4] / size
    box = np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2]) * side
    return float(scores[best]), tuple(box.tolist())


def anchors(size: int) -> np.ndarray:
    """The centres that boxes are relative to, from 0 to 1."""
    centres = []
    for stride, count in STRIDES:
        places = (np.arange(size // stride) + 0.5) / (size // stride)
        centres += [(x, y) for y in places for x in places for _ in range(count)]
    return np.array(centres)


def packaged() -> Path:
    """The folder of models in the package mediapipe, which is not imported."""
    found = find_spec("mediapipe")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install --no-deps mediapipe==0.10.21, or give --models")
    return Path(found.submodule_search_locations[0]) / "modules"


if __name__ == "__main__":
    main()
