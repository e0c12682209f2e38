"""Lets devices and numbers take turns over the cases of a test, with ``--in-turn``.

Compiling shaders takes most of the tests' time. Each profile of the Vulkan device compiles its own, so each case of a
driver's test runs on one of them. Importers' tests are about how operators are mapped, which the reference device
shows, so only a third of their cases runs on the Vulkan device. Tests that are marked `crossed` combine types, sizes,
tiles and the like: each of these meets a third of the others.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable

import pytest

_ONE_IN = 3
"""One in so many runs of the cases that differ in numbers, of those that cross parameters, and on Vulkan of an
importer's."""
_DEVICES = ("vulkan", "as_gpu", "device")
"""The fixtures of ``tests/driver/vulkan/conftest.py`` that have several devices."""
_NUMBERS = pytest.StashKey[list[int]]()
"""The numbers of a case's values, one for each parameter."""
_BOTH = ("vulkan-0", "nnapi-reference")
_is_on = False
_number: int | None = None


def switch_on() -> None:
    """Let devices take turns in this process."""
    global _is_on
    _is_on = True


def number_of(name: str) -> int:
    """A number of a test, which is the same in all processes."""
    return zlib.crc32(name.encode())


def number_cases(items: Iterable[pytest.Item]) -> None:
    """Number the values of each parameter of each test. Parameters that are given together count as one.

    pytest's own indices are the number of the whole case.
    """
    alike = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            alike[item.nodeid.partition("[")[0]].append(item)
    for cases in alike.values():
        columns: dict[tuple[int, ...], None] = {}
        for name in cases[0].callspec.params:
            if name not in _DEVICES:
                known: dict[object, int] = {}
                values = [_key(case.callspec.params.get(name)) for case in cases]
                columns[tuple(known.setdefault(value, len(known)) for value in values)] = None
        for place, case in enumerate(cases):
            case.stash[_NUMBERS] = [column[place] for column in columns]


def _key(value: object) -> object:
    """Return a key of a parameter's value: numbers and texts that are equal have the same, and one object has."""
    return (type(value), value) if isinstance(value, (str, bytes, int, float)) else id(value)


def _crossed(cases: Collection[pytest.Item]) -> set[pytest.Item]:
    """Return the cases of a test that is marked `crossed` whose numbers add up to a multiple of three.

    Where a value of a parameter is in none of them, the first case that has it runs as well.
    """
    numbered = [(case, case.stash.get(_NUMBERS, [])) for case in cases]
    kept = {case for case, numbers in numbered if sum(numbers) % _ONE_IN == 0}
    met = {value for case, numbers in numbered if case in kept for value in enumerate(numbers)}
    for case, numbers in numbered:
        if len(numbers) > 1 and case not in kept and not met.issuperset(enumerate(numbers)):
            kept.add(case)
            met.update(enumerate(numbers))
    return kept


def chosen(items: Collection[pytest.Item]) -> set[pytest.Item]:
    """The tests that run: each on one of its devices, and a third of those that are marked `numbers` or `crossed`."""
    turns, crossed = defaultdict(list), defaultdict(list)
    for item in items:
        if item.get_closest_marker("crossed") is not None:
            crossed[item.nodeid.partition("[")[0]].append(item)
    left_out = {item for cases in crossed.values() for item in set(cases) - _crossed(cases)}
    for item in items:
        if item not in left_out:
            turns[_without_device(item.nodeid)].append(item)
    kept = {alike[number_of(name) % len(alike)] for name, alike in turns.items()}
    return {i for i in kept if i.get_closest_marker("numbers") is None or number_of(i.nodeid) % _ONE_IN == 0}


def _without_device(name: str) -> str:
    """The name of a test without its device, of those that ``tests/driver/vulkan/conftest.py`` has."""
    return re.sub(r"(?<=[\[-])(own|gpu|smallest)(?=[\]-])", "", name, count=1)


def begin(item: pytest.Item) -> None:
    """Set the number of the case that runs: of each parameter, every third value meets each value of the others."""
    global _number
    numbers = item.stash.get(_NUMBERS, None)
    _number = None if numbers is None else sum(numbers)


def devices(number: int | None = None) -> tuple[str, ...]:
    """The devices of a case with a number, or of the case that runs. A test without parameters runs on both."""
    number = _number if number is None else number
    if not _is_on or number is None:
        return _BOTH
    return _BOTH[1:] if number % _ONE_IN else _BOTH[:1]
