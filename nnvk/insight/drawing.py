"""Bar charts with matplotlib: for a page as SVG elements, and as files."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

from nnvk.base.text import printable
from nnvk.insight.comparison import Comparison
from nnvk.insight.difference import LEAST_SHARE

if find_spec("matplotlib") is None:
    raise ModuleNotFoundError("charts need the matplotlib package: pip install matplotlib")
else:
    # Its first import would say on standard error that it makes a cache of fonts, or that it has no place for one.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

_POINTS = 72.0
"""Points of an inch."""
_WIDTH, _ROW, _TITLE, _AXIS, _LEFT, _RIGHT = 280.0, 25.0, 22.0, 46.0, 5.0, 49.0
"""Points: a chart, which fits a phone; a bar with its name; the title; the axis with its label and the legend; the
space on the left for half of a number of the axis; the space on both sides, with numbers on the right."""
_CHARACTER = 5.2
"""Points of a character, mostly."""
_NAMELESS = 0.5
"""The height of a bar without a name, as a share of `_ROW`."""
_FONT = 8.5
_LONGEST = 46
"""Characters of a name that fit."""
_BAR, _OFF, _OTHER, _LIMIT, _LINES = "#4878a8", "#c44e52", "#a0a0a0", "#d99000", "#808080"
"""Colours that can be seen on white and on black."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart."""

    name: str
    """Above the bar; empty for a bar that belongs to the one above it."""
    value: float
    shown: str
    """The value, as it is written."""
    is_off: bool = False
    """Whether it exceeds what is tolerated."""
    tolerated: float | None = None
    """The largest value that is tolerated; None if there is no such limit."""
    is_other: bool = False
    """Whether it is of something that is only compared with."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars below each other, on a linear axis that begins at 0 or on a logarithmic one from `LEAST_SHARE` to 1."""

    title: str
    axis: str
    """The quantity and its unit."""
    bars: Sequence[Bar]
    is_logarithmic: bool = False

    @property
    def label(self) -> str:
        """The label of the axis, which says so if the axis is logarithmic."""
        return f"{self.axis} (logarithmic axis)" if self.is_logarithmic else self.axis


def differences_chart(title: str, comparison: Comparison, most: int | None = None) -> Chart:
    """The differences of a model's operations, ``most`` of them if given, with the tolerance of each."""
    bars = [
        Bar(f"{each.number} {each.operation}", each.of_range, f"{each.of_range:.2g}", each.is_off, each.tolerated)
        for each in comparison.inside[:most]
    ]
    return Chart(title, "share of the reference's range", bars, is_logarithmic=True)


def inline_svg(chart: Chart) -> str:
    """The chart without its title as an ``svg`` element for HTML. Its words have the colour of the text around it."""
    file = BytesIO()
    with _drawn(chart, has_title=False) as figure:
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]  # HTML needs no namespaces
        element.attrib.pop("id", None)  # every chart has the same
        for name in [name for name in element.attrib if name.startswith("{")]:
            del element.attrib[name]
    for name in ("metadata", "defs"):  # defs has a style, which would be for the whole page
        for element in root.findall(name):
            root.remove(element)
    root.set("aria-hidden", "true")  # the table beside it has the numbers
    return ElementTree.tostring(root, encoding="unicode", method="html")


def save(chart: Chart, path: Path, note: str = "") -> None:
    """Write the chart as SVG or PNG, by the file's name; ``note`` is a line in small letters below it."""
    with _drawn(chart, has_title=True, note=note) as figure:
        suffix = path.suffix.lower().removeprefix(".")
        figure.savefig(path, format=suffix, dpi=2 * _POINTS, metadata={"Date": None} if suffix == "svg" else None)


@contextmanager
def _drawn(chart: Chart, *, has_title: bool, note: str = "") -> Iterator[Figure]:
    """The figure, in the style that it has to be saved in, too."""
    style = {"svg.fonttype": "none", "svg.hashsalt": "nnvk", "font.size": _FONT, "text.parse_math": False}
    with rc_context(rc=style), warnings.catch_warnings():  # type: ignore[arg-type]
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the font has not every script
        top = _TITLE * has_title
        height = _ROW * _rows(chart) + _AXIS + top
        figure = Figure((_WIDTH / _POINTS, height / _POINTS))
        numbers = max((len(bar.shown) for bar in chart.bars), default=0) * _CHARACTER
        right = max(_RIGHT, 2 * _LEFT + numbers)
        box = (_LEFT / _WIDTH, _AXIS / height, 1 - right / _WIDTH, 1 - (_AXIS + top) / height)
        axes = figure.add_axes(box)
        _scale(axes, chart)
        _draw(axes, chart)
        if has_title:
            title = printable(chart.title)
            figure.text(_LEFT / _WIDTH, 1 - 13 / height, title, fontweight="bold", fontsize=_FONT - 1)
        if note:
            figure.text(0.99, 4 / height, note, ha="right", color=_LINES, fontsize=_FONT - 2)
        yield figure


def _rows(chart: Chart) -> float:
    """The height of all bars, in `_ROW`."""
    return sum(1 if bar.name else _NAMELESS for bar in chart.bars) or 1


def _scale(axes: Axes, chart: Chart) -> None:
    """Set the axes up."""
    axes.set_ylim(_rows(chart), 0)
    axes.yaxis.set_visible(False)
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(_LINES)
    axes.tick_params(axis="x", bottom=False)  # its marks refer to elements by their ids
    axes.set_xlabel(chart.label, loc="left")
    if chart.is_logarithmic:
        axes.set_xscale("log")
        axes.set_xlim(LEAST_SHARE, 1)
        axes.xaxis.set_major_locator(LogLocator(numticks=5))
    else:
        finite = [bar.value for bar in chart.bars if math.isfinite(bar.value)]
        axes.set_xlim(0, max(finite, default=0.0) or 1.0)
        axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw(axes: Axes, chart: Chart) -> None:
    """Draw each bar below its name, its number behind it, and a line where it would exceed the tolerance."""
    least, most = axes.get_xlim()
    has_limits = False
    marks = [mark for mark in axes.get_xticks() if least <= mark <= most]
    top = 0.0
    for bar in chart.bars:
        row = top if bar.name else top - _NAMELESS
        top += 1 if bar.name else _NAMELESS
        # Not through the names.
        axes.vlines(marks, row + 0.42, row + 0.94, _LINES, alpha=0.35, linewidth=0.6, clip_on=False, zorder=0)
        length = least if math.isnan(bar.value) else min(max(bar.value, least), most)
        colour = _OFF if bar.is_off else _OTHER if bar.is_other else _BAR
        axes.barh(row + 0.68, length - least, 0.4, least, color=colour, clip_on=False)
        axes.annotate(bar.shown, (length, row + 0.68), (3, 0), textcoords="offset points", va="center_baseline")
        if bar.name:
            axes.annotate(_short(bar.name), (0, row + 0.4), (0, 0), ("axes fraction", "data"), "offset points")
        if bar.tolerated:
            at = min(max(bar.tolerated, least), most)
            axes.plot(
                [at, at], [row + 0.42, row + 0.94], color=_LIMIT, linewidth=1.6, clip_on=False, solid_capstyle="butt"
            )
            has_limits = True
    if has_limits:
        axes.annotate("| the tolerance", (0, 0), (0, 4 - _AXIS), "axes fraction", "offset points", color=_LIMIT)


def _short(name: str) -> str:
    """A name that fits, of which the end is kept."""
    name = printable(name)
    return name if len(name) <= _LONGEST else f"..{name[2 - _LONGEST :]}"
