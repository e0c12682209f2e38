"""A folder of results: files of many rows each, every one of them whole, and what they are results of."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nnvk.base.files import make_folder, open_regular, read_text, replacing
from nnvk.batch.input_rows import Rows
from nnvk.inputs.arrays import BROKEN

_ABOUT = "map.json"
_NAMES = "name"
"""The array of rows' names in a file; the outputs are arrays ``0``, ``1``, ...."""
_ROWS = 1024
_BYTES = 64 << 20
_DIGITS = 18
"""A place has fewer digits."""
_NONE = np.zeros(0, np.int64)
_SECONDS = 30.0
"""Rows, bytes and time after which a file is written: what a crash loses at most."""


class Names:
    """A set of rows' names, of which there may be millions: 8 bytes for each that is a place in a file."""

    def __init__(self, names: Iterable[str]) -> None:
        self._others: set[str] = set()
        places: dict[str, list[int]] = {}
        for name in names:
            path, place = _place(name)
            if place < 0:
                self._others.add(name)
            else:
                places.setdefault(path, []).append(place)
        self._places = {path: np.unique(np.array(found, np.int64)) for path, found in places.items()}

    def __contains__(self, name: str) -> bool:
        path, place = _place(name)
        if place < 0:
            return name in self._others
        found = self._places.get(path, _NONE)
        at = np.searchsorted(found, place)
        return bool(at < found.size and found[at] == place)

    def count(self, rows: Rows) -> int:
        """How many of a file's rows are named."""
        if not rows.has_places:
            return int(str(rows.path) in self)
        return int(np.searchsorted(self._places.get(str(rows.path), _NONE), rows.count))


def _place(name: str) -> tuple[str, int]:
    """The file and the place of a row's name; -1 where it is all the name of a file."""
    path, _, place = name.rpartition("#")
    is_place = path and place.isascii() and place.isdecimal() and len(place) < _DIGITS and str(int(place)) == place
    return (path, int(place)) if is_place else (name, -1)


class Results:
    """Adds results to a folder, which is its own as long as it is open. Use it in a ``with`` block."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Open or make a folder. Raises ValueError where it has results of something else, or is in use; OSError."""
        make_folder(folder)
        self._folder = folder
        self._lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._begin(about)
        except BaseException:
            os.close(self._lock)
            raise
        self._names: list[str] = []
        self._rows: list[Sequence[np.ndarray]] = []
        self._bytes = 0
        self._since = time.monotonic()

    def _begin(self, about: Mapping[str, Any]) -> None:
        folder = self._folder
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another process writes results there: {folder}") from None
        path = folder / _ABOUT
        if path.exists():
            try:
                before = json.loads(read_text(path))
            except ValueError as error:
                raise ValueError(f"not what this has written: {path} ({error})") from error
            different = [name for name in about if not isinstance(before, dict) or before.get(name) != about[name]]
            if different:
                raise ValueError(f"the folder has results of another {' and '.join(different)}: {folder}")
        elif any(folder.iterdir()):
            raise ValueError(f"the folder is not empty, and not one of results: {folder}")
        else:
            with replacing(path, 0o666) as file:
                file.write(json.dumps(dict(about), indent=2).encode())
        for left in folder.glob(".*.tmp"):  # of a process that was killed
            left.unlink(missing_ok=True)
        files = _files(folder)
        self._number = 1 + max((int(file.stem) for file in files), default=-1)
        self.before = Names(name for file in files for name in _names_in(file))
        """The names of the rows whose results were there when the folder was opened."""

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._write()
        finally:
            os.close(self._lock)

    def add(self, name: str, outputs: Sequence[np.ndarray]) -> None:
        """Add a row. It is on the disk when its file is full, or some time has passed, or at the end."""
        if self._rows and [(one.shape, one.dtype) for one in self._rows[0]] != [(o.shape, o.dtype) for o in outputs]:
            self._write()  # rows of a file have the same shapes
        self._names.append(name)
        self._rows.append(outputs)
        self._bytes += sum(output.nbytes for output in outputs)
        is_full = len(self._rows) >= _ROWS or self._bytes >= _BYTES
        if is_full or time.monotonic() - self._since > _SECONDS:
            self._write()

    def _write(self) -> None:
        if self._rows:
            arrays = {str(place): np.stack(column) for place, column in enumerate(zip(*self._rows, strict=True))}
            with replacing(self._folder / f"{self._number:06}.npz", 0o666) as file:
                np.savez(file, **{_NAMES: np.array(self._names)}, **arrays)  # type: ignore[arg-type]
            self._number += 1
        self._names, self._rows, self._bytes, self._since = [], [], 0, time.monotonic()


def read_results(folder: Path | str) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The name and the outputs of every row in a folder of results, in the order in which they were computed.

    A first dimension of 1 that outputs have for one row is left out. Raises OSError, and ValueError for a damaged file.
    """
    for path in _files(Path(folder)):
        with _reading(path), open_regular(path) as file, np.load(file, allow_pickle=False) as arrays:
            names = arrays[_NAMES]
            columns = [arrays[str(place)] for place in range(len(arrays.files) - 1)]
            if any(len(column) != len(names) for column in columns):
                raise ValueError("its arrays are of different lengths")
        for row, name in enumerate(names):
            yield str(name), [column[row] for column in columns]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.npz") if path.stem.isdecimal())


def _names_in(path: Path) -> list[str]:
    with _reading(path), open_regular(path) as file, np.load(file, allow_pickle=False) as arrays:
        return [str(name) for name in arrays[_NAMES]]


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever NumPy and zipfile raise for a damaged file becomes a ValueError that names it, and says what to do."""
    try:
        yield
    except (*BROKEN, KeyError, TypeError, MemoryError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"damaged results, without which the rows are computed again: {path} ({why})") from error
