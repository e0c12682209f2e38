"""Handlers of requests that a row of the table describes completely."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nnvk import api
from nnvk.base.errors import bad_data
from nnvk.base.lanes import OK, SUCCESS, Handler, Reply, Session
from nnvk.base.packets import Descriptors, Reader
from nnvk.serve.extensions import ALL_FUNCTIONS
from nnvk.serve.table import By, Function, Kind, Parameter

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
    """The encoding of a number."""

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
    """A function that reads a parameter of a request."""
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
