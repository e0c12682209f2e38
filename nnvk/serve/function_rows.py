"""Handlers of requests that a row of the table describes completely."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from nnvk import api
from nnvk.base.errors import bad_data
from nnvk.base.fields import BOOL, F32, I32, NEW, NOTHING, U32, U64, Field, Write, all_of, object_of
from nnvk.base.lanes import Handler, answering, keeping
from nnvk.base.packets import Reader
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
    if any(parameter.kind is Kind.NEW_OBJECT for parameter in row.parameters):
        return answering(keeping(call), *readers, NEW.read)
    results = [_result(parameter) for parameter in row.parameters if parameter.kind in (Kind.RESULT, Kind.RESULTS)]
    return answering(call, *readers, result=results[0] if results else NOTHING.write)


_SENT = (Kind.OBJECT, Kind.OBJECTS, Kind.NUMBERS, Kind.BYTES, Kind.NUMBER, Kind.TEXT, Kind.POINTER)
"""Parameters that are sent, but for the number of a new object, which comes last."""
_NUMBERS: Mapping[str, Field[Any]] = {
    "bool": BOOL,
    "int": I32,
    "int32_t": I32,
    "ANeuralNetworksOperationType": I32,
    "uint16_t": U32,
    "uint32_t": U32,
    "uint64_t": U64,
    "size_t": U64,
    "float": F32,
}


def _result(parameter: Parameter) -> Write:
    write = _NUMBERS[parameter.type.rstrip("*")].write
    return write if parameter.kind is Kind.RESULT else all_of(write)


def _reader(parameter: Parameter) -> Callable[[Reader], Any]:
    """A function that reads a parameter of a request."""
    if parameter.kind is Kind.OBJECT and parameter.object != "Device":
        return object_of(CLASSES[parameter.object]).read
    if parameter.kind is Kind.NUMBER:
        return _NUMBERS[parameter.type].read
    if parameter.kind is Kind.POINTER:
        return {"const ANeuralNetworksOperandType*": operand_type}[parameter.type]
    return {
        Kind.OBJECT: _device,
        Kind.OBJECTS: lambda reader: [_device(reader) for _ in range(reader.u32())],
        Kind.NUMBERS: Reader.u32s,
        Kind.BYTES: lambda reader: reader.aligned(reader.u64()) if reader.u8() else None,
        Kind.TEXT: Reader.string,
    }[parameter.kind]


def _device(reader: Reader) -> api.Device:
    return api.get_device(reader.string())


def operand_type(reader: Reader) -> api.OperandType | None:
    """An operand's type; None where there was NULL."""
    if not reader.u8():
        return None
    code, scale, zero_point = reader.i32(), F32.read(reader), reader.i32()
    try:
        code = api.OperandCode(code)
    except ValueError:
        raise bad_data(f"{code} is no operand type") from None
    return api.OperandType(code, reader.u32s(), scale, zero_point)
