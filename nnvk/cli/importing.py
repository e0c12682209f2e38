"""The options of commands on models: how model files are read, and how images become inputs."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from nnvk.base.errors import bad_data
from nnvk.base.text import did_you_mean, printable
from nnvk.cli.lines import REPORTED_ERRORS, complain
from nnvk.importers import formats
from nnvk.importers.errors import NAME_SHOWN
from nnvk.importers.ports import ImportedModel
from nnvk.inputs.images import AS_IS, LAYOUTS, RESIZES, ImageOptions, Normalization
from nnvk.loading import LoadedModel, LoadOptions, open_model


@dataclass(frozen=True, slots=True)
class Importing:
    """The options in the form that `formats.load` and `nnvk.load` take."""

    shapes: Mapping[str, list[int | None]] = field(default_factory=dict)
    """The shapes of inputs, if they differ from the file's, and sizes that have a name, each in a list."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Inputs of an ONNX file that have a value for good."""
    round_hybrid: bool = True
    relaxed: bool = False

    def for_each(self, paths: Sequence[Path]) -> list[Importing]:
        """The options for each of several models: ``--shape`` applies to those that have the input or the size.

        A file that can't be read keeps all of them; its error comes when it is opened. BAD_DATA: no model has a name.
        """
        if not self.shapes or len(paths) == 1:
            return [self] * len(paths)
        names = [_shape_names(path) for path in paths]
        if None not in names:
            known = set().union(*(each for each in names if each is not None))
            for name in self.shapes:
                if name not in known:
                    there = ", ".join(repr(printable(each, NAME_SHOWN)) for each in sorted(known))
                    wrong = printable(name, NAME_SHOWN)
                    hint = did_you_mean(name, known)
                    raise bad_data(f"no input of the models is called {wrong!r}, there are [{there}]{hint}")
        return [
            self
            if own is None
            else replace(self, shapes={name: shape for name, shape in self.shapes.items() if name in own})
            for own in names
        ]

    def load(self, path: Path) -> ImportedModel:
        """Read a model of any format. Raises OSError, or the importer's error that names what can't be mapped."""
        return formats.load(_file(path), **self._arguments())

    def open(
        self, path: Path, device: str | None = None, *, fallback: bool = True, images: ImageOptions = AS_IS
    ) -> LoadedModel:
        """A model that is not compiled yet, whose remarks are notes on standard error. Errors as `load`."""
        arguments = self._arguments()
        options = LoadOptions(device=device, fallback=fallback, images=images, **arguments)
        return open_model(_file(path), options, note_image, note)

    def _arguments(self) -> dict[str, Any]:
        return {
            "shapes": dict(self.shapes),
            "constants": dict(self.constants),
            "round_hybrid": self.round_hybrid,
            "relaxed": self.relaxed,
        }


def _shape_names(path: Path) -> set[str] | None:
    """The names that a model's ``--shape`` may have; None where the file can't be read."""
    try:
        return formats.read(_file(path)).shape_names()
    except REPORTED_ERRORS:
        return None


def note_open_sizes(name: str, model: LoadedModel) -> None:
    """Print the sizes that a model's file leaves open and that are taken, unless ``--shape`` gives all of them."""
    if model.is_open:
        sizes = "; ".join(f"input {port} is {port.open_sizes}" for port in model.inputs if port.is_open)
        note(f"{name} leaves sizes open, --shape gives others: {sizes}")


def note(text: str) -> None:
    """Print a remark that is no error."""
    complain(f"note: {text}")


def note_image(text: str) -> None:
    """Print a remark on how an image became an input."""
    note(f"{text}; --mean, --std or --scale change it")


def _file(path: Path) -> Path:
    if path.is_dir():
        raise IsADirectoryError(f"a folder, not a file of a model: {path}")
    return path


DEFAULT = Importing()


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with options in the place of its parameters ``importing`` and ``images``, as far as it has them."""
    own = _annotated(command)
    groups = {name: _annotated(make) for name, make in _MAKERS.items() if any(one.name == name for one in own)}
    shown: list[inspect.Parameter] = []
    for parameter in own:
        shown += groups.get(parameter.name, [parameter])

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        for name, parameters in groups.items():
            arguments[name] = _MAKERS[name](**{one.name: arguments.pop(one.name) for one in parameters})
        command(**arguments)

    # typer reads the signature.
    vars(with_options)["__signature__"] = inspect.Signature(shown)
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return with_options


def _annotated(function: Callable[..., object]) -> list[inspect.Parameter]:
    """Parameters, with annotations for their names."""
    hints = get_type_hints(function, include_extras=True)
    return [one.replace(annotation=hints[one.name]) for one in inspect.signature(function).parameters.values()]


def _import_options(
    shapes: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="NAME=SHAPE",
            help="Give an input another shape than the file's, such as image=4x224x224x3 (a ? keeps a size), or sizes "
            "that the file names a value, such as batch=4,seq=128.",
        ),
    ] = None,
    constants: Annotated[
        list[str] | None,
        typer.Option(
            "--constant",
            metavar="NAME=VALUE",
            help="Give an input of an .onnx file its value for good, such as axes=[0,1]: "
            "what has to be known beforehand.",
        ),
    ] = None,
    no_round_hybrid: Annotated[
        bool,
        typer.Option(
            "--no-round-hybrid",
            help="Where weights have 8 bits and activations are float: don't round activations to 8 bits as "
            "TFLite does.",
        ),
    ] = False,
    relaxed: Annotated[
        bool,
        typer.Option(
            "--relaxed",
            help="Let devices compute float32 with the range and precision of float16, which may be faster.",
        ),
    ] = False,
) -> Importing:
    return Importing(_parse_shapes(shapes or ()), _parse_constants(constants or ()), not no_round_hybrid, relaxed)


def _parse_constants(words: Sequence[str]) -> dict[str, Any]:
    """Values by the names of inputs, from ``--constant``. Raises ValueError."""
    constants: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name in constants:
            raise ValueError(f"--constant is given twice for {name!r}")
        try:
            constants[name] = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"--constant must be NAME=VALUE, such as axes=[0,1], not {word!r}") from error
    return constants


def _image_options(
    mean: Annotated[
        str | None,
        typer.Option(
            "--mean",
            metavar="M",
            help="Subtract this from the pixels of images, which are 0 to 255; a number, or one per channel. If it "
            "and --std are at most 1, they are shares of 255.",
            show_default="as the file says, or 0 where --std is given",
        ),
    ] = None,
    std: Annotated[
        str | None,
        typer.Option(
            "--std",
            metavar="S",
            help="Then divide them by this. A quantised input rounds the resulting real numbers to its levels.",
            show_default="255, or 1 with --scale, where --mean is given",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option("--scale", metavar="F", help="Multiply pixels by this before, such as 1/255.", show_default="1"),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout",
            metavar="|".join(LAYOUTS),
            help="Where an image's channels are in an input.",
            show_default="as its shape tells",
        ),
    ] = None,
    resize: Annotated[
        str,
        typer.Option(
            "--resize",
            metavar="|".join(RESIZES),
            help="Stretch images to the size of the input, cover it and cut the rest off, or fit them into it.",
        ),
    ] = RESIZES[0],
) -> ImageOptions:
    return ImageOptions(Normalization.parse(mean, std, scale), layout, resize)


_MAKERS: dict[str, Callable[..., Any]] = {"importing": _import_options, "images": _image_options}
"""The functions that make the values of commands' parameters from options, by the parameter."""


def _parse_shapes(words: Sequence[str]) -> dict[str, list[int | None]]:
    """Shapes by the names of inputs, and sizes by their names, from ``--shape``. Raises ValueError."""
    shapes: dict[str, list[int | None]] = {}
    for word in (each for text in words for each in _split(text)):
        name, equals, text = word.rpartition("=")
        sizes = text.lower().split("x")
        if not equals or not all(size == "?" or (size.isascii() and size.isdigit()) for size in sizes):
            raise ValueError(f"--shape must be NAME=SHAPE, such as image=4x224x224x3 or batch=4, not {word!r}")
        if name in shapes:
            raise ValueError(f"--shape is given twice for {name!r}")
        shapes[name] = [None if size == "?" else int(size) for size in sizes]
    return shapes


def _split(text: str) -> list[str]:
    """The parts between commas, each of which must have a shape: names may have commas, too."""
    parts = text.split(",")
    return parts if all("=" in part for part in parts) else [text]
