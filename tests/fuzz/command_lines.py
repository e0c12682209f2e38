"""Commands on damaged files, for the fuzzer: ``nnvk info``, and on some ``nnvk run``, or ``nnvk map`` on a row."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import zlib
from pathlib import Path

import numpy as np
from execution import is_small

import nnvk
from nnvk.api import Device
from nnvk.cli.main import app
from nnvk.importers import formats
from nnvk.importers.ports import ImportedModel

_PACKAGE = str(Path(nnvk.__file__).parent)
_EVERY = 5
"""The fuzzer runs one of so many files, and maps another one."""


class CommandError(AssertionError):
    """A command has ended otherwise than with a result, or an error in one line that nnvk has raised itself."""


def execute(data: bytes, device: Device) -> str:
    """Run a file's commands and return what the last one says. A bug raises an error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("model.tflite" if data[4:8] == b"TFL3" else "model.onnx")
        path.write_bytes(data)
        said = _command("info", path)
        turn = zlib.crc32(data) % _EVERY
        if turn in (0, 1) and said == "info: done" and _is_small(path):
            chosen = ["--device", device.name]
            if turn == 0:
                return _command("run", path, *chosen)
            row = _row(path)
            return _command("map", path, row, "--out", Path(folder) / "out", *chosen)
        return said


def _is_small(path: Path) -> bool:
    try:
        model = _imported(path).model.frozen
    except nnvk.NnapiError:  # a library on the CPU computes it
        return False
    return is_small([operand.type for each in (*model.referenced(), model) for operand in each.operands])


def _imported(path: Path) -> ImportedModel:
    return formats.read(path).load(in_parts=True)


def _row(path: Path) -> Path:
    """A file with zeros for each input."""
    row = path.with_name("row.npz")
    ports = _imported(path).inputs
    np.savez(row, **{str(place): np.zeros(port.shape, port.dtype) for place, port in enumerate(ports)})  # type: ignore[arg-type]
    return row


def _command(*arguments: object) -> str:
    """Run a command; how it ended."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app(["--traceback", *map(str, arguments)])
        except SystemExit as ended:
            code = ended.code or 0
    name, said = arguments[0], err.getvalue()
    if code in (0, 1):
        return f"{name}: {'done' if code == 0 else 'a check failed'}"
    files = re.findall(r'^  File "(.*)", line', said, re.MULTILINE)
    line = said.splitlines()[-1] if said else ""
    if code != 2 or not files or not files[-1].startswith(_PACKAGE) or "this is a bug" in line:
        raise CommandError(f"{name} ends with {code}: {said[-2000:]}")
    return f"{name} {line.replace(str(arguments[1]), '')}"
