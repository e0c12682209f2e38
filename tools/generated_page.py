"""Write pages of ``docs/`` that a tool generates, whole or between marks, and check that they are up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def between(text: str, begin: str, end: str, content: str) -> str:
    """A text with new content between two marks. ValueError: a mark is missing."""
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"the page lacks {begin}, or {end} after it")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def run(tool: str, path: Path, page: Callable[[str], str], arguments: Sequence[str] | None, description: str) -> int:
    """Run a tool that writes a page and return the exit status.

    ``page`` makes the new text of the page from the old one, which is empty if there is no page. With ``--check`` the
    page is only compared: the status is 1 if it is not up to date.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    options = parser.parse_args(arguments)
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    new = page(old)
    if options.check:
        if old == new:
            return 0
        print(f"{path} is not up to date: run python tools/{Path(tool).name}", file=sys.stderr)
        return 1
    path.parent.mkdir(exist_ok=True)
    path.write_text(new, encoding="utf-8")
    return 0
