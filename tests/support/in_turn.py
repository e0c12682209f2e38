"""Lets devices and numbers take turns over the cases of a test, with ``--in-turn``.

Compiling shaders takes most of the tests' time. Each profile of the Vulkan device compiles its own, so each case of a
driver's test runs on one of them. Importers' tests are about how operators are mapped, which the reference device
shows, so a third of their cases runs on the Vulkan device too.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Collection

import pytest

_ONE_IN = 3
"""One in so many runs of the cases that differ in numbers, and of an importer's cases on the Vulkan device."""
_BOTH = ("vulkan-0", "nnapi-reference")
_is_on = False
_number = 0


def switch_on() -> None:
    """Let devices take turns in this process."""
    global _is_on
    _is_on = True


def number_of(name: str) -> int:
    """A number of a test, which is the same in all processes."""
    return zlib.crc32(name.encode())


def chosen(items: Collection[pytest.Item]) -> set[pytest.Item]:
    """The tests that run: each on one of its devices, and a third of those that are marked `numbers`."""
    turns = defaultdict(list)
    for item in items:
        turns[_without_device(item.nodeid)].append(item)
    kept = {alike[number_of(name) % len(alike)] for name, alike in turns.items()}
    return {i for i in kept if i.get_closest_marker("numbers") is None or number_of(i.nodeid) % _ONE_IN == 0}


def _without_device(name: str) -> str:
    """The name of a test without its device, of those that ``tests/driver/vulkan/conftest.py`` has."""
    return re.sub(r"(?<=[\[-])(own|gpu|smallest)(?=[\]-])", "", name, count=1)


def begin(item: pytest.Item) -> None:
    """Set the number of the case that runs: of each parameter, every third value meets each value of the others."""
    global _number
    callspec = getattr(item, "callspec", None)
    # A set, since parameters that are given together have one index.
    _number = sum(set(callspec.indices.values())) if callspec else 0


def devices(number: int | None = None) -> tuple[str, ...]:
    """The devices of a case with a number, or of the case that runs. A test without parameters runs on both."""
    is_left_out = _is_on and (_number if number is None else number) % _ONE_IN
    return _BOTH[1:] if is_left_out else _BOTH
