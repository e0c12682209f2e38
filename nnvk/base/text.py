"""Text that came from elsewhere, fit to be shown: names in files can hold anything, and be megabytes long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path


def printable(text: str, most: int = 200) -> str:
    """``text`` with all that is not seen escaped, as in Python's string literals, and cut after ``most`` characters.

    Escaped are control characters, those that turn the direction of writing, other invisible ones, and what is no
    Unicode. So it is one line, and does nothing to a terminal.
    """
    cut = f"{text[:most]}..." if len(text) > most else text
    if cut.isprintable():
        return cut
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in cut)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names the known name that is most like a wrong one, ``; did you mean 'image'?``, or nothing."""
    lowered = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), list(lowered), 1)
    return f"; did you mean {printable(lowered[close[0]])!r}?" if close else ""


def plural(count: int, thing: str) -> str:
    """``1 model``, ``2 models``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def dimensions(shape: Sequence[int], unknown: int = -1) -> str:
    """A shape for people: ``1x16x16x3``, with ``?`` for a size that is not known; ``scalar`` where there are none.

    ``unknown`` stands for such a size: -1 in the shapes of files, 0 in those of NNAPI's operands.
    """
    return "x".join("?" if size == unknown else str(size) for size in shape) or "scalar"


def milliseconds(nanoseconds: float | None) -> str:
    """A duration in milliseconds, to three significant digits at least; "-" where it is not known."""
    if nanoseconds is None:
        return "-"
    value = nanoseconds / 1e6
    return f"{value:.0f}" if value >= 1000 else f"{value:.{1 if value >= 100 else 2 if value >= 10 else 3}f}"


def megabytes(nbytes: float) -> str:
    """A size in MB of a million bytes, to two digits behind the point."""
    return f"{nbytes / 1e6:.2f}"


def title(path: Path, among: Sequence[Path]) -> str:
    """A model's name: its file's, with as many folders as tell it from the others of the same name."""
    parts = path.resolve().parts
    others = {other.resolve().parts for other in among} - {parts}
    for count in range(1, len(parts)):
        if all(other[-count:] != parts[-count:] for other in others):
            return "/".join(parts[-count:])
    return str(path)
