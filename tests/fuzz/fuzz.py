"""Looks for inputs that crash nnvk, hang it, or get an exception that is not NnapiError out of it.

    python tests/fuzz/fuzz.py --seconds 3600 --seed 1 --corpus tests/fuzz/corpus

The inputs are damaged operations (`cases`), serialised models (`programs`) and damaged ``.tflite`` files. What is found is written
to the corpus, which the tests run again; a hang or a crash leaves its input in ``<corpus>/last``.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import random
import struct
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]

import cases
import programs

from nnvk.api import Device, NnapiError, get_devices
from nnvk.importers import tflite

HANG_SECONDS = 60
DEMO = Path(tflite.__file__).parents[2] / "demo" / "data"


def check(kind: str, data: bytes, device: Device) -> str:
    """Run one input. Says how far it got; raises what is a bug."""
    if kind == "case":
        return cases.execute(data, device)
    if kind == "program":
        return programs.execute(data, device)
    try:
        tflite.load(data)
    except NnapiError:
        return "refused by the importer"
    return "imported"


def draw(seeds: list[bytes], choice: random.Random) -> tuple[str, bytes]:
    """The next input."""
    kind = choice.random()
    if kind < 0.4:
        return "case", choice.randbytes(8)
    if kind < 0.7:
        return "program", choice.randbytes(choice.randrange(8, 200))
    data = bytearray(choice.choice(seeds))
    for _ in range(choice.randrange(1, 6)):
        _damage(data, choice)
    return "tflite", bytes(data)


def _damage(data: bytearray, choice: random.Random) -> None:
    if len(data) < 16:
        return
    way, at = choice.random(), choice.randrange(len(data) - 8)
    if way < 0.5:
        data[at] = choice.choice((0, 1, 2, 3, 4, 8, 127, 128, 254, 255, choice.randrange(256)))
    elif way < 0.8:
        number = choice.choice((-1, -2, 0, 1, 2, 1000, 65536, 2**31 - 1, -(2**31), choice.randrange(-10, 10)))
        struct.pack_into("<i", data, at // 4 * 4, number)
    elif way < 0.9:
        del data[at : at + choice.randrange(1, 16)]
    else:
        other = choice.randrange(len(data) - 8)
        data[at : at + 8] = data[other : other + 8]


def fuzz(seconds: float, seed: int, corpus: Path) -> int:
    """Run until the time is over. The number of different bugs found."""
    choice = random.Random(seed)
    devices = get_devices()
    seeds = [path.read_bytes() for path in sorted([*DEMO.glob("*.tflite"), *corpus.glob("tflite-*")])]
    corpus.mkdir(parents=True, exist_ok=True)
    last = corpus / f"last-{seed}"
    outcomes: Counter[str] = Counter()
    found: set[str] = set()
    end, slowest = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        kind, data = draw(seeds, choice)
        device = devices[-1] if choice.random() < 0.7 else devices[0]
        last.write_bytes(data)
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        began = time.monotonic()
        try:
            outcomes[f"{kind}: {check(kind, data, device)}"] += 1
        except Exception as error:
            outcomes[f"{kind}: BUG"] += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            bug = f"{type(error).__name__} at {where.filename}:{where.lineno}"
            if bug not in found:
                found.add(bug)
                name = f"{kind}-{hashlib.sha256(data).hexdigest()[:12]}"
                (corpus / name).write_bytes(data)
                print(f"{name} on {device.name}: {bug}: {error}", flush=True)
        slowest = max(slowest, time.monotonic() - began)
    faulthandler.cancel_dump_traceback_later()
    last.unlink()
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:9} {outcome}")
    print(f"{sum(outcomes.values())} inputs in {seconds:g} s, slowest {slowest:.1f} s, {len(found)} bugs")
    return len(found)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path, default=Path(__file__).parent / "corpus")
    options = parser.parse_args()
    sys.exit(1 if fuzz(options.seconds, options.seed, options.corpus) else 0)


if __name__ == "__main__":
    main()
