"""Cuts a person out of a picture: MediaPipe's selfie segmentation, drawn over the picture as an overlay.

    .venv/bin/pip install --no-deps mediapipe==0.10.21  # after scripts/install.sh; only its models are used
    python segmentation.py photo.jpg --out overlay.png

The model comes with the package mediapipe; ``--model`` takes another file of the same kind.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

import nnvk

COLOUR = (40, 200, 120)


def main() -> None:
    """Read the picture, compute the mask, and draw what is no person in another colour."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--out", type=Path, default=Path("overlay.png"))
    parser.add_argument("--model", type=Path, help="default: the one in the package mediapipe")
    arguments = parser.parse_args()
    pixels_by_255 = nnvk.ImageOptions(nnvk.Normalization())
    model = nnvk.load(arguments.model or packaged(), images=pixels_by_255)

    picture = ImageOps.exif_transpose(Image.open(arguments.picture)).convert("RGB")
    _, height, width, _ = model.inputs[0].shape
    person = np.clip(model(picture).reshape(height, width), 0, 1)

    mask = Image.fromarray((person * 255).astype(np.uint8)).resize(picture.size, Image.Resampling.BILINEAR)
    tinted = Image.blend(picture, Image.new("RGB", picture.size, COLOUR), 0.6)
    Image.composite(picture, tinted, mask).save(arguments.out)
    print(f"{model.compilation.plan.summary}; {person.mean():.0%} of the picture is a person: {arguments.out}")


def packaged() -> Path:
    """The model in the package mediapipe, which is not imported."""
    found = find_spec("mediapipe")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install --no-deps mediapipe==0.10.21, or give --model")
    return Path(found.submodule_search_locations[0]) / "modules/selfie_segmentation/selfie_segmentation.tflite"


if __name__ == "__main__":
    main()
