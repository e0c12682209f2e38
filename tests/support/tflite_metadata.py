"""Builds TFLite's metadata for tests, field by field of ``metadata_schema.fbs``."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers


def metadata(
    name: str, *, mean: Sequence[float] = (), std: Sequence[float] = (), labels: str = "", file_type: int = 2
) -> bytes:
    """Metadata of a model of one input, normalised, and one output, whose labels are in a file of this name."""
    b = flatbuffers.Builder(256)
    units = []
    if mean or std:
        options = _table(b, {0: ("offset", _floats(b, mean)), 1: ("offset", _floats(b, std))})
        units.append(_table(b, {0: ("byte", 1), 1: ("offset", options)}))
    files = [_table(b, {0: ("offset", b.CreateString(labels)), 2: ("byte", file_type)})] if labels else []
    source = _table(b, {0: ("offset", b.CreateString("image")), 4: ("offset", _offsets(b, units))})
    result = _table(b, {0: ("offset", b.CreateString("classes")), 6: ("offset", _offsets(b, files))})
    edges = {2: ("offset", _offsets(b, [source])), 3: ("offset", _offsets(b, [result]))}
    subgraphs = _offsets(b, [_table(b, edges)])
    texts = {field: ("offset", b.CreateString(text)) for field, text in enumerate((name, "says much", "v1")) if text}
    b.Finish(_table(b, {**texts, 3: ("offset", subgraphs)}), b"M001")
    return bytes(b.Output())


def packed(model: bytes, files: Mapping[str, str]) -> bytes:
    """A model with files packed behind it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for name, text in files.items():
            out.writestr(name, text)
    return model + archive.getvalue()


def _table(b: flatbuffers.Builder, fields: Mapping[int, tuple[str, Any]]) -> int:
    b.StartObject(max(fields) + 1)
    for number, (kind, value) in fields.items():
        if kind == "byte":
            b.PrependInt8Slot(number, value, 0)
        else:
            b.PrependUOffsetTRelativeSlot(number, value, 0)
    return b.EndObject()


def _offsets(b: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return b.EndVector()


def _floats(b: flatbuffers.Builder, numbers: Sequence[float]) -> int:
    b.StartVector(4, len(numbers), 4)
    for number in reversed(numbers):
        b.PrependFloat32(number)
    return b.EndVector()
