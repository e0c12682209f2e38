"""Lines that commands print, and errors as such."""

from __future__ import annotations

import errno
import os
import sys
import textwrap
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from nnvk.api import NnapiError, ResultCode
from nnvk.base.text import did_you_mean, printable
from nnvk.importers.errors import ModelImportError

LONGEST_LINE = 2000
"""Characters of a line, which may list what there is."""
REPORTED_ERRORS = (NnapiError, OSError, ValueError, ModuleNotFoundError, MemoryError)
"""An error that a user can mend: it is reported in one line. Anything else is a bug and shows its traceback."""
CHECK_FAILED = 1
"""Exit code of a command that did its work, and found that something does not hold."""
FAILURE = 2
"""Exit code of a command that could not do its work: wrong use, or wrong input."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""
CLOSED = 141
"""Exit code where nobody reads on, as in ``| head -1``: 128 and the number of SIGPIPE."""
_NEXT_PROBLEM = "\n  "
"""The beginning of a line of `ModelImportError.reason`."""
_REASONS = {errno.ENOENT: "no such file", errno.EISDIR: "is a folder", errno.ENOTDIR: "not a folder"}
"""Errors of the system in the words of the other messages."""


def print_line(text: str, *, err: bool = False, fold: bool = False) -> None:
    """Print one line, on standard error with ``err``: above a progress bar, if there is one.

    A terminal folds errors between words, and what is printed with ``fold``. The names of files in other lines are not
    separated from them.
    """
    stream = sys.stderr if err else sys.stdout
    line = printable(text, LONGEST_LINE)
    if err or fold:
        line = _between_words(line, stream)
    # typer.echo would write past rich's stand-in for sys.stderr, into the bar.
    print(line, file=stream)


def _between_words(line: str, stream: TextIO) -> str:
    """The line in as many as a terminal needs, indented alike; itself, where the stream is no terminal."""
    with suppress(OSError, ValueError, AttributeError):
        width = os.get_terminal_size(stream.fileno()).columns
        if len(line) > width > 0:
            indent = line[: len(line) - len(line.lstrip())]
            return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return line


def report(error: BaseException, about: str = "", *, with_traceback: bool = False) -> None:
    """Print an error, and what it is about where it does not say so itself, as one line on standard error.

    Each problem of a model that can't be imported is another line, indented.
    ``with_traceback`` prints before it where it came from.
    """
    if with_traceback:
        for line in "".join(traceback.format_exception(error)).splitlines():
            print(printable(line, LONGEST_LINE), file=sys.stderr)  # messages may have names out of a file
    complain(f"{about}{': ' if about else ''}{_first_line(error)}")
    for problem in _problems(error):
        print_line(f"  {problem}", err=True)


@dataclass(slots=True)
class Failures:
    """Errors that leave the rest of the work to be done."""

    traceback: bool
    """Whether to show where they come from."""
    lines: list[tuple[str, str]] = field(default_factory=list)
    """The task that failed, and the reason."""

    def add(self, error: Exception, about: str = "", what: str = "") -> None:
        """Report one, as `report` does; ``what`` is what could not be done where most errors name it themselves."""
        report(error, about or (what if what not in _one_line(error) else ""), with_traceback=self.traceback)
        self.lines.append((about or what, _one_line(error)))

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self.lines)


def complain(message: str) -> None:
    """Print what is wrong as one line on standard error, in the style of all of them."""
    print_line(f"nnvk: {message}", err=True)


def in_style(message: str) -> str:
    """A sentence of another package as nnvk's messages are: in lower case, without a full stop."""
    line = " ".join(message.split()).removesuffix(".")
    return line[:1].lower() + line[1:] if line[1:2].islower() or line[1:2] == " " else line


def _problems(error: BaseException) -> list[str]:
    """The lines below the first: the reasons why a model can't be imported, one for each kind of operator."""
    if not isinstance(error, ModelImportError) or not error.problems:
        return []
    return error.reason.split(_NEXT_PROBLEM)[1:]


def _first_line(error: BaseException) -> str:
    """The line of an error, without its problems."""
    if isinstance(error, ModelImportError) and error.problems:
        return error.reason.split(_NEXT_PROBLEM)[0]
    return _one_line(error)


def _similar_file(error: OSError) -> str:
    """A hint at a file with a similar name, for a file that does not exist."""
    if error.errno != errno.ENOENT or not isinstance(error.filename, str):
        return ""
    path = Path(error.filename)
    try:
        return did_you_mean(path.name, os.listdir(path.parent))
    except OSError:
        return ""


def _one_line(error: BaseException) -> str:
    """An error with all that it says, in one line."""
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".removesuffix(": ")
    if isinstance(error, NnapiError):
        reason = " ".join(error.reason.split())
        return reason if error.code is ResultCode.BAD_DATA else f"{reason} ({error.code.name})"
    if isinstance(error, OSError) and error.strerror:
        is_plain = error.strerror == os.strerror(error.errno or 0)
        words = _REASONS.get(error.errno or 0) if is_plain else None
        line = f"{words or in_style(error.strerror)}{'' if error.filename is None else f': {error.filename}'}"
        return f"{line}{_similar_file(error)}"
    return " ".join(str(error).split()) or type(error).__name__
