"""The objects of one application, and what happens on a request: the rows of the table that say all themselves."""

from __future__ import annotations

import fcntl
import mmap
import operator
import os
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nnvk import api
from nnvk.api import NnapiError, ResultCode
from nnvk.base.errors import bad_data
from nnvk.serve.extensions import ALL_FUNCTIONS
from nnvk.serve.protocol import Malformed, Reader
from nnvk.serve.table import By, Function, Kind, Parameter

T = TypeVar("T")
CLASSES: dict[str, type[Any]] = {
    "Burst": api.Burst,
    "Compilation": api.Compilation,
    "Event": api.Event,
    "Execution": api.Execution,
    "Memory": api.Memory,
    "MemoryDesc": api.MemoryDesc,
    "Model": api.Model,
}
"""The objects of the table. Devices go by their names."""
_HEAD = struct.Struct("<iI")
SUCCESS = _HEAD.pack(0, 0)


class Descriptors:
    """The descriptors that came with a packet; those that nobody takes are closed."""

    def __init__(self, numbers: Sequence[int] = (), *, are_all: bool = True) -> None:
        self._numbers = list(numbers)
        self._are_all = are_all

    def take(self) -> int:
        """The next one, which the caller closes.

        Malformed: there is none left. RESOURCE_EXHAUSTED_TRANSIENT: there was no room for it in this process.
        """
        if not self._numbers and not self._are_all:
            raise NnapiError(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, "the server has no descriptors left")
        if not self._numbers:
            raise Malformed("a descriptor is missing")
        return self._numbers.pop(0)

    def close(self) -> None:
        """Close those that are left."""
        while self._numbers:
            os.close(self._numbers.pop())


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent back; what follows ``then`` is sent after it."""

    content: bytes
    then: Callable[[], bytes] | None = None


OK = Reply(SUCCESS)
Handler = Callable[["Session", Reader, Descriptors], Reply]


@dataclass
class Session:
    """What one application has made. Requests may be answered on several threads at once."""

    handlers: dict[int, Handler]
    objects: dict[int, Any] = field(default_factory=dict)
    segments: dict[int, memoryview] = field(default_factory=dict)
    """Shared memory for the arguments of executions."""
    under_way: int = 0
    """Requests that are being answered."""
    is_idle: threading.Condition = field(default_factory=threading.Condition)
    """Notified when there are none."""

    @contextmanager
    def working(self) -> Iterator[None]:
        """While a request is answered, and what follows."""
        with self.is_idle:
            self.under_way += 1
        try:
            yield
        finally:
            with self.is_idle:
                self.under_way -= 1
                self.is_idle.notify_all()

    def answer(self, packet: memoryview, descriptors: Descriptors) -> Reply:
        """Do what a packet asks. Never raises: what is wrong is in the reply."""
        try:
            reader = Reader(packet)
            number = reader.u32()
            handler = self.handlers.get(number)
            if handler is None:
                raise Malformed(f"there is no request {number}")
            return handler(self, reader, descriptors)
        except Exception as error:
            return Reply(failure(error))

    def get(self, number: int, kind: type[T]) -> T:
        """An object by its number. Malformed: there is none, or of another class."""
        found = self.objects.get(number)
        if not isinstance(found, kind):
            raise Malformed(f"object {number} is no {kind.__name__}")
        return found

    def put(self, number: int, made: object) -> None:
        """Keep an object under a number that the library has chosen. Malformed: it is taken."""
        if self.objects.setdefault(number, made) is not made:
            raise Malformed(f"there is an object {number} already")

    def segment(self, number: int, offset: int, length: int) -> memoryview:
        """A part of a segment. Malformed: it lies outside."""
        segment = self.segments.get(number)
        if segment is None or offset + length > segment.nbytes:
            raise Malformed(f"bytes {offset} to {offset + length} of segment {number} are none")
        return segment[offset : offset + length]


def failure(error: Exception) -> bytes:
    """The reply for an exception, whatever it is."""
    if isinstance(error, NnapiError):
        code, reason = error.code, error.reason
    elif isinstance(error, Malformed):
        code, reason = ResultCode.BAD_DATA, f"the library and its server don't understand each other: {error}"
    elif isinstance(error, MemoryError):
        code, reason = ResultCode.OUT_OF_MEMORY, f"the server has not enough memory: {error}"
    else:
        code, reason = ResultCode.OP_FAILED, f"{type(error).__name__}: {error}"
    encoded = reason.encode(errors="replace")[:4096]
    return _HEAD.pack(code, len(encoded)) + encoded


def table_handlers(by_hand: Mapping[str, Handler]) -> dict[int, Handler]:
    """Handlers of the functions of the table: those given, and where the rows say all that is needed what they say."""
    handlers: dict[int, Handler] = {}
    for number, row in enumerate(ALL_FUNCTIONS):
        if row.name in by_hand:
            handlers[number] = by_hand[row.name]
        elif row.by is By.SERVER:
            handlers[number] = _handler(row)
    return handlers


def _handler(row: Function) -> Handler:
    call = operator.attrgetter(row.python.removeprefix("nnvk."))(api)
    readers = [_reader(parameter) for parameter in row.parameters if parameter.kind in _SENT]
    kinds = [parameter.kind for parameter in row.parameters]
    results = [parameter for parameter in row.parameters if parameter.kind in (Kind.RESULT, Kind.RESULTS)]

    def handle(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
        arguments = [read(session, reader) for read in readers]
        number = reader.u64() if Kind.NEW_OBJECT in kinds else 0
        reader.end()
        result = call(*arguments)
        if Kind.NEW_OBJECT in kinds:
            session.put(number, result)
        for parameter in results:
            values = result if parameter.kind is Kind.RESULTS else (result,)
            return Reply(SUCCESS + struct.pack(f"<{len(values)}{_NUMBERS[parameter.type.rstrip('*')].format}", *values))
        return OK

    return handle


_SENT = (Kind.OBJECT, Kind.OBJECTS, Kind.NUMBERS, Kind.BYTES, Kind.NUMBER, Kind.TEXT, Kind.POINTER)
"""Parameters that are sent, but for the number of a new object, which comes last."""


@dataclass(frozen=True, slots=True)
class _Number:
    """How a number is sent."""

    read: Callable[[Reader], Any]
    format: str


_NUMBERS = {
    "bool": _Number(lambda reader: bool(reader.u8()), "?"),
    "int": _Number(Reader.i32, "i"),
    "int32_t": _Number(Reader.i32, "i"),
    "ANeuralNetworksOperationType": _Number(Reader.i32, "i"),
    "uint16_t": _Number(Reader.u32, "I"),
    "uint32_t": _Number(Reader.u32, "I"),
    "uint64_t": _Number(Reader.u64, "Q"),
    "size_t": _Number(Reader.u64, "Q"),
    "float": _Number(Reader.f32, "f"),
}


def _reader(parameter: Parameter) -> Callable[[Session, Reader], Any]:
    """What reads a parameter of a request."""
    if parameter.kind is Kind.OBJECT and parameter.object != "Device":
        class_ = CLASSES[parameter.object]
        return lambda session, reader: session.get(reader.u64(), class_)
    if parameter.kind is Kind.NUMBER:
        read = _NUMBERS[parameter.type].read
    elif parameter.kind is Kind.POINTER:
        read = {"const ANeuralNetworksOperandType*": operand_type}[parameter.type]
    else:
        read = {
            Kind.OBJECT: lambda reader: api.get_device(reader.string()),
            Kind.OBJECTS: devices,
            Kind.NUMBERS: Reader.u32s,
            Kind.BYTES: _data,
            Kind.TEXT: Reader.string,
        }[parameter.kind]
    return lambda session, reader: read(reader)


def devices(reader: Reader) -> list[api.Device]:
    """Devices by their names."""
    return [api.get_device(reader.string()) for _ in range(reader.u32())]


def operand_type(reader: Reader) -> api.OperandType | None:
    """An operand's type; None where there was NULL."""
    if not reader.u8():
        return None
    code, scale, zero_point = reader.i32(), reader.f32(), reader.i32()
    try:
        code = api.OperandCode(code)
    except ValueError:
        raise bad_data(f"{code} is no operand type") from None
    return api.OperandType(code, reader.u32s(), scale, zero_point)


def _data(reader: Reader) -> memoryview | None:
    return reader.aligned(reader.u64()) if reader.u8() else None


def map_sealed(descriptor: int, size: int) -> mmap.mmap:
    """Map a memfd that can't shrink under the server's hands. Malformed: it can, or is too small."""
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError as error:
        raise Malformed(f"the descriptor is of no shared memory: {error}") from None
    if not seals & fcntl.F_SEAL_SHRINK:
        raise Malformed("the shared memory is not sealed against shrinking")
    if not 0 < size <= os.fstat(descriptor).st_size:
        raise Malformed(f"the shared memory has not the {size} bytes that were announced")
    return mmap.mmap(descriptor, size, mmap.MAP_SHARED)
