"""A short run of the fuzzer, and everything that it ever found."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnvk.api import Device, get_devices

sys.path.insert(0, str(Path(__file__).parent))

import files
import fuzz
import nets

CORPUS = Path(__file__).parent / "corpus"
DEVICES = list({device.name: device for device in (get_devices()[0], get_devices()[-1])}.values())


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
@pytest.mark.parametrize("seed", range(12))
def test_nothing_but_nnapi_errors(seed: int, device: Device) -> None:
    source = fuzz.Source(seed)
    for _ in range(50):
        kind, data = source.draw()
        source.learn(kind, data, fuzz.check(kind, data, device))


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*-*")), ids=lambda path: path.name)
def test_what_was_found(path: Path) -> None:
    for device in DEVICES:
        fuzz.check(path.name.split("-")[0], path.read_bytes(), device)


def test_seeds_are_valid() -> None:
    """They are imported and executed as they are; what the fuzzer feeds them may be out of range."""
    for data in files.seeds():
        assert files.execute(data, DEVICES[-1]).startswith(("executed", "refused at execution"))


@pytest.mark.parametrize("make", nets.KINDS, ids=lambda make: make.__name__)
def test_files_that_describe_much_are_no_mere_nonsense(make: Callable[[np.random.Generator], bytes]) -> None:
    answers = {files.execute(make(np.random.default_rng(seed)), DEVICES[-1]).split(":")[0] for seed in range(20)}
    assert {"executed", "refused by the importer"} <= answers


def test_drawing_is_deterministic() -> None:
    one, other = fuzz.Source(7), fuzz.Source(7)
    assert [one.draw() for _ in range(50)] == [other.draw() for _ in range(50)]


def test_answers_that_are_new_are_kept() -> None:
    source = fuzz.Source(0)
    before = len(source._kept["program"])
    for number in (1, 2):
        source.learn("program", b"a", f"refused by finish: got {number}")
    source.learn("program", b"b", "refused by finish: another")
    assert len(source._kept["program"]) == before + 2
