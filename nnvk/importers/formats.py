"""The table of formats and their importers, and the way from a path, bytes or a folder to a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nnvk.base.errors import Guard, NnapiError, bad_data
from nnvk.base.files import open_regular
from nnvk.base.settings import settings
from nnvk.importers.errors import ModelImportError
from nnvk.importers.foreign import describe_foreign, is_onnx, is_tflite
from nnvk.importers.mixed import Library
from nnvk.importers.ports import ImportedModel
from nnvk.importers.shapes import Shapes, fitting
from nnvk.importers.source import ModelSource, PathOrBytes, path_or_bytes

_HEAD = 128
"""The number of bytes at the beginning of a file that identify its format."""
_MOST_SHOWN = 10
"""Models of a folder that an error lists."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files."""

    suffix: str
    package: str
    """The importer. It is imported with the first file, since it may need a package that is not installed."""
    reader: str
    """The class of the importer that reads a file once and makes models of it."""
    library: str
    """The package of the library that computes what NNAPI has nothing for."""
    begins: Callable[[bytes], bool]
    """Whether these are the first bytes of such a file."""


FORMATS = (
    Format(".tflite", "nnvk.importers.tflite", "TfliteFile", "ai_edge_litert", is_tflite),
    Format(".onnx", "nnvk.importers.onnx", "OnnxFile", "onnxruntime", is_onnx),
)
SUFFIXES = tuple(one.suffix for one in FORMATS)
"""The suffixes of files in a folder that are models."""


def format_of(source: PathOrBytes) -> Format:
    """The format of a file: its first bytes decide, else its name.

    Raises OSError where the file can't be read, and `ModelImportError` that says what it is where neither tells.
    """
    if isinstance(source, bytes):
        head, suffix, name = source[:_HEAD], "", "the model"
    else:
        path, name = Path(source), os.fspath(source)
        with open_regular(path) as file:
            head = file.read(_HEAD)
        suffix = path.suffix.lower()
    found = [one for one in FORMATS if one.begins(head)] or [one for one in FORMATS if suffix == one.suffix]
    if found:
        return found[0]
    readers = ", nor as ".join(f"a {one.suffix} file, which {one.package} reads" for one in FORMATS)
    raise ModelImportError("not a model", name, detail=describe_foreign(head) or f"it begins neither as {readers}")


def models_in(folder: Path) -> list[Path]:
    """The models in a folder and below it, in the order of their names. Raises ValueError for a folder without any."""
    inside = sorted(each for each in folder.rglob("*") if each.suffix.lower() in SUFFIXES and each.is_file())
    if not inside:
        hint = ""
        if (folder / "saved_model.pb").is_file():
            hint = "; it has a SavedModel, which tf.lite.TFLiteConverter.from_saved_model turns into a .tflite file"
        raise ValueError(f"there are no {' or '.join(SUFFIXES)} files in {folder}{hint}")
    return inside


@dataclass(frozen=True, slots=True, eq=False)
class ModelFile:
    """A file of a model that is read once, and from which models for different shapes are imported."""

    format: Format
    name: str
    """The path of the file; "the model" for bytes."""
    reader: Any
    """The importer's reader: a `TfliteFile` or an `OnnxFile`."""

    def load(
        self,
        *,
        shapes: Shapes | None = None,
        constants: Mapping[str, Any] | None = None,
        round_hybrid: bool = True,
        relaxed: bool = False,
        in_parts: bool = False,
    ) -> ImportedModel:
        """Import the file, with the arguments that its importer's ``load`` takes.

        ``in_parts`` allows a model with a `rest`, if the format has such parts.

        If the model can't be imported with the file's placeholders for open sizes, others are tried: those of
        `fitting`.

        Raises the importer's errors, and BAD_DATA for ``constants`` where the format's importer takes none.
        """
        options: dict[str, Any] = {"relaxed": relaxed}
        of_others: dict[str, Any] = {}
        read = self.reader.load_in_parts if in_parts else self.reader.load
        if self.format.suffix == ".onnx":
            options["constants"] = constants
            of_others["lists_all"] = False  # their errors are not shown
        elif constants:
            raise bad_data(f"{self.name}: inputs of {self.format.suffix} files can't be constants")
        else:
            options["round_hybrid"] = round_hybrid
        with Guard(self.name):
            try:
                return read(shapes=shapes, **options)
            except ModelImportError as error:
                is_of_sizes = error.problems and not error.has_unknown_operators
                for tried in fitting(self.reader.inputs(), shapes or {}) if is_of_sizes else ():
                    with suppress(NnapiError):
                        return read(shapes=tried, **options, **of_others)
                raise error from None

    def shape_names(self) -> set[str]:
        """The names that ``shapes`` may have: of inputs, and of open sizes in formats that name these."""
        with Guard(self.name):
            return {name for one in self.reader.inputs() for name in (one.name, *one.symbols) if name}


def file_of(source: PathOrBytes) -> PathOrBytes:
    """The only model in a folder; anything else as it is. Raises ValueError for a folder with no model or several."""
    if isinstance(source, bytes) or not Path(source).is_dir():
        return source
    inside = models_in(Path(source))
    if len(inside) > 1:
        names = ", ".join(path.name for path in inside[:_MOST_SHOWN]) + (", ..." if inside[_MOST_SHOWN:] else "")
        raise ValueError(f"a folder with {len(inside)} models, give one of them: {source} ({names})")
    return inside[0]


def read(source: ModelSource) -> ModelFile:
    """Read a file of any format, the file's bytes, or the only model in a folder.

    Raises OSError, the importer's error for a file that is no model, ValueError for a folder with no model or several,
    ModuleNotFoundError where a package is missing that reads the format, and the errors of `path_or_bytes`.
    """
    source = file_of(path_or_bytes(source))
    known = format_of(source)
    name = "the model" if isinstance(source, bytes) else os.fspath(source)
    reader = getattr(import_module(known.package), known.reader)
    with Guard(name):
        return ModelFile(known, name, reader(source))


def has_library(source: PathOrBytes) -> bool:
    """Whether there is a library that can compute what NNAPI has nothing for, and it is wanted."""
    return settings().cpu_libraries and find_spec(format_of(source).library) is not None


def beside(source: PathOrBytes, refusal: ModelImportError | None, options: Mapping[str, Any]) -> Library | None:
    """The library that can compute what NNAPI has nothing for; None if there is none for the file, or it is not wanted.

    ``refusal`` is the importer's error, if there is one. It gets a line that names the package that is missing.
    ``options`` are those of `ModelFile.load`.
    """
    if not has_library(source):
        if refusal is not None and settings().cpu_libraries:
            package = format_of(source).library.replace("_", "-")
            refusal.add(f"pip install {package} brings what computes the rest of such a model on the CPU")
        return None
    found = format_of(source)
    library: Library = import_module(f"{found.package}.library").Library(source, options)
    return library


def load(
    source: ModelSource,
    *,
    shapes: Shapes | None = None,
    constants: Mapping[str, Any] | None = None,
    round_hybrid: bool = True,
    relaxed: bool = False,
) -> ImportedModel:
    """Import a file once; errors are those of `read` and of `ModelFile.load`."""
    return read(source).load(shapes=shapes, constants=constants, round_hybrid=round_hybrid, relaxed=relaxed)
