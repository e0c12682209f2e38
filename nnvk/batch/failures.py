"""Rows that fail, of which there may be millions: they go to a file one by one, and memory keeps the first ones."""

from __future__ import annotations

import csv
import io
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from nnvk.base.files import replacing
from nnvk.base.text import printable

ERRORS = "errors.csv"
"""The file, in the folder of results."""
_LONGEST_CELL = 10_000
"""The most characters of a cell."""
KEPT = 1000
"""Failures that are kept in memory."""


_BEGINS_A_FORMULA = ("=", "+", "-", "@")
"""Programs for tables compute a cell that begins so, even if it comes out of a file."""


def _inert(cell: str) -> str:
    """A cell as text in one line: names of files and errors may hold anything."""
    text = printable(cell, _LONGEST_CELL)
    return f"'{text}" if text.startswith(_BEGINS_A_FORMULA) else text


@dataclass(frozen=True, slots=True)
class Failure:
    """A row without a result."""

    name: str
    reason: str


class Failures:
    """Writes the failures of a run to ``errors.csv`` of a folder. Use it in a ``with`` block.

    The file takes the place of the one before at the block's end, or nothing does where no row has failed. Where the
    block ends with an exception, the file before stays.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ERRORS
        self._stack = ExitStack()
        self._file: BinaryIO | None = None
        self.first: list[Failure] = []
        """The first `KEPT`."""
        self.count = 0

    def __enter__(self) -> Failures:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, traceback)
        if error is None and not self.count:
            self._path.unlink(missing_ok=True)

    def add(self, name: str, reason: str) -> None:
        """Add a row. OSError, which names the file: it can't be written."""
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append(Failure(name, reason))
        if self._file is None:
            self._file = self._stack.enter_context(replacing(self._path, 0o666))
            self._write("row", "error")
        self._write(name, reason)

    def _write(self, *cells: str) -> None:
        assert self._file is not None
        text = io.StringIO()
        csv.writer(text).writerow(map(_inert, cells))
        self._file.write(text.getvalue().encode())
