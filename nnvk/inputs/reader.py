"""The inputs of a model from the things that users give: arrays, numbers, images, and names of files with these."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from nnvk.base.errors import bad_data
from nnvk.base.text import did_you_mean, plural, printable
from nnvk.importers.errors import NAME_SHOWN
from nnvk.importers.mixed import Described
from nnvk.importers.ports import Port
from nnvk.inputs.arrays import as_numbers, describe, load_array, load_array_rows, load_arrays
from nnvk.inputs.images import (
    AS_IS,
    ImageOptions,
    frame_of,
    guess_normalization,
    image_array,
    load_image,
    own_normalizations,
)
from nnvk.runtime.inputs import as_array, is_array
from nnvk.types.operand import Shape

ARRAY_SUFFIXES = (".npy", ".npz")
Say = Callable[[str], None]
"""Takes a remark for the user on how an image became an input, and adds how to change that."""


class InputReader:
    """Makes the inputs of one model. Several threads may use it.

    ``options`` say how images become inputs. ``shapes`` are those that inputs must have, -1 for any size; they are the
    model's without it. ``say`` is told once how an image was normalised where that is a guess, and which pixels a
    quantised input cuts off.
    """

    def __init__(
        self,
        imported: Described,
        options: ImageOptions = AS_IS,
        shapes: Sequence[Shape] | None = None,
        say: Say | None = None,
    ) -> None:
        wanted = [port.shape for port in imported.inputs] if shapes is None else shapes
        self.ports: tuple[Port, ...] = tuple(
            replace(port, shape=shape) for port, shape in zip(imported.inputs, wanted, strict=True)
        )
        """The inputs, with -1 for each size that any number may be."""
        self._outputs = imported.outputs
        self._options = options
        self._own = own_normalizations(imported)
        self._say = say
        self._told: set[int] = set()

    @property
    def has_normalization(self) -> bool:
        """Whether the user says how images are normalised."""
        return self._options.normalization is not None

    # --- all inputs ----------------------------------------------------------------------------------------------

    def arrays(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs in the form of the file: one object for each, or a dictionary by name, or one ``.npz`` file.

        Raises BAD_DATA, ValueError and OSError that say what does not fit.
        """
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            return self._by_name(inputs[0])
        if len(inputs) == 1 and _is_path(inputs[0]) and Path(inputs[0]).suffix.lower() == ".npz":
            return load_arrays(Path(inputs[0]), self.ports)
        several = inputs[0] if len(inputs) == 1 < len(self.ports) and isinstance(inputs[0], (list, tuple)) else inputs
        if len(several) != len(self.ports):
            wanted = "; ".join(f"{index}: {describe(port)}" for index, port in enumerate(self.ports))
            raise bad_data(f"the model has {plural(len(self.ports), 'input')}, got {len(several)}: {wanted}")
        return [self.array(place, value) for place, value in enumerate(several)]

    def _by_name(self, inputs: Mapping[str, Any]) -> list[Any]:
        names = [port.name for port in self.ports]
        for name in inputs:
            if names.count(name) != 1:
                shown = ", ".join(repr(printable(known, NAME_SHOWN)) for known in names)
                hint = "; some have one name: give them by position" if name in names else did_you_mean(name, names)
                raise bad_data(f"no input is called {printable(str(name), NAME_SHOWN)!r}, there are [{shown}]{hint}")
        for name in names:
            if name not in inputs:
                raise bad_data(f"input {printable(name, NAME_SHOWN)!r} is missing")
        return [self.array(place, inputs[name]) for place, name in enumerate(names)]

    def files(self, paths: Sequence[Path]) -> list[np.ndarray]:
        """The inputs from one file for each, an image or a ``.npy``, or from one ``.npz`` for all.

        Raises ValueError that names what is wanted and what came, and OSError.
        """
        if self.has_normalization and not any(is_image(path) for path in paths):
            raise ValueError("mean, std and scale are for images, and no input is one")
        if len(paths) == 1 and paths[0].suffix.lower() == ".npz":
            return load_arrays(paths[0], self.ports)
        if len(paths) != len(self.ports):
            raise ValueError(self._wrong_count(len(paths)))
        return [self.file(place, path) for place, path in enumerate(paths)]

    def _wrong_count(self, count: int) -> str:
        """Why so many files are not the inputs of the model."""
        given = "none" if not count else "--input once" if count == 1 else f"--input {count} times"
        wanted = "; ".join(f"{index}: {describe(port)}" for index, port in enumerate(self.ports))
        if len(self.ports) > 1:
            how = "give --input for each, in this order (an image or .npy), or one .npz"
            return f"the model has {len(self.ports)} inputs, {how}, got {given}: {wanted}"
        if not self.ports:
            return f"the model has no input, got {given}"
        more = "; nnvk run --input FOLDER and nnvk map run many files" if count else ""
        return f"the model has one input, give --input once (an image, .npy or .npz), got {given}: {wanted}{more}"

    # --- one input -----------------------------------------------------------------------------------------------

    def array(self, place: int, value: Any) -> Any:
        """One input: an array, numbers, an image of Pillow, or the name of a file."""
        if not self.ports[place].has_numbers:
            return _as_given(self.ports[place], value)
        if isinstance(value, Image.Image):
            options, remark = self._image_options(place, "an image")
            array = image_array(value, self.ports[place], options)
            self._tell(place, remark)
            return array
        if _is_path(value):
            return self.file(place, Path(value))
        port = self.ports[place]
        if is_array(value):
            return as_numbers(port, as_array(value, str(port)))
        if are_images(value):
            raise bad_data(
                f"{port} takes one image or file; only model([...]), of a model with one input, takes several"
            )
        if isinstance(value, (bool, int, float, complex, np.generic, list, tuple)):
            return as_numbers(port, _of_python(port, value))
        kind = type(value).__name__
        raise TypeError(f"{port} takes an array, numbers, an image of Pillow or the name of a file, got {kind}")

    def file(self, place: int, path: Path) -> np.ndarray:
        """One input from an image or a ``.npy``. Raises ValueError and OSError."""
        suffix = path.suffix.lower()
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "a folder, not the file of an input", str(path))
        if suffix == ".npz":
            raise ValueError(f"a .npz has all inputs, it must be the only --input: {path}")
        if suffix == ".npy":
            return load_array(path, self.ports[place])
        return self.image(place, path)

    def row(self, place: int, path: Path, row: int) -> np.ndarray:
        """One input from one row of the array in a ``.npy``. Raises ValueError and OSError."""
        return load_array_rows(path, self.ports[place], row)

    def image(self, place: int, path: Path, content: BinaryIO | None = None) -> np.ndarray:
        """One input from an image, whose bytes ``content`` has where they are not at ``path``."""
        options, remark = self._image_options(place, path)
        array = load_image(path, self.ports[place], options, content)
        self._tell(place, remark)
        return array

    def _image_options(self, place: int, what: object) -> tuple[ImageOptions, str]:
        """How an image becomes an input: as the user says, else as the metadata say, else by a guess; and a remark."""
        chosen, port = self._options, self.ports[place]
        if chosen.normalization is not None:
            remarks = (chosen.normalization.remark, chosen.normalization.cut_off(port))
            return chosen, "; ".join(filter(None, remarks))
        own = self._own[place]
        if own is not None:
            return replace(chosen, normalization=own), own.remark
        guess, said = guess_normalization(port, frame_of(port, chosen.layout, str(what)), self._outputs)
        return replace(chosen, normalization=guess), f"{said}, which is a guess" if said else ""

    def _tell(self, place: int, remark: str) -> None:
        if remark and self._say is not None and place not in self._told:
            self._told.add(place)
            self._say(f"input {self.ports[place]}: {remark}")


def are_images(value: Any) -> bool:
    """Whether a value is a list of images of Pillow and names of files."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(each, Image.Image) or _is_path(each) for each in value)


def is_image(path: Path) -> bool:
    """Whether a file of inputs is taken for an image."""
    return path.suffix.lower() not in ARRAY_SUFFIXES


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _of_python(port: Port, value: Any) -> np.ndarray:
    """Numbers of Python, in lists perhaps, as an array."""
    try:
        return np.asarray(value)
    except ValueError as error:
        raise bad_data(f"{port}: rows of unequal lengths are no array") from error


def _as_given(port: Port, value: Any) -> Any:
    """Texts as an array of objects; sequences and what may be left out as they are, with arrays in them."""
    if port.has_texts:
        return np.asarray(value, object)
    if isinstance(value, (list, tuple)):
        return [each if isinstance(each, str) else as_array(each, str(port)) for each in value]
    return value if value is None or isinstance(value, Mapping) else as_array(value, str(port))
