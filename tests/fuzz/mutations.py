"""Mutations of files for the fuzzer: of any bytes, of the fields of FlatBuffers and protocol buffers, of archives."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

NUMBERS = (-1, -2, 0, 1, 2, 3, 7, 8, 127, 255, 1000, 65535, 65536, 10**6, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
NUMBERS_WITH_SIGN = (*NUMBERS, -127, -1000, -(2**31), -(2**63))
FLOATS = (0.0, -0.0, -1.0, 1e-45, 1e-30, 1e30, 3e38, float("nan"), float("inf"), float("-inf"))
_LARGEST_INSERT = 16
_MOST_PLACES = 20_000
"""A search through a file stops after so many tables or messages."""


def damage(data: bytearray, choice: random.Random, others: Sequence[bytes]) -> None:
    """Change a few bytes."""
    if len(data) < 16:
        data += choice.randbytes(16)
    way, at = choice.random(), choice.randrange(len(data) - 8)
    if way < 0.5:
        data[at] = choice.choice((0, 1, 2, 3, 4, 8, 127, 128, 254, 255, choice.randrange(256)))
    elif way < 0.8:
        number = choice.choice((-1, -2, 0, 1, 2, 1000, 65536, 2**31 - 1, -(2**31), choice.randrange(-10, 10)))
        struct.pack_into("<i", data, at // 4 * 4, number)
    elif way < 0.85:
        number = choice.choice((0.0, -1.0, 1e-30, 1e30, float("nan"), float("inf"), choice.gauss(0, 1)))
        struct.pack_into("<f", data, at // 4 * 4, number)
    elif way < 0.9:
        del data[at : at + choice.randrange(1, _LARGEST_INSERT)]
    elif way < 0.95:
        other = choice.choice(others)
        start = choice.randrange(max(1, len(other) - 16))
        data[at : at + 8] = other[start : start + 8]
    else:
        other_at = choice.randrange(len(data) - 8)
        data[at : at + 8] = data[other_at : other_at + 8]


def cut(data: bytearray, choice: random.Random, others: Sequence[bytes]) -> None:
    """End the file early, or go on with the end of another one."""
    at = choice.randrange(len(data) + 1)
    other = choice.choice(others)
    data[at:] = b"" if choice.random() < 0.5 else other[min(at, len(other)) :]


# --- FlatBuffers ---------------------------------------------------------------------------------------------------


@dataclass
class _Fields:
    """Places in a FlatBuffers file: of scalars or offsets in tables, of counts of vectors, of entries of vtables."""

    slots: list[tuple[int, int]] = field(default_factory=list)
    """Places of tables' fields, and the bytes up to the next one."""
    offsets: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    elements: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)


def _fields(data: bytes) -> _Fields:
    """The fields of all that looks like a table: the schema is not needed, and what is none is taken for a number."""
    found, seen, left = _Fields(), set[int](), [_u32(data, 0)]
    while left and len(seen) < _MOST_PLACES:
        at = left.pop()
        if at in seen or not (entries := list(_entries(data, at))):
            continue
        seen.add(at)
        places = [*sorted(offset for _, offset in entries if offset), _table_size(data, at)]
        for entry, offset in entries:
            found.entries.append(entry)
            if not offset:
                continue
            place = at + offset
            width = next((one for one in places if one > offset), offset + 4) - offset
            found.slots.append((place, width))
            target = place + _u32(data, place)
            if width < 4 or target == place or target + 4 > len(data):
                continue
            if any(_entries(data, target)):
                found.offsets.append(place)
                left.append(target)
            elif _u32(data, target) <= len(data) - target - 4:
                found.offsets.append(place)
                found.counts.append(target)
                for element in range(target + 4, min(target + 4 + 4 * _u32(data, target), len(data) - 3), 4):
                    found.elements.append(element)
                    inner = element + _u32(data, element)
                    if inner != element and inner + 4 <= len(data) and any(_entries(data, inner)):
                        left.append(inner)
    return found


def _u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0]) if 0 <= at <= len(data) - 4 else 0


def _table_size(data: bytes, at: int) -> int:
    vtable = at - struct.unpack_from("<i", data, at)[0]
    return int(struct.unpack_from("<H", data, vtable + 2)[0])


def _entries(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """The places of the entries of a table's vtable, and what they are; nothing where there is no table."""
    if not 4 <= at <= len(data) - 4:
        return
    vtable = at - struct.unpack_from("<i", data, at)[0]
    if not 0 <= vtable <= len(data) - 4:
        return
    size, table_size = struct.unpack_from("<HH", data, vtable)
    if size < 4 or size % 2 or size > 256 or vtable + size > len(data) or table_size < 4 or at + table_size > len(data):
        return
    entries = struct.unpack_from(f"<{(size - 4) // 2}H", data, vtable + 4)
    if all(entry == 0 or 4 <= entry < table_size for entry in entries):
        yield from ((vtable + 4 + 2 * number, entry) for number, entry in enumerate(entries))


def flatbuffer(data: bytearray, choice: random.Random, others: Sequence[bytes]) -> None:
    """Change a field of a FlatBuffers file: a number, how long a vector is, what an offset leads to, what is there."""
    found = _fields(bytes(data))
    if not found.slots:
        return damage(data, choice, others)
    way = choice.random()
    if way < 0.35:
        place, width = choice.choice(found.slots)
        width = min(1 << choice.randrange(4), width, len(data) - place)
        _put(data, place, width, choice)
    elif way < 0.6 and found.elements:
        _put(data, choice.choice(found.elements), 4, choice)
    elif way < 0.7 and found.counts:
        at = choice.choice(found.counts)
        count = choice.choice((0, 1, _u32(data, at) + choice.choice((-1, 1, 3)), choice.choice(NUMBERS)))
        struct.pack_into("<I", data, at, count % 2**32)
    elif way < 0.85 and len(found.offsets) > 1:
        one, other = choice.choice(found.offsets), choice.choice(found.offsets)
        struct.pack_into("<I", data, one, (other + _u32(data, other) - one) % 2**32)
    else:
        one, other = choice.choice(found.entries), choice.choice(found.entries)
        data[one : one + 2] = b"\0\0" if choice.random() < 0.6 else data[other : other + 2]
    return None


def _put(data: bytearray, place: int, width: int, choice: random.Random) -> None:
    """A number of so many bytes."""
    if width >= 4 and choice.random() < 0.2:
        struct.pack_into("<f", data, place, choice.choice(FLOATS))
        return
    width = 8 if width >= 8 else 4 if width >= 4 else width
    number = choice.choice((choice.choice(NUMBERS_WITH_SIGN), choice.randrange(-4, 12)))
    data[place : place + width] = (number % 2 ** (8 * width)).to_bytes(width, "little")


# --- protocol buffers ----------------------------------------------------------------------------------------------


_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_TEXTS = ("", "x", "0", "a" * 300, "Add", "Conv", "If", "\0", "ä", "../x", "SAME_UPPER", "linear")


def _messages(message: Message) -> Iterator[Message]:
    """A message, and all that is in it."""
    left, count = [message], 0
    while left and count < _MOST_PLACES:
        one = left.pop()
        count += 1
        yield one
        for descriptor, value in one.ListFields():
            if descriptor.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                left.extend([value] if isinstance(value, Message) else value)


def protobuf(data: bytearray, choice: random.Random, others: Sequence[bytes]) -> None:
    """Change a field of an ONNX file: a number, a text, what is repeated, or what is there at all."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(bytes(data))
        _change(model, choice)
        data[:] = model.SerializePartialToString()
    except (DecodeError, UnicodeDecodeError):  # other mutations have left no message, or texts that are none
        damage(data, choice, others)


def _change(model: onnx.ModelProto, choice: random.Random) -> None:
    messages = list(_messages(model))
    message = choice.choice(messages)
    fields = [descriptor for descriptor, _ in message.ListFields()]
    if not fields or choice.random() < 0.1:
        fields = list(message.DESCRIPTOR.fields)
    descriptor = choice.choice(fields)
    if _is_repeated(message, descriptor):
        _change_repeated(getattr(message, descriptor.name), descriptor, messages, choice)
    elif choice.random() < 0.15:
        message.ClearField(descriptor.name)
    elif descriptor.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        alike = [one for one in messages if one.DESCRIPTOR is descriptor.message_type]
        if alike:
            getattr(message, descriptor.name).CopyFrom(_copy(choice.choice(alike)))
    else:
        setattr(message, descriptor.name, _scalar(descriptor, messages, choice, getattr(message, descriptor.name)))


def _copy(message: Message) -> Message:
    """Return a copy, which another message can take even if that is a part of the original, or contains it."""
    copied = type(message)()
    copied.CopyFrom(message)
    return copied


def _is_repeated(message: Message, descriptor: FieldDescriptor) -> bool:
    value = getattr(message, descriptor.name)
    return not isinstance(value, (Message, str, bytes, int, float))


def _change_repeated(values: Any, descriptor: FieldDescriptor, messages: list[Message], choice: random.Random) -> None:
    way = choice.random()
    is_message = descriptor.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
    if way < 0.25 and len(values):
        del values[choice.randrange(len(values))]
    elif way < 0.4 and len(values):
        if is_message:
            values.add().CopyFrom(_copy(choice.choice(list(values))))
        else:
            values.append(choice.choice(list(values)))
    elif is_message:
        alike = [one for one in messages if one.DESCRIPTOR is descriptor.message_type]
        if alike and len(values) and way < 0.7:
            values[choice.randrange(len(values))].CopyFrom(_copy(choice.choice(alike)))
        elif alike:
            values.add().CopyFrom(_copy(choice.choice(alike)))
    elif len(values) and way < 0.85:
        place = choice.randrange(len(values))
        values[place] = _scalar(descriptor, messages, choice, values[place])
    else:
        values.append(_scalar(descriptor, messages, choice, values[0] if len(values) else None))


def _scalar(descriptor: FieldDescriptor, messages: list[Message], choice: random.Random, now: Any) -> Any:
    """Another value of a field."""
    kind = descriptor.cpp_type
    if kind in _INTEGERS:
        least, most = _INTEGERS[kind]
        near = (now or 0) + choice.choice((-1, 1, 2))
        number = choice.choice((choice.choice(NUMBERS_WITH_SIGN), near, choice.randrange(-4, 20)))
        return min(max(number, least), most)
    if kind == FieldDescriptor.CPPTYPE_ENUM:  # another number is no field of it, but an unknown one
        return choice.choice([value.number for value in descriptor.enum_type.values])
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return choice.choice(FLOATS)
    if descriptor.type == FieldDescriptor.TYPE_BYTES:
        return _bytes(now or b"", choice)
    texts = [
        value for one in messages for known, value in one.ListFields() if known.name in ("name", "op_type", "dim_param")
    ]
    texts += [text for one in messages if isinstance(one, onnx.NodeProto) for text in (*one.input, *one.output)]
    return choice.choice(texts) if texts and choice.random() < 0.7 else choice.choice(_TEXTS)


def _bytes(now: bytes, choice: random.Random) -> bytes:
    way = choice.random()
    if way < 0.3:
        return now[: choice.randrange(len(now) + 1)]
    if way < 0.5:
        return now + choice.randbytes(choice.randrange(1, _LARGEST_INSERT))
    changed = bytearray(now or bytes(8))
    for _ in range(choice.randrange(1, 4)):
        width = min(choice.choice((1, 2, 4, 8)), len(changed))
        at = choice.randrange(len(changed) - width + 1) // width * width
        changed[at : at + width] = (choice.choice(NUMBERS_WITH_SIGN) % 2 ** (8 * width)).to_bytes(width, "little")
    return bytes(changed)


# --- archives ------------------------------------------------------------------------------------------------------


def archive(data: bytearray, choice: random.Random, others: Sequence[bytes]) -> None:
    """Change the archive that a file ends with: its records' numbers, or any byte."""
    start = data.find(b"PK\3\4")
    if start < 0:
        return flatbuffer(data, choice, others)
    if choice.random() < 0.3:
        data[choice.randrange(start, len(data))] = choice.randrange(256)
        return None
    records = [at for mark in (b"PK\3\4", b"PK\1\2", b"PK\5\6") for at in _all(data, mark, start)]
    at = choice.choice(records) + choice.randrange(4, 46)
    width = min(choice.choice((2, 4)), len(data) - at)
    if width > 0:
        data[at : at + width] = (choice.choice(NUMBERS) % 2 ** (8 * width)).to_bytes(width, "little")
    return None


def _all(data: bytearray, mark: bytes, start: int) -> Iterator[int]:
    at = data.find(mark, start)
    while at >= 0:
        yield at
        at = data.find(mark, at + 1)


Mutation = Callable[[bytearray, random.Random, Sequence[bytes]], None]
_WAYS: dict[str, tuple[tuple[Mutation, ...], tuple[float, ...]]] = {
    "tflite": ((damage, cut, flatbuffer, archive), (0.3, 0.02, 0.6, 0.08)),
    "onnx": ((damage, cut, protobuf), (0.2, 0.02, 0.78)),
}


def mutate(kind: str, data: bytes, choice: random.Random, others: Sequence[bytes]) -> bytes:
    """The file with one to five mutations; ``kind`` is that of its format, else any bytes are changed."""
    ways, shares = _WAYS.get(kind, ((damage,), (1.0,)))
    changed = bytearray(data)
    for _ in range(choice.choice((1, 1, 1, 1, 2, 4))):
        (way,) = choice.choices(ways, shares)
        way(changed, choice, others)
    return bytes(changed)
