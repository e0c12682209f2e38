"""Rows: what a model is run on, one for each execution, out of files that may have many."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from PIL import Image

from nnvk.base.files import open_regular
from nnvk.base.text import dimensions
from nnvk.importers.ports import Port
from nnvk.inputs.arrays import array_shape, fits, load_arrays
from nnvk.inputs.reader import ARRAY_SUFFIXES, InputReader

parquet: Any = import_module("pyarrow.parquet") if find_spec("pyarrow") else None
arrow: Any = import_module("pyarrow") if find_spec("pyarrow") else None

PARQUET = ".parquet"
_MOST_GROUPS = 3
"""Groups of rows of Parquet files that are kept in memory."""


@dataclass(frozen=True, slots=True)
class Row:
    """One set of inputs."""

    name: str
    """The name of the row: the file, followed by ``#`` and the place in it if the file has several."""
    path: Path
    place: int = -1
    """The place in the file; -1 where the file is one row."""


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows of a file, of which there may be millions."""

    path: Path
    count: int
    has_places: bool
    """Whether the file has rows by their places; else it is one."""

    def __iter__(self) -> Iterator[Row]:
        if self.has_places:
            return (Row(f"{self.path}#{place}", self.path, place) for place in range(self.count))
        return iter([Row(str(self.path), self.path)])


def find_rows(paths: Sequence[Path], ports: Sequence[Port], without: Path | None = None) -> Iterator[Rows]:
    """The rows of files, and of the images, arrays and Parquet files in folders, in the order of their names.

    A file that is given twice has its rows once. ``without`` may be the folder of the results: its files are not rows
    of a folder around it. A file that can't be read is one row, whose error comes when it is read. Raises
    FileNotFoundError, and ModuleNotFoundError for Parquet without pyarrow.
    """
    seen: set[Path] = set()
    suffixes = {*Image.registered_extensions(), ".npy", ".npz", PARQUET}
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(2, "no such file or folder", str(path))
        files = [path]
        if path.is_dir():
            found = (each for each in path.rglob("*") if each.suffix.lower() in suffixes and each.is_file())
            files = sorted(each for each in found if without is None or without.resolve() not in each.resolve().parents)
        for file in files:
            if file not in seen:
                seen.add(file)
                yield _rows_of(file, ports)


def list_rows(inputs: InputReader, paths: Sequence[Path], without: Path | None = None) -> list[Rows]:
    """All of `find_rows`, whose errors it raises, and ValueError.

    ValueError: there is none, or the user gives a normalisation and none is an image.
    """
    found = list(find_rows(paths, inputs.ports, without))
    if not found and without is not None:
        around = without.resolve()
        if any(around in (path.resolve(), *path.resolve().parents) for path in paths):
            raise ValueError(f"the results need a folder without inputs: {without}")
    if not found:
        places = ", ".join(map(str, paths))
        raise ValueError(f"there are no images, .npy, .npz or .parquet files in {places or 'no folder'}")
    if inputs.has_normalization and all(rows.path.suffix.lower() in ARRAY_SUFFIXES for rows in found):
        raise ValueError("mean, std and scale are for images, and no input is one")
    return found


def _rows_of(path: Path, ports: Sequence[Port]) -> Rows:
    count = None
    if path.suffix.lower() == PARQUET:
        if parquet is None:
            raise ModuleNotFoundError(f"to read {path}, install pyarrow: pip install pyarrow")
        try:
            count = _opened(path).metadata.num_rows
        except (OSError, arrow.ArrowException):
            count = None
    elif path.suffix.lower() == ".npy" and len(ports) == 1:
        try:
            count = _rows_in(array_shape(path), ports[0])
        except (OSError, ValueError):
            count = None
    return Rows(path, 1 if count is None else count, has_places=count is not None)


def _opened(path: Path) -> Any:
    """A Parquet file. OSError: it can't be read, or is no regular file."""
    return parquet.ParquetFile(open_regular(path))


def _rows_in(shape: Sequence[int], port: Port) -> int | None:
    """How many rows an array of a shape has; None where it is one input, or none that fits."""
    return shape[0] if shape and not fits(shape, port.shape) and fits(shape[1:], port.shape) else None


@dataclass(frozen=True, slots=True)
class _Table:
    """The properties of a Parquet file."""

    columns: tuple[str, ...]
    """Those of the inputs."""
    starts: tuple[int, ...]
    """The first row of each group, and the number of all rows."""


class Reader:
    """Reads rows as the inputs of a model; threads may share it."""

    def __init__(self, inputs: InputReader) -> None:
        self._inputs = inputs
        self._ports = inputs.ports
        self._groups: OrderedDict[tuple[Path, int], Any] = OrderedDict()
        self._tables: dict[Path, _Table] = {}
        self._lock = Lock()

    def read(self, row: Row) -> list[np.ndarray]:
        """The inputs, as the file of the model has them. Raises ValueError or OSError that says what is wrong."""
        suffix = row.path.suffix.lower()
        if suffix == PARQUET:
            return self._from_parquet(row)
        if suffix == ".npz":
            return load_arrays(row.path, self._ports)
        if len(self._ports) != 1:
            raise ValueError(f"the model has {len(self._ports)} inputs, give a .npz or Parquet: {row.path}")
        if row.place >= 0:
            return [self._inputs.row(0, row.path, row.place)]
        if suffix == ".npy":
            array_shape(row.path)  # one that is cut off may say anything of its shape
        return [self._inputs.file(0, row.path)]

    # --- Parquet -------------------------------------------------------------------------------------------------

    def _from_parquet(self, row: Row) -> list[np.ndarray]:
        try:
            values = self._values(row)
        except arrow.ArrowException as error:
            raise ValueError(f"not a Parquet file that can be read: {row.path} ({error})") from error
        return [self._value(row, name, value, place) for place, (name, value) in enumerate(values.items())]

    def _values(self, row: Row) -> dict[str, Any]:
        """A row's columns, in the order of the inputs: Python's objects."""
        with self._lock:
            table = self._tables.get(row.path)
            if table is None:
                table = self._tables[row.path] = self._table(row.path)
            place = max(row.place, 0)
            if place >= table.starts[-1]:
                raise ValueError(f"there is no row {place}: {row.path}")
            key = row.path, bisect_right(table.starts, place) - 1
            if key not in self._groups:
                self._groups[key] = _opened(row.path).read_row_group(key[1], columns=list(table.columns))
                if len(self._groups) > _MOST_GROUPS:
                    self._groups.popitem(last=False)
            group = self._groups[key]
        (values,) = group.slice(place - table.starts[key[1]], 1).to_pylist()
        return {name: values[name] for name in table.columns}

    def _table(self, path: Path) -> _Table:
        file = _opened(path)
        names = list(file.schema_arrow.names)
        chosen = [port.name for port in self._ports]
        if len(chosen) == len(names) == 1:
            chosen = names
        if any(names.count(name) != 1 for name in chosen):
            raise ValueError(f"the columns must be {', '.join(chosen)}: {path} (found {', '.join(names)})")
        counts = (file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups))
        return _Table(tuple(chosen), (0, *accumulate(counts)))

    def _value(self, row: Row, name: str, value: Any, place: int) -> np.ndarray:
        """An input: the bytes of an image, also as a dictionary has them that other packages write, or numbers."""
        port = self._ports[place]
        if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
            value = value["bytes"]
        if isinstance(value, bytes):
            return self._inputs.image(place, Path(row.name), io.BytesIO(value))
        what = f"column {name} of {row.name}"
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{what}: rows of unequal lengths are no array") from error
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{what}: expected numbers or the bytes of an image, got {type(value).__name__}")
        if -1 in port.shape:
            array = array.reshape(array.shape if fits(array.shape, port.shape) else (1, *array.shape))
        if not fits(array.shape, port.shape) if -1 in port.shape else array.size != int(np.prod(port.shape)):
            raise ValueError(f"{what}: expected {dimensions(port.shape)}, got {dimensions(array.shape)}")
        converted = array.astype(port.dtype)
        if port.dtype.kind in "iu" and (converted != array).any():
            raise ValueError(f"{what}: expected numbers of {port.dtype}, got {array.min()} to {array.max()}")
        return converted if -1 in port.shape else converted.reshape(port.shape)
