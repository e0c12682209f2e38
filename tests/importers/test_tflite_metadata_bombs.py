"""Small metadata that describe much: they are left out, soon and in little memory, and the model is imported."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
from tflite_metadata import _floats, _offsets, _table

import nnvk
from nnvk.importers.metadata import Metadata
from nnvk.importers.tflite.metadata import read_metadata

SECONDS, MEBIBYTES = 10, 170
READ = """
import json, resource, sys
from nnvk.importers.tflite.metadata import read_metadata
metadata, data = (open(path, "rb").read() for path in sys.argv[1:])
before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
found = read_metadata(metadata, data)
seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
# Not ru_maxrss, which begins with what the process took that this one was forked from.
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(json.dumps([len(found.outputs), seconds, int(peak) >> 10]))
"""
MANY = 4096
Records = Callable[[flatbuffers.Builder], "list[int]"]


def described(records: Records, identifier: bytes = b"M001") -> bytes:
    """Metadata whose subgraph has these records of outputs."""
    b = flatbuffers.Builder(1 << 16)
    subgraphs = _offsets(b, [_table(b, {3: ("offset", _offsets(b, records(b)))})])
    b.Finish(_table(b, {3: ("offset", subgraphs)}), identifier)
    return bytes(b.Output())


def labelled(b: flatbuffers.Builder) -> list[int]:
    file = _table(b, {0: ("offset", b.CreateString("labels.txt")), 2: ("byte", 2)})
    files = _offsets(b, [file])
    return [_table(b, {6: ("offset", files)})] * MANY


def once_labelled(b: flatbuffers.Builder) -> list[int]:
    return labelled(b)[:1]


def archive(content: bytes, method: int = zipfile.ZIP_DEFLATED, entries: int = 1) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as out:
        out.writestr("labels.txt", content)
        for number in range(entries - 1):
            out.writestr(str(number), b"")
    return made.getvalue()


def long_texts(b: flatbuffers.Builder) -> list[int]:
    text = b.CreateString("x" * (1 << 20))
    return [_table(b, {0: ("offset", text), 1: ("offset", text)})] * MANY


def overlapping_texts(b: flatbuffers.Builder) -> list[int]:
    """Texts that begin within each other: what looks like a length stands every four bytes."""
    text = b.CreateByteVector((1 << 16).to_bytes(4, "little") * (1 << 15))
    records = []
    for number in range(MANY):
        b.StartObject(1)
        b.PrependUOffsetTRelativeSlot(0, text - 4 * (number + 1), 0)
        records.append(b.EndObject())
    return records


def many_units(b: flatbuffers.Builder) -> list[int]:
    numbers = _floats(b, [1.0] * MANY)
    options = _table(b, {0: ("offset", numbers), 1: ("offset", numbers)})
    units = _offsets(b, [_table(b, {0: ("byte", 1), 1: ("offset", options)})] * MANY)
    return [_table(b, {4: ("offset", units)})] * MANY


# The archives are made when their test runs: compressing their contents takes seconds.
BOMBS: dict[str, tuple[Records, Callable[[], bytes]]] = {
    "lines without end": (labelled, lambda: archive(b"\n" * (4 << 20))),
    "labels of many outputs": (labelled, lambda: archive(b"x\n" * (1 << 20))),
    "bzip2": (labelled, lambda: archive(bytes(1 << 27), zipfile.ZIP_BZIP2)),
    "lzma": (labelled, lambda: archive(bytes(1 << 27), zipfile.ZIP_LZMA)),
    "an archive that is read for each output": (labelled, lambda: archive(b"", entries=5000)),
    "long texts": (long_texts, bytes),
    "texts within each other": (overlapping_texts, bytes),
    "many units": (many_units, bytes),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name: str, tmp_path: Path) -> None:
    records, make_data = BOMBS[name]
    files = [tmp_path / "metadata", tmp_path / "data"]
    for path, content in zip(files, (described(records), make_data()), strict=True):
        path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", READ, *files],
        capture_output=True,
        text=True,
        timeout=6 * SECONDS,
        env={"PYTHONPATH": str(Path(nnvk.__file__).parents[1])},
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    _, seconds, mebibytes = json.loads(done.stdout)
    assert seconds < SECONDS
    assert mebibytes < MEBIBYTES


def test_what_several_records_name_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    real = zipfile.ZipFile
    data = archive(b"cat\r\ndog\n")

    def dynamic_extent(*arguments: Any) -> zipfile.ZipFile:
        opened.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(zipfile, "ZipFile", dynamic_extent)
    found = read_metadata(described(labelled), data)
    assert len(found.outputs) == MANY
    assert all(one.labels == ("cat", "dog") for one in found.outputs)
    assert len(opened) == 1


def test_what_is_not_marked_as_metadata_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert read_metadata(described(once_labelled), archive(b"cat\n")).outputs
    assert read_metadata(described(once_labelled, b"M002"), archive(b"cat\n")) == Metadata()
    assert "bytes 4 to 8 must be b'M001', got b'M002'" in caplog.text


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_compression_are_left_out(method: int, caplog: pytest.LogCaptureFixture) -> None:
    assert read_metadata(described(labelled), archive(b"cat\n", method)) == Metadata()
    assert f"compressed by method {method}" in caplog.text
