"""Fields: what is written is read again, and what no process writes is refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pytest

from nnvk.base import fields
from nnvk.base.fields import BOOL, STRING, U32, Field, many, optional, parts, record
from nnvk.base.packets import Malformed, Reader


class Colour(IntEnum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: int | None = None
    label: str = "kept here"


def there_and_back(field: Field[Any], value: Any) -> Any:
    reader = Reader(memoryview(fields.encoded(field.write, value)))
    read = field.read(reader)
    reader.end()
    return read


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (BOOL, True),
        (fields.I32, -5),
        (fields.I64, -(2**63)),
        (fields.F64, 0.1),
        (fields.F32S, (0.5, -2.0)),
        (fields.U64S, (0, 2**64 - 1)),
        (STRING, "\u00fc"),
        (optional(U32), None),
        (optional(U32), 0),
        (many(STRING), ("a", "")),
        (parts(U32, BOOL), (7, False)),
        (fields.member_of(Colour), Colour.BLUE),
        (record(Point, U32, optional(U32)), Point(3)),
    ],
)
def test_values_arrive_unchanged(field: Field[Any], value: Any) -> None:
    assert there_and_back(field, value) == value


def test_a_number_that_is_no_member_is_refused() -> None:
    with pytest.raises(Malformed, match="3 is no Colour"):
        fields.member_of(Colour).read(Reader(memoryview(bytes([3, 0, 0, 0]))))
