"""What a file's author says of its inputs and outputs: TFLite's metadata, and label files packed behind the model.

The tables are those of ``metadata_schema.fbs`` of TFLite Support, read by the number of a field. Nobody has to believe
them to run the model, so what is damaged is left out.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np
from flatbuffers.number_types import Float32Flags, Int8Flags, Uint8Flags, UOffsetTFlags
from flatbuffers.table import Table

from nnvk.base.log import logger
from nnvk.importers.metadata import Metadata, TensorMetadata

_IDENTIFIER = b"M001"
_MOST_BYTES = 4 << 20
"""Size up to which label files are read."""
_MOST_ENTRIES = 4096
"""Entries of one vector that are looked at."""
_AXIS_LABELS = 2
"""AssociatedFileType.TENSOR_AXIS_LABELS."""
_NORMALIZATION = 1
"""ProcessUnitOptions.NormalizationOptions."""
_DAMAGED = (
    *(struct.error, IndexError, ValueError, TypeError, OverflowError, KeyError, EOFError, OSError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
)
"""What is raised on offsets that lead nowhere, and on archives that are broken, encrypted or of an unknown kind."""
_log = logger("model")


def read_metadata(metadata: bytes, data: bytes) -> Metadata:
    """The metadata of a model out of its buffer, and out of the archive that the file ``data`` ends with."""
    try:
        return _read(metadata, data)
    except _DAMAGED as error:
        _log.warning("the metadata can't be read and is left out: %s", error)
        return Metadata()


def _read(metadata: bytes, data: bytes) -> Metadata:
    if metadata[4:8] != _IDENTIFIER:
        raise ValueError(f"bytes 4 to 8 must be {_IDENTIFIER!r}, got {metadata[4:8]!r}")
    root = _Record(Table(metadata, struct.unpack_from("<I", metadata)[0]))
    name, description, version, author, license_ = (root.text(field) for field in (0, 1, 2, 4, 5))
    subgraph = next(root.records(3), None)
    inputs, outputs = (
        () if subgraph is None else tuple(_tensor(record, data) for record in subgraph.records(field))
        for field in (2, 3)
    )
    return Metadata(name, description, version, author, license_, inputs, outputs)


def _tensor(record: _Record, data: bytes) -> TensorMetadata:
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
    return TensorMetadata(record.text(0), record.text(1), () if file is None else _labels(file, data), mean, std)


def _labels(name: str, data: bytes) -> tuple[str, ...]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(name) as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"the labels are more than {_MOST_BYTES} bytes")
    return tuple(text.decode("utf-8").rstrip("\r\n").replace("\r\n", "\n").split("\n"))


class _Record:
    """A table, whose fields are known by their numbers."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def _at(self, field: int) -> int:
        """Where a field is; 0 where it is left out."""
        offset: int = self._table.Offset(4 + 2 * field)
        return offset and offset + self._table.Pos

    def text(self, field: int) -> str:
        at = self._at(field)
        return self._table.String(at).decode("utf-8", "replace") if at else ""

    def number(self, field: int, flags: type) -> int:
        at = self._at(field)
        return int(self._table.Get(flags, at)) if at else 0

    def record(self, field: int) -> _Record | None:
        at = self._at(field)
        return _Record(Table(self._table.Bytes, self._table.Indirect(at))) if at else None

    def _vector(self, field: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        at = self._at(field)
        if not at:
            return 0, 0
        start = at + self._table.Get(UOffsetTFlags, at)
        count = int(self._table.Get(UOffsetTFlags, start))
        if count > _MOST_ENTRIES:
            raise ValueError(f"a vector has {count} entries")
        return start + 4, count

    def reals(self, field: int) -> tuple[float, ...]:
        start, count = self._vector(field)
        return tuple(float(np.float32(self._table.Get(Float32Flags, start + 4 * i))) for i in range(count))

    def records(self, field: int) -> Iterator[_Record]:
        start, count = self._vector(field)
        for i in range(count):
            yield _Record(Table(self._table.Bytes, self._table.Indirect(start + 4 * i)))
