"""Finding the models and devices that the command line names."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nnvk.api import Device, get_device, get_devices
from nnvk.importers import formats
from nnvk.importers.ports import ImportedModel
from nnvk.insight.placement import with_fallback

NoRoundHybrid = Annotated[
    bool,
    typer.Option(
        "--no-round-hybrid",
        help="Where weights have 8 bits and activations are float: don't round activations to 8 bits as TFLite does.",
    ),
]

Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of random inputs.")]

Relaxed = Annotated[
    bool,
    typer.Option(
        "--relaxed", help="Let devices compute float32 with the range and precision of float16, which may be faster."
    ),
]

InputShapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=SHAPE",
        help="Give an input another shape than the file's, such as image=4x224x224x3; a ? keeps a size.",
    ),
]


InputConstants = Annotated[
    list[str] | None,
    typer.Option(
        "--constant",
        metavar="NAME=VALUE",
        help="Give an input of an .onnx file its value for good, such as axes=[0,1]: what has to be known beforehand.",
    ),
]


def load_model(
    path: Path,
    shapes: Sequence[str] | None = None,
    *,
    constants: Sequence[str] | None = None,
    round_hybrid: bool = True,
    relaxed: bool = False,
) -> ImportedModel:
    """Read a model of any format.

    ``shapes`` are those of ``--shape``, ``constants`` those of ``--constant``, ``round_hybrid`` and
    ``relaxed`` are those of `tflite.load`.

    Raises FileNotFoundError, or the importer's error that names what can't be mapped.
    """
    if path.is_dir():
        raise IsADirectoryError(f"a folder, not a file of a model: {path}")
    return formats.load(
        path,
        shapes=parse_shapes(shapes or ()),
        constants=parse_constants(constants or ()),
        round_hybrid=round_hybrid,
        relaxed=relaxed,
    )


def find_models(paths: Sequence[Path]) -> list[Path]:
    """The files among these paths, and the models in those that are folders, also deeper down, each once.

    Raises ValueError for a folder that has none.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            found[path] = None
            continue
        inside = sorted(each for each in path.rglob("*") if each.suffix.lower() in formats.SUFFIXES and each.is_file())
        if not inside:
            raise ValueError(f"there are no {' or '.join(formats.SUFFIXES)} files in {path}")
        found.update(dict.fromkeys(inside))
    return list(found)


def title(path: Path, among: Sequence[Path]) -> str:
    """A model's name: its file's, with its folder's where another is called the same."""
    same = sum(other.name == path.name for other in among)
    return path.name if same == 1 else f"{path.resolve().parent.name}/{path.name}"


def parse_constants(words: Sequence[str]) -> dict[str, Any]:
    """Values by the names of inputs, from ``--constant``. Raises ValueError."""
    constants: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            constants[name] = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"--constant must be NAME=VALUE, such as axes=[0,1], not {word!r}") from error
    return constants


def parse_shapes(words: Sequence[str]) -> dict[str, list[int | None]]:
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


def find_device(name: str) -> Device:
    """The device of a name, or else the first of a type (``cpu``, ``gpu``), in upper or lower case.

    Raises BAD_DATA that names the devices there are.
    """
    ways: Sequence[Callable[[Device], bool]] = (
        lambda device: device.name == name,
        lambda device: device.name.lower() == name.lower(),
        lambda device: device.type.name.lower() == name.lower(),
    )
    found = (device for is_meant in ways for device in get_devices() if is_meant(device))
    return next(found, None) or get_device(name)  # which says what there is


def choose_devices(name: str | None, fallback: bool) -> list[Device] | None:
    """The devices to compile for; None leaves the choice to nnvk.

    The named device (by default the preferred one) and, with ``fallback``, the CPU devices behind it.
    """
    if name is None:
        return None if fallback else get_devices()[:1]
    device = find_device(name)
    return with_fallback(device) if fallback else [device]
