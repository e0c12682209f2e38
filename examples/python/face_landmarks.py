"""Draws 468 landmarks on a face: MediaPipe's detector finds it, and a second model looks at what was found.

    pip install nnvk mediapipe==0.10.21
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
from nnvk.importers import tflite

DETECTOR = "face_detection/face_detection_short_range.tflite"
LANDMARKS = "face_landmark/face_landmark.tflite"
STRIDES = ((8, 2), (16, 6))
"""Pixels between anchors, and how many there are in each place."""
MARGIN = 0.25
"""Of a face's size, on each of its sides."""


class Runner:
    """A model of one picture."""

    def __init__(self, path: Path) -> None:
        self.imported = tflite.load(path)
        self.size: int = self.imported.inputs[0].shape[1]
        self.compilation = nnvk.Compilation(self.imported.model)
        self.compilation.finish()

    def __call__(self, picture: Image.Image, low: float) -> list[np.ndarray]:
        """The outputs for a square picture, whose values go from ``low`` to 1."""
        pixels = np.asarray(picture.resize((self.size, self.size), Image.Resampling.BILINEAR), np.float32)
        array = pixels[None] / 255 * (1 - low) + low
        outputs, _ = self.imported.decode(nnvk.run(self.compilation, self.imported.encode([array])))
        return outputs


def main() -> None:
    """Find the face, find its landmarks, draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--out", type=Path, default=Path("landmarks.png"))
    parser.add_argument("--models", type=Path, help="default: those in the package mediapipe")
    arguments = parser.parse_args()
    folder = arguments.models or packaged()
    picture = ImageOps.exif_transpose(Image.open(arguments.picture)).convert("RGB")

    found = detect(Runner(folder / DETECTOR), picture)
    if found is None:
        raise SystemExit(f"no face in {arguments.picture}")
    score, (left, top, right, bottom) = found
    half = (0.5 + MARGIN) * max(right - left, bottom - top)
    x, y = (left + right) / 2, (top + bottom) / 2
    face = picture.crop((round(x - half), round(y - half), round(x + half), round(y + half)))
    runner = Runner(folder / LANDMARKS)
    points = runner(face, 0.0)[0].reshape(-1, 3)[:, :2] / runner.size * 2 * half + (x - half, y - half)

    draw = ImageDraw.Draw(picture)
    draw.rectangle((left, top, right, bottom), outline="yellow", width=2)
    size = max(1.0, half / 120)
    for px, py in points:
        draw.ellipse((px - size, py - size, px + size, py + size), "red")
    picture.save(arguments.out)
    print(f"a face ({score:.0%}) with {len(points)} landmarks, {runner.compilation.plan.summary}: {arguments.out}")


def detect(runner: Runner, picture: Image.Image) -> tuple[float, tuple[float, float, float, float]] | None:
    """The best face's score and its box in pixels; None where there is none."""
    side = max(picture.size)
    square = Image.new("RGB", (side, side))
    square.paste(picture)
    boxes, logits = (each.reshape(896, -1) for each in runner(square, -1.0))
    scores = 1 / (1 + np.exp(-np.clip(logits[:, 0], -80, 80)))
    best = int(scores.argmax())
    if scores[best] < 0.5:
        return None
    x, y = anchors(runner.size)[best] + boxes[best, :2] / runner.size
    width, height = boxes[best, 2:4] / runner.size
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
        raise SystemExit("pip install mediapipe==0.10.21, or give --models")
    return Path(found.submodule_search_locations[0]) / "modules"


if __name__ == "__main__":
    main()
