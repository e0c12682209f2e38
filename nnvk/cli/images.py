"""Images as model inputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_PIXEL_OFFSETS = {OperandCode.TENSOR_QUANT8_ASYMM: 0, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: 128}
_FLOATS = (OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16)


@dataclass(frozen=True, slots=True)
class Normalization:
    """How a pixel of 0 to 255 becomes a real number: ``(pixel - mean) / std``, one or one per channel."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (255.0,)

    @classmethod
    def parse(cls, mean: str | None, std: str | None) -> Normalization | None:
        """From comma-separated numbers; None where neither is given. Raises ValueError."""
        if mean is None and std is None:
            return None
        default = cls()
        result = cls(
            default.mean if mean is None else _numbers("mean", mean),
            default.std if std is None else _numbers("std", std),
        )
        if 0.0 in result.std:
            raise ValueError("std must not be 0")
        return result


def load_image(path: Path, type: OperandType, normalization: Normalization | None = None) -> np.ndarray:
    """Read an image as an input ``[1, height, width, channels]`` (or without the 1) of a model.

    It is turned upright, made grey for one channel, and resized (bilinear). Without ``normalization`` uint8
    gets the pixels as they are, int8 the pixels minus 128, and float the pixels divided by 255; with it, the
    real numbers that it gives, quantised where the type is. Raises ValueError for a type that can't take an
    image, and OSError for a file that is none.
    """
    height, width, channels = _image_dimensions(path, type)
    try:
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image).convert(_MODES[channels])
    except (Image.DecompressionBombError, SyntaxError, EOFError) as error:
        raise ValueError(f"{path} can't be read as an image: {error}") from error
    pixels = np.asarray(upright.resize((width, height), Image.Resampling.BILINEAR), np.uint8)
    return _scale(pixels.reshape(height, width, channels), type, normalization).reshape(type.dimensions)


def _image_dimensions(path: Path, type: OperandType) -> tuple[int, int, int]:
    dimensions = type.dimensions[1:] if len(type.dimensions) == 4 and type.dimensions[0] == 1 else type.dimensions
    if len(dimensions) != 3 or 0 in dimensions or dimensions[2] not in _MODES:
        raise ValueError(f"{path}: an image fits an input [1, height, width, 1, 3 or 4], the model's is {type}")
    if type.code not in _PIXEL_OFFSETS and type.code not in _FLOATS:
        raise ValueError(f"{path}: an image can't be an input of type {type.code.name}; give a .npy")
    height, width, channels = dimensions
    return height, width, channels


def _scale(pixels: np.ndarray, type: OperandType, normalization: Normalization | None) -> np.ndarray:
    result: np.ndarray
    if normalization is None and type.code in _PIXEL_OFFSETS:
        result = pixels.astype(np.int16) - _PIXEL_OFFSETS[type.code]
        return result.astype(type.dtype)
    chosen = normalization or Normalization()
    for name, values in (("mean", chosen.mean), ("std", chosen.std)):
        if len(values) not in (1, pixels.shape[2]):
            raise ValueError(f"{name} has {len(values)} values, the input has {pixels.shape[2]} channels")
    real: np.ndarray = (pixels.astype(np.float32) - np.array(chosen.mean, np.float32)) / np.array(
        chosen.std, np.float32
    )
    if type.code in _FLOATS:
        return real.astype(type.dtype)
    limits = np.iinfo(type.dtype)
    result = np.clip(np.rint(real / type.scale) + type.zero_point, limits.min, limits.max)
    return result.astype(type.dtype)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{name} must be a number or comma-separated numbers, not {text!r}") from None
