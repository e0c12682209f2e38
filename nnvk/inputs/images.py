"""Images as model inputs."""

from __future__ import annotations

import struct
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from nnvk.importers.ports import ImportedModel
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_PIXEL_OFFSETS = {OperandCode.TENSOR_QUANT8_ASYMM: 0, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: 128}
_FLOATS = (OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16)
_ALPHA_MODES = ("LA", "La", "PA", "RGBA", "RGBa")
_LONG_GREY_FORMATS = ("PNG", "PPM")
"""Formats of 16 bits for which Pillow may have the mode ``I`` of 32."""
_LARGEST = float(np.finfo(np.float32).max)
_BROKEN = (
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
    SyntaxError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    NotImplementedError,
    struct.error,
    zlib.error,
)
"""Exceptions of Pillow for broken files, besides OSError."""


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
        if 0.0 in np.array(result.std, np.float32):
            raise ValueError(f"std must not be 0 in float32, it is {std}")
        return result

    def cut_off(self, type: OperandType) -> str:
        """The range of pixels that a quantised input cuts off; empty where it cuts off none."""
        if type.code not in _PIXEL_OFFSETS:
            return ""
        limits = np.iinfo(type.dtype)
        ends = [(pixel - np.array(self.mean)) / np.array(self.std) for pixel in (0, 255)]
        low, high = float(np.min(ends)), float(np.max(ends))
        least, most = ((level - type.zero_point) * type.scale for level in (limits.min, limits.max))
        if least - type.scale / 2 <= low and high <= most + type.scale / 2:
            return ""
        return (
            f"--mean and --std make real numbers of pixels, {low:.4g} to {high:.4g}, and it takes {least:.4g} to "
            f"{most:.4g}: what is beyond is cut off; without them it gets the pixels as {type.dtype}"
        )


def load_image(
    path: Path, type: OperandType, normalization: Normalization | None = None, content: BinaryIO | None = None
) -> np.ndarray:
    """Read an image as an input ``[1, height, width, channels]`` (or without the 1) of a model.

    It is turned upright, laid on white where it is transparent (unless there are four channels), made grey for
    one channel, and resized (bilinear). Without ``normalization`` uint8 gets the pixels as they are, int8 the pixels
    minus 128, and float the pixels divided by 255; with it, the real numbers that it gives, quantised where the type
    is. Pixels of 16 bits are first divided by 257. ``content`` has the file's bytes where these are not at ``path``.
    Raises ValueError for a type that can't take an image, for a broken image and one of more than 89,478,485 pixels,
    Pillow's limit, and OSError for one that can't be opened.
    """
    height, width, channels = _image_dimensions(path, type)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)  # some 90 million pixels
            with Image.open(path if content is None else content) as image:
                ImageOps.exif_transpose(image, in_place=True)
                flat = _flatten(_eight_bits(image), _MODES[channels])
                resized = flat.resize((width, height), Image.Resampling.BILINEAR)
    except UnidentifiedImageError:
        raise ValueError(f"not an image: {path}") from None
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(f"not an image that can be read: {path} ({error})") from error
    except _BROKEN as error:
        raise ValueError(f"not an image that can be read: {path} ({error})") from error
    pixels = np.asarray(resized, np.uint8)
    array = _scale(pixels.reshape(height, width, channels), type, normalization).reshape(type.dimensions)
    if not np.isfinite(array).all():
        raise ValueError(f"mean and std give numbers that {type.dtype} does not have: {path}")
    return array


def own_normalizations(imported: ImportedModel) -> list[Normalization | None]:
    """The normalisation that the file asks for; quantised inputs take the pixels, as in TFLite Support."""
    known = imported.metadata.inputs
    if len(known) != len(imported.inputs):
        return [None] * len(imported.inputs)
    return [
        Normalization(tensor.mean, tensor.std) if tensor.mean and not port.is_quantised else None
        for tensor, port in zip(known, imported.inputs, strict=True)
    ]


def _eight_bits(image: Image.Image) -> Image.Image:
    """The image in a mode of 8 bits a channel. Raises ValueError where nobody knows what is white."""
    if not image.mode.startswith(("I", "F")):
        return image
    if not image.mode.startswith("I;16") and not (image.mode == "I" and image.format in _LONG_GREY_FORMATS):
        kind = "floats" if image.mode == "F" else "integers of 32 bits"
        raise ValueError(f"its pixels are {kind} (mode {image.mode}), whose range is unknown; give a .npy")
    values = np.asarray(image).astype(np.uint32)
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _flatten(image: Image.Image, mode: str) -> Image.Image:
    """The image in this mode; one without alpha shows what is transparent as white."""
    if mode != "RGBA" and (image.mode in _ALPHA_MODES or "transparency" in image.info):
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, _in_mode(image, "RGBA"))
    return _in_mode(image, mode)


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    """The image in this mode; the same one where it is, for a large one's copy is large."""
    return image if image.mode == mode else image.convert(mode)


def _image_dimensions(path: Path, type: OperandType) -> tuple[int, int, int]:
    dimensions = type.dimensions[1:] if len(type.dimensions) == 4 and type.dimensions[0] == 1 else type.dimensions
    if len(dimensions) != 3 or 0 in dimensions or dimensions[2] not in _MODES:
        raise ValueError(f"an image fits an input of 1xHEIGHTxWIDTHx1, 3 or 4, the model's is {type.brief}: {path}")
    if type.code not in _PIXEL_OFFSETS and type.code not in _FLOATS:
        raise ValueError(f"an image can't be an input of type {type.dtype}, give a .npy: {path}")
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
    mean, std = np.array(chosen.mean, np.float32), np.array(chosen.std, np.float32)
    with np.errstate(over="ignore"):
        real: np.ndarray = (pixels.astype(np.float32) - mean) / std
        if type.code in _FLOATS:
            return real.astype(type.dtype)
        limits = np.iinfo(type.dtype)
        result = np.clip(np.rint(real / type.scale) + type.zero_point, limits.min, limits.max)
    return result.astype(type.dtype)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{name} must be a number or comma-separated numbers, not {text!r}") from None
    if not all(abs(value) <= _LARGEST for value in values):
        raise ValueError(f"{name} must be of finite float32 numbers, not {text!r}")
    return values
