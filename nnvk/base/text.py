"""Text that came from elsewhere, fit to be shown: names in files can hold anything, and be megabytes long."""

from __future__ import annotations


def printable(text: str, most: int = 200) -> str:
    """``text`` with all that is not seen escaped, as in Python's string literals, and cut after ``most`` characters.

    Escaped are control characters, those that turn the direction of writing, other invisible ones, and what is no
    Unicode. So it is one line, and does nothing to a terminal.
    """
    cut = f"{text[:most]}..." if len(text) > most else text
    if cut.isprintable():
        return cut
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in cut)
