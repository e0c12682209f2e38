"""The table of formats and their importers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from nnvk.base.errors import bad_data
from nnvk.importers.ports import ImportedModel
from nnvk.importers.shapes import Shapes

_HEAD = 8
"""The number of bytes at the beginning of a file that identify its format."""
_SECOND_FIELDS = (b"\x12", b"\x1a", b"\x22", b"\x3a")


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files."""

    suffix: str
    package: str
    """The importer. It is imported with the first file, since it may need a package that is not installed."""
    begins: Callable[[bytes], bool]
    """Whether these are the first bytes of such a file."""


FORMATS = (
    Format(".tflite", "nnvk.importers.tflite", lambda head: head[4:8] == b"TFL3"),
    # The IR version comes first in files of most writers; FlatBuffers begin with an offset, which is even.
    Format(
        ".onnx", "nnvk.importers.onnx", lambda head: head[:1] == b"\x08" and head[2:3] in (b"\x12", b"\x1a", b"\x3a")
    ),
)
SUFFIXES = tuple(one.suffix for one in FORMATS)
"""The suffixes of files in a folder that are models."""


def format_of(path: Path) -> Format:
    """The format of a file: what its first bytes say, else its name, else the first format, which says what is wrong.

    Raises OSError where the file can't be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    found = [one for one in FORMATS if one.begins(head)] or [
        one for one in FORMATS if path.suffix.lower() == one.suffix
    ]
    return found[0] if found else FORMATS[0]


def load(
    path: Path,
    *,
    shapes: Shapes | None = None,
    constants: Mapping[str, Any] | None = None,
    round_hybrid: bool = True,
    relaxed: bool = False,
) -> ImportedModel:
    """Import a file of any format, with what its importer's ``load`` takes of these.

    Raises the importer's errors, BAD_DATA for ``constants`` where the format's importer takes none, and
    ModuleNotFoundError where a package is missing that reads the format.
    """
    known = format_of(path)
    importer = import_module(known.package)
    if known.suffix == ".onnx":
        return importer.load(path, shapes=shapes, constants=constants, relaxed=relaxed)
    if constants:
        raise bad_data(f"{path}: inputs of {known.suffix} files can't be constants")
    return importer.load(path, shapes=shapes, round_hybrid=round_hybrid, relaxed=relaxed)
