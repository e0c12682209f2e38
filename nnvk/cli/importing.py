"""How model files are read: the options that all commands on models have."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from nnvk.importers import formats
from nnvk.importers.ports import ImportedModel

_PARAMETER = "importing"


@dataclass(frozen=True, slots=True)
class Importing:
    """The options in the form that `formats.load` takes."""

    shapes: Mapping[str, list[int | None]] = field(default_factory=dict)
    """The shapes of inputs, if they differ from the file's."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Inputs of an ONNX file that have a value for good."""
    round_hybrid: bool = True
    relaxed: bool = False

    def load(self, path: Path) -> ImportedModel:
        """Read a model of any format. Raises OSError, or the importer's error that names what can't be mapped."""
        if path.is_dir():
            raise IsADirectoryError(f"a folder, not a file of a model: {path}")
        return formats.load(
            path,
            shapes=dict(self.shapes),
            constants=dict(self.constants),
            round_hybrid=self.round_hybrid,
            relaxed=self.relaxed,
        )


DEFAULT = Importing()


def takes_import_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `_options` in the place of its parameter ``importing``."""
    own, given = (_annotated(function) for function in (command, _options))
    shown: list[inspect.Parameter] = []
    for parameter in own:
        shown += given if parameter.name == _PARAMETER else [parameter]

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        importing = _options(**{parameter.name: arguments.pop(parameter.name) for parameter in given})
        command(**arguments, importing=importing)

    # typer reads the signature.
    vars(with_options)["__signature__"] = inspect.Signature(shown)
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return with_options


def _annotated(function: Callable[..., object]) -> list[inspect.Parameter]:
    """Parameters, with annotations for their names."""
    hints = get_type_hints(function, include_extras=True)
    return [one.replace(annotation=hints[one.name]) for one in inspect.signature(function).parameters.values()]


def _options(
    shapes: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="NAME=SHAPE",
            help="Give an input another shape than the file's, such as image=4x224x224x3; a ? keeps a size.",
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


def _parse_shapes(words: Sequence[str]) -> dict[str, list[int | None]]:
    """Shapes by the names of inputs, from ``--shape``. Raises ValueError."""
    shapes: dict[str, list[int | None]] = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        sizes = text.lower().split("x")
        if not equals or not all(size == "?" or (size.isascii() and size.isdigit()) for size in sizes):
            raise ValueError(f"--shape must be NAME=SHAPE, such as image=4x224x224x3, not {word!r}")
        if name in shapes:
            raise ValueError(f"--shape is given twice for {name!r}")
        shapes[name] = [None if size == "?" else int(size) for size in sizes]
    return shapes
