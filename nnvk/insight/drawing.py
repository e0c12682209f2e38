"""Bar charts: rectangles and words that become SVG, or a picture by Pillow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image, ImageDraw

from nnvk.base.text import printable

_ROW, _GAP, _LEFT, _WIDTH, _RIGHT = 18, 4, 230, 420, 90
"""Pixels: a bar's row, what is free of it, the space of its name, the longest bar, the space of its number."""
_NAME = 34
"""Characters of a name that fit."""
COLOURS = {"plain": "#4878a8", "off": "#c44e52", "other": "#a0a0a0"}
"""The colours of bars by kind, for light and dark backgrounds."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart."""

    name: str
    value: float
    shown: str
    """The value, as it is written."""
    kind: str = "plain"
    """A key of `COLOURS`."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars below each other, on a linear scale from 0 to the largest, or on a logarithmic one from ``least`` to 1."""

    title: str
    bars: Sequence[Bar]
    least: float = 0.0

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return _LEFT + _WIDTH + _RIGHT, _ROW * (len(self.bars) + 1) + _GAP

    def length(self, bar: Bar) -> float:
        """A bar's length, from 0 to 1."""
        if bar.value <= 0 or math.isnan(bar.value):
            return 0.0
        if math.isinf(bar.value):
            return 1.0
        if not self.least:
            return bar.value / max(other.value for other in self.bars if math.isfinite(other.value))
        return min(1.0, max(0.02, 1 - math.log10(bar.value) / math.log10(self.least)))

    def svg(self) -> ElementTree.Element:
        """The chart as an ``svg`` element, whose words have the colour of the text around it."""
        width, height = self.size
        attributes = {"viewBox": f"0 0 {width} {height}", "role": "img", "xmlns": "http://www.w3.org/2000/svg"}
        style = "font: 12px sans-serif; fill: currentColor; max-width: 100%"
        svg = ElementTree.Element("svg", {**attributes, "width": str(width), "height": str(height), "style": style})
        _word(svg, "title", printable(self.title), {})
        _word(svg, "text", printable(self.title), {"x": "0", "y": str(_ROW - 5), "font-weight": "bold"})
        for row, bar in enumerate(self.bars, 1):
            top, length = row * _ROW, self.length(bar) * _WIDTH
            line = str(top + _ROW - 5)
            _word(svg, "text", _short(bar.name), {"x": str(_LEFT - 6), "y": line, "text-anchor": "end"})
            box = {"x": str(_LEFT), "y": str(top + _GAP / 2), "width": f"{length:.1f}", "height": str(_ROW - _GAP)}
            ElementTree.SubElement(svg, "rect", {**box, "fill": COLOURS[bar.kind]})
            _word(svg, "text", bar.shown, {"x": f"{_LEFT + length + 6:.1f}", "y": line})
        return svg

    def save(self, path: Path) -> None:
        """Write the chart, as SVG or as what Pillow makes of the file's name (ValueError where it can't)."""
        if path.suffix.lower() == ".svg":
            text = ElementTree.tostring(self.svg(), encoding="unicode")
            path.write_text(f"{text}\n", encoding="utf-8")
            return
        image = Image.new("RGB", self.size, "white")
        draw = ImageDraw.Draw(image)
        draw.text((0, _GAP / 2), _ascii(self.title), "black")
        for row, bar in enumerate(self.bars, 1):
            top, length = row * _ROW, self.length(bar) * _WIDTH
            name = _ascii(_short(bar.name))
            draw.text((_LEFT - 6 - draw.textlength(name), top + _GAP / 2), name, "black")
            draw.rectangle((_LEFT, top + _GAP / 2, _LEFT + length, top + _ROW - _GAP / 2), COLOURS[bar.kind])
            draw.text((_LEFT + length + 6, top + _GAP / 2), bar.shown, "black")
        image.save(path)


def _word(parent: ElementTree.Element, tag: str, text: str, attributes: dict[str, str]) -> None:
    ElementTree.SubElement(parent, tag, attributes).text = text


def _short(name: str) -> str:
    """A name that fits, of which the end is kept."""
    name = printable(name)
    return name if len(name) <= _NAME else f"..{name[2 - _NAME :]}"


def _ascii(text: str) -> str:
    """The characters that Pillow's own font has."""
    return printable(text).encode("ascii", "replace").decode("ascii")
