"""The demo as a whole, on every device that there is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

import nnvk
from nnvk.demo import run_demo
from nnvk.demo.assets import MODELS, pictures
from nnvk.demo.sheet import sheet_size


@pytest.mark.parametrize("device", nnvk.get_devices(), ids=lambda device: device.name)
def test_demo(device: nnvk.Device, tmp_path: Path) -> None:
    lines: list[str] = []

    def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", right: str = "") -> None:
        assert {name.replace(" ", "_") for name in columns} >= set(right.split())
        lines.extend([title, *(" ".join(row) for row in (columns, *rows))])

    sheet = tmp_path / "digits.png"
    demo = run_demo(sheet, device.name)
    assert demo.is_right
    assert [one["right"] for one in demo.figures()["models"]] == [59, 59]
    assert not lines, "the sheet is drawn before anything is printed"
    demo.show(print_table, lines.append)
    printed = "\n".join(lines)
    assert [line for line in lines if line.startswith("* ")] == [f"* {device.name} {device.type.name} {device.version}"]
    for expected in ("float32", "int8", "CONV_2D", "DEPTHWISE_CONV_2D", "SOFTMAX", "98.3%", device.name):
        assert expected in printed
    with Image.open(sheet) as image:
        assert image.size == sheet_size(len(pictures()), guesses=len(MODELS), lines=1 + len(MODELS))


@pytest.mark.parametrize("name", ["abacus", "numpy", "REFERENCE", ""])
def test_unknown_device_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(nnvk.NnapiError, match=rf"BAD_DATA.*'{name}'.*nnapi-reference"):
        run_demo(tmp_path / "sheet.png", name)
    assert not list(tmp_path.iterdir())
