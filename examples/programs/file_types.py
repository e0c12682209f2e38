"""Tells the types of files from their bytes with Magika: ``pip install magika``, then ``python file_types.py``."""

from __future__ import annotations

from magika import Magika

magika = Magika()
for content in b"# Title\n\nSome *text* and a [link](https://example.org).\n", b"def f(x):\n    return x + 1\n":
    found = magika.identify_bytes(content)
    print(found.output.label, f"{found.score:.2f}")
