"""Images as model inputs."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from nnvk.base.checks import instance, real, reals, shown, text
from nnvk.base.errors import NnapiError, bad_data
from nnvk.base.files import open_regular
from nnvk.base.text import did_you_mean, dimensions
from nnvk.importers.metadata import TensorMetadata
from nnvk.importers.mixed import Described
from nnvk.importers.ports import Port

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_PIXEL_OFFSETS = {"UINT8": 0, "INT8": 128}
_FLOATS = ("FLOAT32", "FLOAT16", "FLOAT64")
_ALPHA_MODES = ("LA", "La", "PA", "RGBA", "RGBa")
_LONG_GREY_FORMATS = ("PNG", "PPM")
"""Formats of 16 bits for which Pillow may have the mode ``I`` of 32."""
_LARGEST = float(np.finfo(np.float32).max)
_WHITE = 255.0
"""The largest number that a pixel has."""
_LEAST_SHARE = 0.01
"""The least deviation of pixels, as a share of 255: 2.55 steps of a pixel."""
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
LAYOUTS = ("nhwc", "nchw")
"""The orders of an image's dimensions: channels last, or channels before height and width."""
RESIZES = ("stretch", "cover", "contain")
"""Ways to resize: to the input's size; to cover it, and cut off the rest; to fit into it, with a black border."""
_IMAGENET_CLASSES = (1000, 1001)
_IMAGENET_MEAN, _IMAGENET_STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
"""The mean and deviation of ImageNet's pixels, with which models of torchvision and timm are trained."""


@dataclass(frozen=True, slots=True)
class Normalization:
    """How a pixel becomes a real number: ``(pixel * scale - mean) / std``, with one mean and std, or one per channel.

    Pixels are 0 to 255. Without ``scale``, means and deviations of at most 1 are shares of 255, as torchvision has
    them: ``Normalization((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))`` is that of ImageNet. A mean of 0 with a
    deviation of 1 leaves the pixels as they are. With ``scale``, mean and std are those of scaled pixels.

    BAD_DATA: a number is not finite in float32, a divisor is 0, mean and std fit no pixels, such as a share of 255 and
    a number of pixels. TypeError: an object is of a wrong kind.
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = ()
    """Without it 255, or 1 if there is a ``scale``."""
    scale: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.scale is not None:
            object.__setattr__(self, "scale", _checked_scale(self.scale))
        if isinstance(self.std, tuple) and not self.std:
            object.__setattr__(self, "std", (_WHITE if self.scale is None else 1.0,))
        for name in ("mean", "std"):
            numbers = reals(name, getattr(self, name))
            if not numbers or not all(abs(number) <= _LARGEST for number in numbers):
                raise bad_data(f"{name} must be of finite float32 numbers, not {shown(numbers)}")
            object.__setattr__(self, name, tuple(numbers))
        if 0.0 in np.array(self.std, np.float32):
            raise bad_data(f"std must not be 0 in float32, it is {shown(self.std)}")
        self._check_range()
        for name, numbers in zip(("mean", "std"), self.of_pixels, strict=True):
            if not all(abs(number) <= _LARGEST for number in numbers):
                raise bad_data(f"scale {self.scale} makes a {name} that float32 does not have: {shown(numbers)}")

    @classmethod
    def parse(cls, mean: str | None, std: str | None, scale: str | None = None) -> Normalization | None:
        """From comma-separated numbers; None where none is given. Raises ValueError, and BAD_DATA as the class does.

        ``scale`` may be a fraction, ``1/255``.
        """
        if mean is None and std is None and scale is None:
            return None
        means = (0.0,) if mean is None else _numbers("mean", mean)
        stds = () if std is None else _numbers("std", std)
        return cls(means, stds, None if scale is None else _factor(scale))

    @property
    def is_of_shares(self) -> bool:
        """Whether mean and std are shares of 255."""
        means, stds = (np.abs(numbers) for numbers in (self.mean, self.std))
        keeps_pixels = not means.any() and (stds == 1).all()
        return self.scale is None and not keeps_pixels and max(means.max(), stds.max()) <= 1

    @property
    def of_pixels(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The mean and std of pixels of 0 to 255: a real number is ``(pixel - mean) / std``."""
        unit = 1 / self.scale if self.scale is not None else _WHITE if self.is_of_shares else 1.0
        return tuple(number * unit for number in self.mean), tuple(number * unit for number in self.std)

    @property
    def remark(self) -> str:
        """How mean and std are taken, where that is not as they are; else empty."""
        if not self.is_of_shares:
            return ""
        given, taken = (
            f"mean {_listed(mean)} and std {_listed(std)}" for mean, std in ((self.mean, self.std), self.of_pixels)
        )
        return f"{given} are taken as shares of 255, because pixels are 0 to 255: {taken}"

    def _check_range(self) -> None:
        """BAD_DATA: mean and std are not of the same pixels, so that an image would become another one."""
        means, stds = (np.abs(numbers) for numbers in (self.mean, self.std))
        own = f"mean {_listed(self.mean)} and std {_listed(self.std)}"
        if self.scale is not None:
            white = _WHITE * abs(self.scale)
            if max(means.max(), 0 if (stds == 1).all() else stds.max()) > 2 * white:
                raise bad_data(
                    f"{own} are not of pixels that scale {self.scale:g} multiplies, which are 0 to {white:g}"
                )
        elif self.is_of_shares and stds.min() < _LEAST_SHARE:
            raise bad_data(
                f"std {_listed(self.std)} is less than a step of pixels, which are 0 to 255; to multiply "
                "pixels, give a scale, such as 1/255"
            )
        elif not self.is_of_shares and (stds.min() < 1 or ((means > 0) & (means <= 1)).any()):
            raise bad_data(
                f"{own} do not go together: give both for pixels of 0 to 255, such as 123.675 and 58.395, or "
                "both as shares of 255, such as 0.485 and 0.229; with a scale of 1 they are taken as they are"
            )

    def cut_off(self, port: Port) -> str:
        """The range of pixels that a quantised input cuts off; empty where it cuts off none."""
        type_ = port.type
        if not port.is_quantised:
            return ""
        limits = np.iinfo(type_.dtype)
        mean, std = map(np.array, self.of_pixels)
        ends = [(pixel - mean) / std for pixel in (0, _WHITE)]
        low, high = float(np.min(ends)), float(np.max(ends))
        least, most = ((level - type_.zero_point) * type_.scale for level in (limits.min, limits.max))
        if least - type_.scale / 2 <= low and high <= most + type_.scale / 2:
            return ""
        return (
            f"its pixels become {low:.4g} to {high:.4g}, and it takes {least:.4g} to {most:.4g}: what is beyond is cut "
            f"off; without a normalisation it gets the pixels as {type_.dtype}"
        )


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """How images become inputs, where the user decides. BAD_DATA: a layout or a way to resize is unknown."""

    normalization: Normalization | None = None
    """None: as the file's metadata says, else a guess."""
    layout: str | None = None
    """One of `LAYOUTS`; None: as the shape of the input tells."""
    resize: str = RESIZES[0]
    """One of `RESIZES`."""

    def __post_init__(self) -> None:
        """Check the words."""
        if self.normalization is not None:
            instance("the normalisation", self.normalization, Normalization)
        if self.layout is not None and text("the layout", self.layout) not in LAYOUTS:
            raise bad_data(
                f"the layout must be {' or '.join(LAYOUTS)}, not {self.layout!r}{did_you_mean(self.layout, LAYOUTS)}"
            )
        if text("the way to resize", self.resize) not in RESIZES:
            ways, hint = f"{', '.join(RESIZES[:-1])} or {RESIZES[-1]}", did_you_mean(self.resize, RESIZES)
            raise bad_data(f"the way to resize must be {ways}, not {self.resize!r}{hint}")


class UnfitInputError(ValueError):
    """The model's input takes no image, whatever image that is."""


AS_IS = ImageOptions()
"""Nothing is decided by the user."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The place of an image in an input."""

    height: int
    """-1 for any."""
    width: int
    """-1 for any."""
    channels: int
    layout: str


def frame_of(port: Port, layout: str | None, what: str) -> Frame:
    """Where an input has the height, width and channels of an image. `UnfitInputError`: it takes none, for ``what``."""
    shape = port.shape
    inner = shape[1:] if len(shape) == 4 and shape[0] in (1, -1) else shape
    orders = {"nhwc": (0, 1, 2), "nchw": (1, 2, 0)}
    found = [
        Frame(inner[height], inner[width], inner[channels], order)
        for order, (height, width, channels) in orders.items()
        if len(inner) == 3 and inner[channels] in _MODES and 0 not in inner and layout in (None, order)
    ]
    if not found:
        wanted = "" if layout is None else f" in the layout {layout}"
        raise UnfitInputError(
            f"an image fits an input of 1xHEIGHTxWIDTHxC or 1xCxHEIGHTxWIDTH with 1, 3 or 4 channels{wanted}, "
            f"the model's is {port.dtype} {dimensions(shape)}: {what}"
        )
    if port.file_type not in (*_PIXEL_OFFSETS, *_FLOATS):
        raise UnfitInputError(f"an image can't be an input of type {port.dtype}, give a .npy: {what}")
    return min(found, key=lambda frame: (frame.channels == 4, LAYOUTS.index(frame.layout)))


def load_image(path: Path, port: Port, options: ImageOptions = AS_IS, content: BinaryIO | None = None) -> np.ndarray:
    """Read an image file as an input of a model; see `image_array`, whose errors it raises, and OSError.

    ``content`` has the file's bytes where these are not at ``path``.
    """
    what = str(path)
    frame = frame_of(port, options.layout, what)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)  # some 90 million pixels
            with open_regular(path) if content is None else content as file, Image.open(file) as image:
                pixels = _pixels(image, frame, options.resize)
    except UnidentifiedImageError:
        raise ValueError(f"not an image: {path}") from None
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(f"not an image that can be read: {path} ({error})") from error
    except _BROKEN as error:
        raise ValueError(f"not an image that can be read: {path} ({error})") from error
    return _fitted(pixels, frame, port, options.normalization, what)


def image_array(image: Image.Image, port: Port, options: ImageOptions = AS_IS) -> np.ndarray:
    """An image of Pillow as an input of a model, with or without a first dimension of 1.

    The result is turned upright, laid on white where it is transparent (unless there are four channels), made grey for
    one channel, and resized (bilinear); where the port's height and width are -1 it keeps its size. Without a
    normalisation uint8 gets the pixels as they are, int8 the pixels minus 128, and float the pixels divided by 255;
    with it, the real numbers that it gives, quantised where the input is. Pixels of 16 bits are first divided by 257.
    ValueError: the input can't take an image, the image is broken, or has more than 89,478,485 pixels, Pillow's limit.
    """
    name = getattr(image, "filename", "")
    what = f"the image {name}" if name else f"an image of mode {image.mode}"
    frame = frame_of(port, options.layout, what)
    try:
        pixels = _pixels(image.copy(), frame, options.resize)
    except _BROKEN as error:
        raise ValueError(f"not an image that can be read: {what} ({error})") from error
    return _fitted(pixels, frame, port, options.normalization, what)


def own_normalizations(imported: Described) -> list[Normalization | None]:
    """The normalisation that the file asks for; quantised inputs take the pixels, as in TFLite Support."""
    known = imported.metadata.inputs
    if len(known) != len(imported.inputs):
        return [None] * len(imported.inputs)
    return [
        _own_normalization(tensor) if tensor.mean and not port.is_quantised else None
        for tensor, port in zip(known, imported.inputs, strict=True)
    ]


def _own_normalization(tensor: TensorMetadata) -> Normalization:
    """The metadata's normalisation; as TFLite takes it, where mean and std are not of the same pixels."""
    try:
        return Normalization(tensor.mean, tensor.std)
    except NnapiError:
        return Normalization(tensor.mean, tensor.std, 1.0)


def guess_normalization(port: Port, frame: Frame, outputs: Sequence[Port]) -> tuple[Normalization | None, str]:
    """The normalisation that an input most likely wants, and what is guessed; nothing where there is nothing to guess.

    Classifiers of ImageNet with channels first are mostly torchvision's, which are trained on pixels from which
    ImageNet's mean is subtracted. Other models of real numbers mostly take 0 to 1.
    """
    if port.file_type not in _FLOATS:
        return None, ""
    classes = outputs[0].shape[-1] if outputs and outputs[0].shape else 0
    if frame.layout == "nchw" and frame.channels == 3 and classes in _IMAGENET_CLASSES:
        return Normalization(_IMAGENET_MEAN, _IMAGENET_STD), "pixels are normalised by ImageNet's mean and deviation"
    return Normalization(), "pixels are divided by 255"


def _pixels(image: Image.Image, frame: Frame, resize: str) -> np.ndarray:
    """The pixels, uint8 ``[height, width, channels]``."""
    ImageOps.exif_transpose(image, in_place=True)
    flat = _flatten(_eight_bits(image), _MODES[frame.channels])
    own_width, own_height = flat.size
    size = (own_width if frame.width == -1 else frame.width, own_height if frame.height == -1 else frame.height)
    if resize == "cover":
        resized = ImageOps.fit(flat, size, Image.Resampling.BILINEAR)
    elif resize == "contain":
        resized = ImageOps.pad(flat, size, Image.Resampling.BILINEAR)
    else:
        resized = flat.resize(size, Image.Resampling.BILINEAR)
    return np.asarray(resized, np.uint8).reshape(size[1], size[0], frame.channels)


def _fitted(pixels: np.ndarray, frame: Frame, port: Port, normalization: Normalization | None, what: str) -> np.ndarray:
    array = _scale(pixels, port, normalization)
    if not np.isfinite(array).all():
        raise ValueError(f"mean and std give numbers that {port.dtype} does not have: {what}")
    if frame.layout == "nchw":
        array = array.transpose(2, 0, 1)
    return np.ascontiguousarray(array[np.newaxis] if len(port.shape) == 4 else array)


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


def _scale(pixels: np.ndarray, port: Port, normalization: Normalization | None) -> np.ndarray:
    result: np.ndarray
    if normalization is None and port.file_type in _PIXEL_OFFSETS:
        result = pixels.astype(np.int16) - _PIXEL_OFFSETS[port.file_type]
        return result.astype(port.dtype)
    chosen = normalization or Normalization()
    for name, values in (("mean", chosen.mean), ("std", chosen.std)):
        if len(values) not in (1, pixels.shape[2]):
            raise ValueError(f"{name} has {len(values)} values, the input has {pixels.shape[2]} channels")
    mean, std = (np.array(numbers, np.float32) for numbers in chosen.of_pixels)
    with np.errstate(over="ignore"):
        real: np.ndarray = (pixels.astype(np.float32) - mean) / std
        if port.file_type in _FLOATS:
            return real.astype(port.dtype)
        if not port.is_quantised:
            raise ValueError(f"mean and std make real numbers of pixels, and {port} takes {port.dtype}")
        return port.quantize(real)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{name} must be a number or comma-separated numbers, not {text!r}") from None
    if not all(abs(value) <= _LARGEST for value in values):
        raise ValueError(f"{name} must be of finite float32 numbers, not {text!r}")
    return values


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers)


def _checked_scale(scale: float) -> float:
    number = real("scale", scale)
    if not abs(number) <= _LARGEST or not np.float32(number):
        raise bad_data(f"scale must be a finite number other than 0 in float32, not {number}")
    return number


def _factor(text: str) -> float:
    """A number or a fraction, other than 0."""
    over, slash, under = text.partition("/")
    (top, *more), (bottom, *others) = _numbers("scale", over), _numbers("scale", under if slash else "1")
    if more or others or not top or not bottom or not np.float32(top / bottom):
        raise ValueError(f"scale must be a number other than 0, such as 1/255, not {text!r}")
    return top / bottom
