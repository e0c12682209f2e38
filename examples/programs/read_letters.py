"""Reads the letters of a small picture with ddddocr: ``pip install ddddocr==1.6.1``."""

from __future__ import annotations

import io

from ddddocr import DdddOcr
from PIL import Image, ImageDraw, ImageFont

letters, boxes = DdddOcr(show_ad=False), DdddOcr(det=True, ocr=False, show_ad=False)


def drawn(size: tuple[int, int], texts: dict[tuple[int, int], str]) -> bytes:
    """The file of a picture with texts at places."""
    picture = Image.new("RGB", size, "white")
    for place, text in texts.items():
        ImageDraw.Draw(picture).text(place, text, "black", ImageFont.load_default(32))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


line, scattered = drawn((120, 44), {(12, 2): "h4x9"}), drawn((300, 150), {(40, 30): "K", (180, 70): "W"})


def answer() -> list[str]:
    """The letters of a line, and the boxes around others."""
    return [letters.classification(line), str(boxes.detection(scattered))]


if __name__ == "__main__":
    print(*answer(), sep="\n")
