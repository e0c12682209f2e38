"""Lines that commands print, and errors as such."""

from __future__ import annotations

import typer

from nnvk.api import NnapiError
from nnvk.base.text import printable

LONGEST_LINE = 2000
"""Characters of a line, which may list what there is."""
REPORTED_ERRORS = (NnapiError, OSError, ValueError, ModuleNotFoundError, MemoryError)
"""What a user can cause and mend: reported in one line. Anything else is a bug and shows its traceback."""
FAILURE = 2
"""Exit code of a command that could not do its work."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line, on standard error with ``err``."""
    typer.echo(printable(text, LONGEST_LINE), err=err)


def report(error: BaseException, about: str = "") -> None:
    """Print an error, and what it is about where it does not say so itself, as one line on standard error."""
    print_line(f"nnvk: {about}{': ' if about else ''}{_one_line(error)}", err=True)


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".removesuffix(": ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
