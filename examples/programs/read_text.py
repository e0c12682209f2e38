"""Reads the words of a picture with RapidOCR: ``pip install rapidocr==3.10.0``."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr import RapidOCR

page = Image.new("RGB", (560, 180), "white")
draw = ImageDraw.Draw(page)
for top, words in ((30, "Hello world 2026"), (102, "Neural networks")):
    draw.text((30, top), words, "black", ImageFont.load_default(36))
reader = RapidOCR()


def answer() -> list[str]:
    """The lines and their corners."""
    found = reader(np.array(page))
    return [f"{text} {box.round().astype(int).tolist()}" for text, box in zip(found.txts, found.boxes, strict=True)]


if __name__ == "__main__":
    print(*answer(), sep="\n")
