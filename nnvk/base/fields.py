"""Fields of packets: how a value is written and read."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, Generic, TypeVar

from nnvk.base.packets import Malformed, Reader, Writer

T = TypeVar("T")
Write = Callable[[Writer, Any], object]
Keep = Callable[[Any], Any]
"""Keeps an object under a number that the other process has chosen, and returns it."""
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=IntEnum)


@dataclass(frozen=True, slots=True)
class Field(Generic[T_co]):
    """The encoding of a value."""

    name: str
    """The name by which two processes compare their encodings."""
    write: Write = field(repr=False)
    read: Callable[[Reader], T_co] = field(repr=False)


def _number(code: str) -> Field[Any]:
    form = struct.Struct(f"<{code}")
    return Field(code, lambda writer, value: writer.put(form.pack(value)), lambda reader: reader.unpack(form)[0])


def _numbers(code: str, size: int) -> Field[tuple[Any, ...]]:
    def write(writer: Writer, values: Sequence[Any]) -> None:
        writer.put(struct.pack(f"<I{len(values)}{code}", len(values), *values))

    def read(reader: Reader) -> tuple[Any, ...]:
        count = reader.u32()
        return struct.unpack(f"<{count}{code}", reader.bytes(size * count))

    return Field(f"[{code}]", write, read)


BOOL, I64, F32, F64 = map(_number, "?qfd")
U32 = Field("u32", Writer.u32, Reader.u32)
I32 = Field("i32", Writer.i32, Reader.i32)
U64 = Field("u64", Writer.u64, Reader.u64)
U64S = Field("u64s", Writer.u64s, Reader.u64s)
F32S, F64S = _numbers("f", 4), _numbers("d", 8)
STRING = Field("string", Writer.string, Reader.string)
NEW = Field("new", Writer.u64, lambda reader: partial(reader.session.put, reader.u64()))
"""The number of an object that the request makes. It is read as a `Keep`."""


def object_of(kind: type[T]) -> Field[T]:
    """The number of an object of a session."""
    return Field(kind.__name__, Writer.u64, lambda reader: reader.session.get(reader.u64(), kind))


def member_of(enum: type[E]) -> Field[E]:
    """A member of an enumeration without negative numbers. Malformed: there is none of the number."""

    def read(reader: Reader) -> E:
        number = reader.u32()
        try:
            return enum(number)
        except ValueError:
            raise Malformed(f"{number} is no {enum.__name__}") from None

    return Field(enum.__name__, Writer.u32, read)


def optional(field: Field[T]) -> Field[T | None]:
    """A value, or None."""

    def write(writer: Writer, value: T | None) -> None:
        writer.u8(value is not None)
        if value is not None:
            field.write(writer, value)

    return Field(f"{field.name}?", write, lambda reader: field.read(reader) if reader.u8() else None)


def many(field: Field[T]) -> Field[tuple[T, ...]]:
    """Values of one kind, and before them how many."""

    def write(writer: Writer, values: Sequence[T]) -> None:
        writer.u32(len(values))
        for value in values:
            field.write(writer, value)

    return Field(f"[{field.name}]", write, lambda reader: tuple([field.read(reader) for _ in range(reader.u32())]))


def all_of(write: Write) -> Write:
    """Writes values of one kind, as many as the reader knows that there are."""
    return lambda writer, values: [write(writer, value) for value in values]


def parts(*fields: Field[Any]) -> Field[tuple[Any, ...]]:
    """A value of each field."""

    def write(writer: Writer, values: Sequence[Any]) -> None:
        for each, value in zip(fields, values, strict=True):
            each.write(writer, value)

    name = " ".join(field.name for field in fields)
    return Field(f"({name})", write, lambda reader: tuple([field.read(reader) for field in fields]))


def record(kind: type[T], *fields: Field[Any]) -> Field[T]:
    """An instance of a class, by the first parameters of its constructor, which are attributes of what is written."""
    whole = parts(*fields)
    names = list(inspect.signature(kind).parameters)[: len(fields)]
    return Field(
        kind.__name__ + whole.name,
        lambda writer, value: whole.write(writer, [getattr(value, name) for name in names]),
        lambda reader: kind(*whole.read(reader)),
    )


def encoded(write: Write, value: Any) -> bytes:
    """The bytes of a value."""
    writer = Writer()
    write(writer, value)
    return b"".join(writer.parts)


NOTHING = Field("nothing", lambda writer, value: None, lambda reader: None)
