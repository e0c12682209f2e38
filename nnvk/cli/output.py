"""The output of commands: tables, progress on a terminal, JSON, files.

All text goes through `printable`, for names in models and vectors may hold anything. It is plain text everywhere: a
terminal gets its tables folded to its width and its progress bars, a pipe or file neither, whatever FORCE_COLOR says.
Progress bars are rich's. Its tables are not used: they fold names anywhere, and a pipe gets them 80 columns wide.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from nnvk import __version__
from nnvk.api import Device, get_devices
from nnvk.base.files import is_folder, unwritable, writing
from nnvk.base.text import printable
from nnvk.cli.folding import fitting, fold
from nnvk.cli.lines import print_line
from nnvk.cli.usage import STANDARD_OUTPUT


def is_terminal(stream: Any) -> bool:
    """Whether somebody looks at what is printed."""
    return bool(stream.isatty())


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", right: str = "", optional: str = ""
) -> None:
    """Print rows in columns; those whose names are in the space-separated ``right`` are aligned right.

    A column's name in ``right`` has "_" for " ". Columns of ``optional`` are left out where nothing is in them. On a
    terminal that is too narrow, columns on the left are folded: between words, or between the parts of a name.
    """
    kept = [
        place
        for place, name in enumerate(columns)
        if name.replace(" ", "_") not in optional.split() or any(row[place] for row in rows)
    ]
    columns = [columns[place] for place in kept]
    rows = [[printable(row[place]) for place in kept] for row in rows]
    to_right = [name.replace(" ", "_") in right.split() for name in columns]
    if title:
        print_line(title)
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    if is_terminal(sys.stdout):
        widths = fitting(Console().width, [columns, *rows], to_right)
    for row in (columns, *rows):
        folded = [fold(cell, width) for cell, width in zip(row, widths, strict=True)]
        for lines in zip_longest(*folded, fillvalue=""):
            cells = [
                cell.rjust(width) if numeric else cell.ljust(width)
                for cell, width, numeric in zip(lines, widths, to_right, strict=True)
            ]
            typer.echo("  ".join(cells).rstrip())


def bar(length: float, width: int = 16) -> str:
    """A bar of a plot in text, of ``length`` from 0 to 1: blocks on a terminal that can show them."""
    cells = round(length * width)
    can_block = is_terminal(sys.stdout) and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return ("\u2588" if can_block else "#") * (max(cells, 1) if length > 0 else 0)


def _moving() -> Console | None:
    """Standard error, where it is a terminal on which lines can be written again."""
    can_move = is_terminal(sys.stderr) and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return Console(stderr=True, color_system=None, highlight=False) if can_move else None


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error, if that is a terminal. Call the yielded function ``total`` times.

    The argument of the call is a note to show beside the bar.
    """
    with _bar(description, total) as (bar, task):
        yield lambda note: bar.update(task, advance=1, note=printable(note))


@contextmanager
def counted(before: str, description: str) -> Iterator[Callable[[int], Callable[[int], None]]]:
    """A progress bar whose length comes later: call what it yields with that, and the result with each advance.

    Until the length comes, the bar has the description ``before``.
    """
    with _bar(before, None) as (bar, task):

        def begin(total: int) -> Callable[[int], None]:
            bar.update(task, total=total, description=escape(printable(description)))
            return lambda count: bar.update(task, advance=count)

        yield begin


@contextmanager
def _bar(description: str, total: int | None) -> Iterator[tuple[Progress, TaskID]]:
    """A bar that is shown where somebody looks."""
    console = _moving()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(10),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        # The note gets what is left of the line; otherwise rich cuts all columns.
        TextColumn("{task.fields[note]}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
    )
    bar = Progress(*columns, console=console, transient=True, disable=console is None, expand=True)
    with bar:
        yield bar, bar.add_task(escape(printable(description)), total=total, note="")


def working(description: str) -> AbstractContextManager[Any]:
    """A spinner on standard error, if that is a terminal, for work whose length nobody knows."""
    console = _moving()
    return nullcontext() if console is None else console.status(escape(printable(description)))


def deliver(
    json_file: Path | None, content: Mapping[str, Any], show: Callable[[], None], *written: Path | None
) -> None:
    """Give the result of a command: JSON where that is asked for, and the text that ``show`` prints.

    A file of JSON is written before anything is printed; JSON on standard output takes the place of the text, which
    ends with the names of the files that were ``written``.
    """
    if json_file is not None:
        value = {"version": __version__, "devices": [describe_device(device) for device in get_devices()], **content}
        if json_file == STANDARD_OUTPUT:
            typer.echo(json.dumps(value, indent=2, allow_nan=False))
            return
        write_json(json_file, value)
    show()
    for path in (*written, json_file):
        if path is not None:
            print_line(f"wrote {path}")


def describe_device(device: Device) -> dict[str, Any]:
    """A device, with its driver and version, as JSON has it."""
    return {
        "name": device.name,
        "type": device.type.name,
        "driver": device.version,
        "feature_level": int(device.feature_level),
        "extensions": list(device.extensions),
        "capabilities": {
            "relative_time": device.capabilities.relative_time,
            "relative_power": device.capabilities.relative_power,
        },
    }


def write_json(path: Path, value: Any) -> None:
    """Write JSON to a file. Raises OSError that names it."""
    with writing(path):
        path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")


PAGES = (".html", ".htm")
"""The formats of pages."""
_PICTURES = (".svg", ".png", ".pdf", ".jpg", ".jpeg")


def check_suffix(option: str, path: Path | None, suffixes: Sequence[str]) -> None:
    """Raise ValueError unless the name of the file that an option gives ends in one of these suffixes.

    Devices and pipes may have any name.
    """
    if path is None or path.suffix.lower() in suffixes or (path.exists() and not path.is_file()):
        return
    raise ValueError(f"the name of {option} must end in {' or '.join(suffixes)}: {path}")


def check_dot(path: Path | None) -> None:
    """Raise ValueError for a file of Graphviz that is called a picture."""
    if path is not None and path.suffix.lower() in _PICTURES:
        kind = path.suffix.lower()[1:]
        raise ValueError(
            f"--dot writes text for Graphviz, not a {kind}: {path}; `dot -T{kind} x.dot -o {path.name}` draws it"
        )


def check_writable(*paths: Path | None) -> None:
    """Raise OSError for the first of these files that could not be written, and leave nothing behind.

    Called before long work, so that it is not done in vain.
    """
    for path in paths:
        if path is None or path == STANDARD_OUTPUT:
            continue
        if is_folder(path):
            raise unwritable(errno.EISDIR, path)
        if not is_folder(path.parent):
            reason = "not a folder" if path.parent.exists() else "there is no such folder"
            raise NotADirectoryError(errno.ENOTDIR, f"can't write {path.name} there ({reason})", str(path.parent))
        if not path.exists():
            _try_to_create(path)
            continue
        if not os.access(path, os.W_OK):
            is_read_only = os.statvfs(path).f_flag & os.ST_RDONLY
            raise unwritable(errno.EROFS if is_read_only else errno.EACCES, path)


def _try_to_create(path: Path) -> None:
    """Create a file and remove it: permissions do not tell whether a folder takes files, as those of /proc show."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:  # a link to a file that does not exist
        return
    except OSError as error:
        raise unwritable(error.errno or errno.EIO, path) from error
    path.unlink()
