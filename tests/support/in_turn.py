"""The devices that a case of an importer's test runs on.

Such a test is about how operators are mapped, which the reference device shows. A Vulkan device compiles shaders for
nearly every case, so every third case runs there too.
"""

from __future__ import annotations

import pytest

_STEP = 3
_BOTH = ("vulkan-0", "nnapi-reference")
_number = 0


def begin(item: pytest.Item) -> None:
    """Set the number of the case that runs: of each parameter, every third value meets each value of the others."""
    global _number
    callspec = getattr(item, "callspec", None)
    # A set, since parameters that are given together have one index.
    _number = sum(set(callspec.indices.values())) if callspec else 0


def devices(number: int | None = None) -> tuple[str, ...]:
    """The devices of a case with a number, or of the case that runs. A test without parameters runs on both."""
    return _BOTH[(_number if number is None else number) % _STEP > 0 :]
