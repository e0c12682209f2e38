"""The files of the demo: two models, the names of the classes, and held-out pictures.

All of it is written by ``tools/train_demo.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

DATA = Path(__file__).resolve().parent / "data"
PICTURE_SIZE = 16
"""Pixels along each side of a picture: the networks' input."""

_PICTURE_NAME = re.compile(r"(?P<place>\d+)_label(?P<label>\d)\.png")


@dataclass(frozen=True, slots=True)
class Picture:
    """A held-out digit: its place in the data set, its true class, and grey pixels ``[16, 16]`` as uint8."""

    place: int
    label: int
    pixels: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A shipped ``.tflite`` file with its convention for pixels and probabilities."""

    title: str
    path: Path
    to_input: Callable[[NDArray[np.uint8]], np.ndarray]
    """Grey pixels as the model's input, of the same shape."""
    output_dtype: np.dtype
    to_probabilities: Callable[[np.ndarray], NDArray[np.float32]]
    """The model's output as probabilities in [0, 1]."""

    @property
    def input_shape(self) -> tuple[int, int, int, int]:
        """One NHWC picture."""
        return (1, PICTURE_SIZE, PICTURE_SIZE, 1)


MODELS = (
    DemoModel(
        title="float32",
        path=DATA / "digits_float.tflite",
        to_input=lambda pixels: pixels.astype(np.float32) / np.float32(255.0),
        output_dtype=np.dtype(np.float32),
        to_probabilities=lambda output: output,
    ),
    DemoModel(
        title="int8",
        path=DATA / "digits_int8.tflite",
        to_input=lambda pixels: (pixels.astype(np.int16) - 128).astype(np.int8),
        output_dtype=np.dtype(np.int8),
        to_probabilities=lambda output: (output.astype(np.float32) + np.float32(128.0)) / np.float32(256.0),
    ),
)


def labels() -> list[str]:
    """The name of each class, by number."""
    return (DATA / "labels.txt").read_text(encoding="utf-8").split()


def pictures() -> list[Picture]:
    """The shipped pictures, by class, then by place in the data set."""
    found = []
    for path in DATA.glob("*.png"):
        match = _PICTURE_NAME.fullmatch(path.name)
        if match is None:
            raise ValueError(f"{path}: expected a name like 0042_label7.png")
        with Image.open(path) as image:
            pixels = np.array(image)
        if pixels.shape != (PICTURE_SIZE, PICTURE_SIZE) or pixels.dtype != np.uint8:
            raise ValueError(
                f"{path}: expected {PICTURE_SIZE}x{PICTURE_SIZE} 8-bit grey, got {pixels.dtype}{list(pixels.shape)}"
            )
        found.append(Picture(int(match["place"]), int(match["label"]), pixels))
    return sorted(found, key=lambda picture: (picture.label, picture.place))
