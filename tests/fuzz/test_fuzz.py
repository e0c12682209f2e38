"""A short run of the fuzzer, and everything that it ever found."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from nnvk.api import Device, get_devices

sys.path.insert(0, str(Path(__file__).parent))

import fuzz

CORPUS = Path(__file__).parent / "corpus"
DEVICES = [get_devices()[0], get_devices()[-1]]


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
@pytest.mark.parametrize("seed", range(20))
def test_nothing_but_nnapi_errors(seed: int, device: Device) -> None:
    choice = random.Random(seed)
    seeds = [path.read_bytes() for path in sorted(fuzz.DEMO.glob("*.tflite"))]
    for _ in range(30):
        fuzz.check(*fuzz.draw(seeds, choice), device)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*-*")), ids=lambda path: path.name)
def test_what_was_found(path: Path) -> None:
    for device in DEVICES:
        fuzz.check(path.name.split("-")[0], path.read_bytes(), device)
