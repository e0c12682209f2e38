"""Folding the cells of tables. rich's tables break lines between words only, and cut a long name anywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

GAP = 2
"""Characters between columns."""
_NARROWEST = 8
"""The width below which a column is not folded, even if a part of a name is cut."""
_BREAKS = re.compile(r"(?<=\s)(?=\S)|(?<=\w[_/,:;])(?=\w)|(?<=[^\W_]-)(?=[^\W\d_])|(?<=\w)(?=[./][A-Za-z])")
"""The places where a line may end: after spaces, "_", "-" and others inside of names, and before suffixes."""


def fitting(width: int, rows: Sequence[Sequence[str]], fixed: Sequence[bool]) -> list[int]:
    """The widths of columns so that the rows fit ``width`` characters; those of ``fixed`` columns do not shrink.

    The widest column shrinks first, down to its longest unbreakable part. If that does not suffice, parts are cut too.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, cells)) for cells in columns]
    parts = [max(len(part.rstrip()) for cell in cells for part in _parts(cell)) for cells in columns]
    for least in (parts, [min(part, _NARROWEST) for part in parts]):
        while sum(widths) + GAP * (len(widths) - 1) > width:
            able = [place for place in range(len(widths)) if not fixed[place] and widths[place] > least[place]]
            if not able:
                break
            widths[max(able, key=lambda place: widths[place])] -= 1
    return widths


def fold(cell: str, width: int) -> list[str]:
    """The lines of a cell, none longer than ``width``."""
    if len(cell) <= width:
        return [cell]
    lines = [""]
    for part in _parts(cell):
        if len((lines[-1] + part).rstrip()) > width and lines[-1]:
            lines.append("")
        rest = lines[-1] + part
        while len(rest.rstrip()) > width:
            lines[-1:] = [rest[:width], ""]
            rest = rest[width:]
        lines[-1] = rest
    return [line.rstrip() for line in lines]


def _parts(cell: str) -> list[str]:
    return _BREAKS.split(cell)
