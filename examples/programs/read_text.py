"""Reads the words of a picture with RapidOCR: ``pip install rapidocr``, then ``python read_text.py``."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr import RapidOCR

page = Image.new("RGB", (560, 180), "white")
draw = ImageDraw.Draw(page)
for top, words in ((30, "Hello world 2026"), (102, "Neural networks")):
    draw.text((30, top), words, "black", ImageFont.load_default(36))
found = RapidOCR()(np.array(page))
for text, box in zip(found.txts, found.boxes, strict=True):
    print(text, box.round().astype(int).tolist())
