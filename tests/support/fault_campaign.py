"""Loads and runs a model on a driver of which one call fails, each time in a forked process.

As a program, on the faulty driver: its library, ``cold`` or ``warm``, the most calls of each function (0: all), and
models. Set NODEVICE_SELECT=1: Mesa's layer of that name, which older Vulkan loaders put before every driver, crashes
where vkEnumerateDeviceExtensionProperties fails.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nnvk
from nnvk.base import forks

SECONDS = 120
"""The most that a load and a run take, with those after them."""


class Faulty:
    """The faulty driver's own functions, in this process."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.faulty_name.restype = ctypes.c_char_p
        self._library.faulty_errors.restype = self._library.faulty_result.restype = ctypes.c_long
        self._library.faulty_calls.restype = ctypes.c_long

    def fail(self, call: int, error: int) -> None:
        """Let a call fail, counted from now and from 1 on, with one of its errors. 0: none fails."""
        self._library.faulty_fail(ctypes.c_long(call), ctypes.c_long(error))

    def calls(self) -> list[str]:
        """The functions that were called since the last `fail`."""
        count = self._library.faulty_calls()
        return [self._library.faulty_name(ctypes.c_long(call)).decode() for call in range(1, count + 1)]

    def errors(self, function: str) -> int:
        """The number of errors of a function."""
        return int(self._library.faulty_errors(function.encode()))

    def result(self, function: str, error: int) -> int:
        """The VkResult of a function's error."""
        return int(self._library.faulty_result(function.encode(), ctypes.c_long(error)))


@dataclass(frozen=True)
class Outcome:
    """The consequences of a call that fails."""

    call: int
    function: str
    result: int
    kind: str
    """``right``, the name of a result code, ``unreached`` if there were fewer calls than before, or what must not be:
    ``wrong``, ``foreign``, ``next`` (the next load fails), ``died`` and ``hung``."""
    text: str

    @property
    def is_allowed(self) -> bool:
        """Whether it is a right result or a clear error, and the next load works."""
        return self.kind in ("right", "unreached", *nnvk.ResultCode.__members__)


def _loaded_and_run(model: Path) -> list[np.ndarray]:
    """The outputs of a model for inputs that are always the same."""
    loaded = nnvk.load(model, device="vulkan-0")
    rng = np.random.default_rng(1)
    inputs = []
    for port in loaded.inputs:
        kind, shape = np.dtype(port.dtype), tuple(port.shape)
        inputs.append(
            rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
            if kind.kind in "iu"
            else rng.normal(size=shape).astype(kind)
        )
    outputs = loaded(*inputs)
    return [np.asarray(each) for each in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]


def _hex(outputs: list[np.ndarray]) -> list[str]:
    return [each.tobytes().hex() for each in outputs]


def _begin(faulty: Faulty, cold: bool, call: int = 0, error: int = 0) -> None:
    """Let a call fail from now on. ``cold``: forget instance, devices and pipelines before, as a forked child does."""
    gc.collect()
    if cold:
        forks._after_fork_in_child()
    faulty.fail(call, error)


def _one_fault(model: Path, faulty: Faulty, expected: list[str], cold: bool, call: int, error: int) -> tuple[str, str]:
    _begin(faulty, cold, call, error)
    kind, text = "right", ""
    try:
        if _hex(_loaded_and_run(model)) != expected:
            kind = "wrong"
    except nnvk.NnapiError as caught:
        kind, text = caught.code.name, str(caught)
    except Exception:
        return "foreign", traceback.format_exc()
    if call > len(faulty.calls()):
        kind = "unreached"
    faulty.fail(0, 0)
    try:
        again = _hex(_loaded_and_run(model)) == expected
        return (kind, text) if again else ("next", f"after {kind} {text}: wrong results")
    except Exception as caught:
        return "next", f"after {kind} {text}: {caught}"


def _serve(model: Path, library: Path, cold: bool, most: int | None, first: int, pipe: int) -> None:
    """In a forked process: have one call after the other fail, and write an outcome for each, from a number on."""
    faulty = Faulty(library)
    expected = _hex(_loaded_and_run(model))
    _begin(faulty, cold)
    _loaded_and_run(model)
    places: dict[str, list[int]] = {}
    for call, function in enumerate(faulty.calls(), 1):
        places.setdefault(function, []).append(call)
    faults = []
    for function, numbers in places.items():
        step = 1 if most is None else max(1, -(-len(numbers) // most))
        faults += [(function, call, error) for call in numbers[::step] for error in range(faulty.errors(function))]
    with os.fdopen(pipe, "w") as out:
        for number, (function, call, error) in enumerate(faults[first:], first):
            about = [call, function, faulty.result(function, error)]
            print(json.dumps([number, len(faults), *about]), file=out, flush=True)
            signal.alarm(SECONDS)
            print(json.dumps(_one_fault(model, faulty, expected, cold, call, error)), file=out, flush=True)
            signal.alarm(0)


def outcomes(model: Path, library: Path, cold: bool, most: int | None = None) -> Iterator[Outcome]:
    """Yield what follows from each error of each call of a load and a run.

    ``cold``: without the instance, the device and the pipelines of loads before; ``most``: so many calls of each
    function.
    """
    first, total = 0, 1
    while first < total:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _serve(model, library, cold, most, first, writing)
            sys.exit()
        os.close(writing)
        begun: list[Any] = []
        with os.fdopen(reading) as lines:
            for line in lines:
                first, total, *begun = json.loads(line)
                if not (answer := lines.readline()):
                    break
                yield Outcome(*begun, *json.loads(answer))
                first, begun = first + 1, []
        status = os.waitpid(pid, 0)[1]
        if begun:
            number = os.WTERMSIG(status)
            kind = "hung" if number == signal.SIGALRM else "died"
            yield Outcome(*begun, kind, signal.Signals(number).name)
            first += 1
        else:
            assert status == 0, f"a process that has done its work ends with {status}"


def main(library: str, temperature: str, most: str, *models: str) -> None:
    """Print what follows from all faults of some models. The exit status is 1 if that is not always allowed."""
    failed = False
    for model in models:
        start, counts, bad, calls = time.monotonic(), Counter[str](), 0, set()
        for outcome in outcomes(Path(model), Path(library), temperature == "cold", int(most) or None):
            counts[outcome.kind] += 1
            calls.add(outcome.call)
            if not outcome.is_allowed:
                bad += 1
                print(f"{outcome.function} (call {outcome.call}) {outcome.result}: {outcome.kind} {outcome.text}")
            sys.stdout.flush()
        seconds, failed = time.monotonic() - start, failed or bad > 0
        print(f"{model}, {temperature}: {len(calls)} calls, {dict(counts)}, {bad} bad, {seconds:.0f} s", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
