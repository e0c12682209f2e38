"""Tells the types of files from their bytes with Magika: ``pip install magika==1.0.3``."""

from __future__ import annotations

from magika import Magika

FILES = b"# Title\n\nSome *text* and a [link](https://example.org).\n", b"def f(x):\n    return x + 1\n"
magika = Magika()


def answer() -> list[str]:
    """The types and their scores."""
    found = [magika.identify_bytes(content) for content in FILES]
    return [f"{one.output.label} {one.score:.2f}" for one in found]


if __name__ == "__main__":
    print(*answer(), sep="\n")
