"""The metadata of a file: TFLite's own, and label files packed behind the model.

The tables are those of ``metadata_schema.fbs`` of TFLite Support, read by the number of a field. Nobody has to believe
them to run the model, so what is damaged is left out, and so is what would make more of a small file than its size
warrants: the metadata have a budget of their own, so that a model does not fail by them. Classes of flatc or of the
package tflite-support, which has none for Python 3.12 and later, would raise at the first damaged table.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator

from flatbuffers.number_types import Int8Flags, Uint8Flags, UOffsetTFlags
from flatbuffers.table import Table

from nnvk.base.forks import cached_property
from nnvk.base.log import logger
from nnvk.importers.budget import Budget
from nnvk.importers.errors import OverBudget
from nnvk.importers.metadata import Metadata, TensorMetadata

_IDENTIFIER = b"M001"
_MOST_BYTES = 4 << 20
"""Size up to which label files are read."""
_MOST_ENTRIES = 4096
"""Entries of one vector that are looked at."""
_LARGEST_DIRECTORY = 1 << 20
"""Bytes of an archive's list of its files that are looked at."""
_END_OF_DIRECTORY = struct.Struct("<4s4H2IH")
"""APPNOTE of ZIP, 4.3.16."""
_FIELD_WORK = 256
"""A field takes as long to be read as so many elements take to be computed."""
_TEXT_COST, _CHARACTER_COST = 64, 4
"""Bytes that a text takes, and each of its characters at most."""
_AXIS_LABELS = 2
"""AssociatedFileType.TENSOR_AXIS_LABELS."""
_NORMALIZATION = 1
"""ProcessUnitOptions.NormalizationOptions."""
_DAMAGED = (
    *(struct.error, IndexError, ValueError, TypeError, OverflowError, KeyError, EOFError, OSError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
)
"""Exceptions for offsets that lead nowhere, and for archives that are broken, encrypted or of an unknown kind."""
_log = logger("model")


def read_metadata(metadata: bytes, data: bytes) -> Metadata:
    """The metadata of a model out of its buffer, and out of the archive that the file ``data`` ends with."""
    try:
        return _read(_Source(metadata, data))
    except (*_DAMAGED, OverBudget) as error:
        _log.warning("the metadata can't be read and is left out: %s", error)
        return Metadata()


def _read(source: _Source) -> Metadata:
    metadata = source.metadata
    if metadata[4:8] != _IDENTIFIER:
        raise ValueError(f"bytes 4 to 8 must be {_IDENTIFIER!r}, got {metadata[4:8]!r}")
    root = _Record(Table(metadata, struct.unpack_from("<I", metadata)[0]), source)
    name, description, version, author, license_ = (root.text(field) for field in (0, 1, 2, 4, 5))
    subgraph = next(root.records(3), None)
    inputs, outputs = (
        () if subgraph is None else tuple(_tensor(record, source) for record in subgraph.records(field))
        for field in (2, 3)
    )
    return Metadata(name, description, version, author, license_, inputs, outputs)


def _tensor(record: _Record, source: _Source) -> TensorMetadata:
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    for unit in record.records(4):
        options = unit.record(1)
        if unit.number(0, Uint8Flags) == _NORMALIZATION and options is not None:
            mean, std = options.reals(0), options.reals(1)
    if not (mean and std and all(map(math.isfinite, (*mean, *std))) and all(std)):
        mean, std = (), ()
    named = (file.text(0) for file in record.records(6) if file.number(2, Int8Flags) == _AXIS_LABELS)
    file = next(named, None)
    return TensorMetadata(record.text(0), record.text(1), () if file is None else source.labels(file), mean, std)


class _Source:
    """A model's metadata, and the files behind the model. A file that several records name is read once."""

    def __init__(self, metadata: bytes, data: bytes) -> None:
        self.metadata = metadata
        self.budget = Budget(len(metadata))
        self._data = data
        self._texts: dict[int, str] = {}
        self._labels: dict[str, tuple[str, ...]] = {}

    def text(self, table: Table, at: int) -> str:
        """The text of a field."""
        place = at + table.Get(UOffsetTFlags, at)
        if place not in self._texts:
            self.budget.charge(_TEXT_COST + _CHARACTER_COST * int(table.Get(UOffsetTFlags, place)))
            self._texts[place] = table.String(at).decode("utf-8", "replace")
        return self._texts[place]

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        at = self._data.rfind(b"PK\5\6", -_END_OF_DIRECTORY.size - 0xFFFF)
        if at < 0:
            raise zipfile.BadZipFile("there is no archive behind the model")
        nbytes = _END_OF_DIRECTORY.unpack_from(self._data, at)[5]
        if nbytes > _LARGEST_DIRECTORY:
            raise ValueError(f"the list of the files behind the model has {nbytes} bytes")
        return zipfile.ZipFile(io.BytesIO(self._data))

    def labels(self, name: str) -> tuple[str, ...]:
        """The lines of a file behind the model."""
        if name not in self._labels:
            entry = self._archive.getinfo(name)
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others may take gigabytes
                raise ValueError(f"labels are compressed by method {entry.compress_type}")
            with self._archive.open(entry) as file:
                content = file.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise ValueError(f"the labels are more than {_MOST_BYTES} bytes")
            self.budget.charge(_TEXT_COST * content.count(b"\n") + _CHARACTER_COST * len(content))
            text = content.decode("utf-8").rstrip("\r\n").replace("\r\n", "\n")
            self._labels[name] = tuple(text.split("\n"))
        return self._labels[name]


class _Record:
    """A table, whose fields are known by their numbers."""

    def __init__(self, table: Table, source: _Source) -> None:
        self._table = table
        self._source = source

    def _at(self, field: int) -> int:
        """Where a field is; 0 where it is left out."""
        self._source.budget.work(_FIELD_WORK)
        offset: int = self._table.Offset(4 + 2 * field)
        return offset and offset + self._table.Pos

    def text(self, field: int) -> str:
        at = self._at(field)
        return self._source.text(self._table, at) if at else ""

    def number(self, field: int, flags: type) -> int:
        at = self._at(field)
        return int(self._table.Get(flags, at)) if at else 0

    def record(self, field: int) -> _Record | None:
        at = self._at(field)
        return _Record(Table(self._table.Bytes, self._table.Indirect(at)), self._source) if at else None

    def _vector(self, field: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        at = self._at(field)
        if not at:
            return 0, 0
        start = at + self._table.Get(UOffsetTFlags, at)
        count = int(self._table.Get(UOffsetTFlags, start))
        if count > _MOST_ENTRIES:
            raise ValueError(f"a vector has {count} entries")
        self._source.budget.work(count)
        return start + 4, count

    def reals(self, field: int) -> tuple[float, ...]:
        start, count = self._vector(field)
        return struct.unpack_from(f"<{count}f", self._table.Bytes, start)

    def records(self, field: int) -> Iterator[_Record]:
        start, count = self._vector(field)
        for i in range(count):
            yield _Record(Table(self._table.Bytes, self._table.Indirect(start + 4 * i)), self._source)
