"""Charts: the lengths of bars, the axes, the lines of tolerances, and names that hold anything."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from nnvk.insight.drawing import Bar, Chart, inline_svg, save

BLUE, RED, ORANGE = "#4878a8", "#c44e52", "#d99000"


def shapes(chart: Chart, colour: str) -> list[tuple[float, float]]:
    """The least and the largest x of each shape of a colour, from the top down."""
    found = []
    for path in ElementTree.fromstring(inline_svg(chart)).iter("path"):
        if f": {colour}" in path.get("style", ""):
            xs = [float(x) for x, _ in re.findall(r"([\d.]+) ([\d.]+)", path.get("d", ""))]
            found.append((min(xs), max(xs)))
    return found


def test_lengths_on_a_linear_axis() -> None:
    chart = Chart(
        "time", "ms", [Bar("a", 4.0, "4.0"), Bar("b", 1.0, "1.0"), Bar("c", 0.0, "0"), Bar("d", 2.0, "2", True)]
    )
    lengths = [most - least for least, most in shapes(chart, BLUE)]
    assert lengths[1] / lengths[0] == pytest.approx(0.25, abs=0.01)
    assert lengths[2] == 0
    ((least, most),) = shapes(chart, RED)
    assert (most - least) / lengths[0] == pytest.approx(0.5, abs=0.01)
    assert "logarithmic" not in inline_svg(chart)


def test_lengths_on_a_logarithmic_axis() -> None:
    values = [1.0, 1e-3, 1e-6, 0.0, math.nan, math.inf, 1e-12]
    chart = Chart("differences", "share", [Bar("a", value, "x") for value in values], is_logarithmic=True)
    lengths = np.array([most - least for least, most in shapes(chart, BLUE)])
    np.testing.assert_allclose(lengths / lengths[0], [1, 2 / 3, 1 / 3, 0, 0, 1, 0], atol=0.01)
    assert "share (logarithmic axis)" in inline_svg(chart)


def test_the_tolerance_is_a_line() -> None:
    bars = [Bar("a", 1e-3, "x", True, 1e-6), Bar("b", 1e-7, "x", False, 1e-3), Bar("c", 0.0, "0", False, 0.0)]
    chart = Chart("differences", "share", bars, is_logarithmic=True)
    lines = shapes(chart, ORANGE)
    assert [least == most for least, most in lines] == [True, True]
    assert lines[0][0] < shapes(chart, RED)[0][1]
    assert lines[1][0] == pytest.approx(shapes(chart, RED)[0][1], abs=0.1)
    assert "the tolerance" in inline_svg(chart)
    assert "the tolerance" not in inline_svg(Chart("time", "ms", [Bar("a", 1.0, "1")]))


def test_text_takes_the_colour_around_it_and_nothing_refers_to_an_id() -> None:
    text = inline_svg(Chart("time", "ms", [Bar("</text><script>$x_1$ 犬\x1b", 1.0, "1")]))
    root = ElementTree.fromstring(text)
    assert not [element.tag for element in root.iter() if "id" in element.attrib or "href" in element.attrib]
    assert all("fill" not in element.get("style", "") for element in root.iter("text"))
    assert "</text><script>$x_1$ 犬\\x1b" in [element.text for element in root.iter("text")]
    assert "url(" not in text


@pytest.mark.filterwarnings("error")
def test_files(tmp_path: Path) -> None:
    chart = Chart("a.tflite: 犬", "share", [Bar("犬" * 60, 0.5, "0.5", True, 0.1), Bar("b", 0.0, "0")], True)
    save(chart, tmp_path / "x.svg", "2026-11-28, nnvk 0.1.0")
    assert "2026-11-28, nnvk 0.1.0" in (tmp_path / "x.svg").read_text()
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"a.tflite: 犬", f"..{'犬' * 44}", "0.5", "b"} <= set(texts)
    save(chart, tmp_path / "x.PNG")
    with Image.open(tmp_path / "x.PNG") as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 20) or []}
    assert {(255, 255, 255), (0xC4, 0x4E, 0x52), (0xD9, 0x90, 0x00)} <= colours


def test_a_chart_without_bars() -> None:
    assert "ms" in inline_svg(Chart("time", "ms", []))
