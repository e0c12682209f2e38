"""The pictures of speed have the numbers of the benchmarks' results."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import speed_picture

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
README = IMAGES.parents[1] / "README.md"


def test_the_readme_says_what_the_picture_shows() -> None:
    result = json.loads((speed_picture.RESULTS / "nvidia-h100-80gb-hbm3.json").read_text(encoding="utf-8"))
    bars = speed_picture.picture(result).bars
    ratios = [nnvk.value / peer.value for nnvk, peer in zip(bars[::2], bars[1::2], strict=True)]
    said = f"nnvk takes {min(ratios):.2f} to {max(ratios):.2f} of the time of ncnn's Vulkan path"
    assert f"{said}](docs/images/speed-nvidia-h100.svg)" in README.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("device", "image"), [("nvidia-h100-80gb-hbm3", "speed-nvidia-h100.svg"), ("llvmpipe", "speed-llvmpipe.svg")]
)
def test_it_is_up_to_date(device: str, image: str) -> None:
    """Otherwise: `make docs`."""
    result = json.loads((speed_picture.RESULTS / f"{device}.json").read_text(encoding="utf-8"))
    root = ElementTree.parse(IMAGES / image).getroot()
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    chart = speed_picture.picture(result)
    assert {chart.title, chart.axis} <= set(texts)
    expected = [text for bar in chart.bars for text in (bar.shown, bar.name) if text]
    assert [text for text in texts if text in expected] == expected
    measured = result["models"]["figures"]["resnet50"]
    first = next(place for place, bar in enumerate(chart.bars) if bar.name == "ResNet-50")
    assert [bar.value for bar in chart.bars[first : first + 2]] == [
        pytest.approx(measured[engine]["median_ms"], rel=1e-2) for engine in ("vulkan-0", "ncnn")
    ]
