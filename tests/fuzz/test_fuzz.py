"""A short run of the fuzzer, and everything that it ever found."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnvk.api import get_devices

sys.path.insert(0, str(Path(__file__).parent))

import files
import fuzz
import mutations
import nets

SECONDS = 10
CORPUS = Path(__file__).parent / "corpus"
DEVICES = list({device.name: device for device in (get_devices()[0], get_devices()[-1])}.values())


@pytest.mark.parametrize("seed", range(12))
def test_nothing_but_nnapi_errors(seed: int) -> None:
    source, device = fuzz.Source(seed), DEVICES[seed % len(DEVICES)]
    for _ in range(50):
        kind, data = source.draw()
        source.learn(kind, data, fuzz.check(kind, data, device))


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*-*")), ids=lambda path: path.name)
def test_what_was_found(path: Path) -> None:
    for device in DEVICES:
        fuzz.check(path.name.split("-")[0], path.read_bytes(), device)


@pytest.mark.parametrize("kind", fuzz.FORMATS)
def test_seeds_are_valid(kind: str) -> None:
    """They are imported and executed as they are; what the fuzzer feeds them may be out of range."""
    for data in files.seeds(kind):
        assert fuzz.check(kind, data, DEVICES[-1]).startswith(("executed", "refused at execution"))


@pytest.mark.parametrize("kind", fuzz.FORMATS)
def test_damaged_files(kind: str) -> None:
    """Each ends in results or an error, soon and in little memory, in Python and in commands."""
    choice, seeds = random.Random(kind), files.seeds(kind)
    answers: Counter[str] = Counter()
    for number in range(120):
        data = mutations.mutate(kind, choice.choice(seeds), choice, seeds)
        began, before = time.process_time(), fuzz.memory()
        answer = fuzz.check("command" if number % 2 else kind, data, DEVICES[number // 2 % len(DEVICES)])
        assert time.process_time() - began < SECONDS
        assert fuzz.memory("VmHWM") - before < fuzz.MOST_GROWTH
        answers[answer.split(":")[0]] += 1
    assert {"executed", "refused by the importer", "info", "run"} <= set(answers)


@pytest.mark.parametrize("kind, way", [("onnx", mutations.protobuf), ("tflite", mutations.flatbuffer)])
def test_mutations_of_fields_leave_files_that_can_be_read(kind: str, way: mutations.Mutation) -> None:
    """They reach what is behind the reader, as few changes of any bytes do."""
    choice, seeds, answers = random.Random(1), files.seeds(kind), Counter[str]()
    for seed in seeds:
        data = bytearray(seed)
        way(data, choice, seeds)
        answers[fuzz.check(kind, bytes(data), DEVICES[-1]).split(":")[0]] += data != seed
    assert answers["executed"] > len(seeds) / 10 and answers["refused by the importer"] > len(seeds) / 10


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
