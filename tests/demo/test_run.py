"""The demo as a whole, on every device that there is."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

import nnvk
from nnvk.demo import run_demo
from nnvk.demo.assets import MODELS, pictures
from nnvk.demo.run import choose_device
from nnvk.demo.sheet import sheet_size


@pytest.mark.parametrize("device", nnvk.get_devices(), ids=lambda device: device.name)
def test_demo(device: nnvk.Device, tmp_path: Path) -> None:
    text, sheet = io.StringIO(), tmp_path / "digits.png"
    assert run_demo(sheet, device.name, Console(file=text, width=200)) == 0
    printed = text.getvalue()
    for expected in ("float32", "int8", "CONV_2D", "DEPTHWISE_CONV_2D", "SOFTMAX", "98.3%", device.name, sheet.name):
        assert expected in printed
    with Image.open(sheet) as image:
        assert image.size == sheet_size(len(pictures()), guesses=len(MODELS), lines=1 + len(MODELS))


def test_devices_are_chosen_by_name() -> None:
    devices = nnvk.get_devices()
    assert choose_device(devices, None) is devices[0]
    assert all(choose_device(devices, device.name) is device for device in devices)
    assert choose_device(devices, "REFERENCE").name == "nnapi-reference"
    assert choose_device(devices, "numpy").name == "nnapi-reference"


def test_unknown_device_is_refused() -> None:
    with pytest.raises(nnvk.NnapiError, match=r"BAD_DATA.*'abacus'.*nnapi-reference"):
        choose_device(nnvk.get_devices(), "abacus")
