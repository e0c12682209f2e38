"""The requests to a driver's process, besides those that every such process answers (`nnvk.base.lanes`).

Devices go by their names, objects by numbers.
"""

# The HAL's results are only known by their abstract classes, which isinstance accepts.
# mypy: disable-error-code="type-abstract"

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from nnvk.base import fields
from nnvk.base.errors import bad_data
from nnvk.base.fields import Field, many, object_of, optional, parts, record
from nnvk.base.lanes import SUCCESS, LaneRequest
from nnvk.base.packets import Malformed, Reader, Writer
from nnvk.hal import IBuffer, IBurst, IDevice, IExecution, IFencedExecution, IPreparedModel, MemoryUse, Support
from nnvk.types import request
from nnvk.types.codes import DeviceTypeCode, FeatureLevelCode, PreferenceCode, PriorityCode, ResultCode
from nnvk.types.encoding import TYPE, read_dtype, read_model, write_dtype, write_model
from nnvk.types.model import Model

T_co = TypeVar("T_co", covariant=True)
_EXECUTION_FORM = struct.Struct("<QQBqQQ")
"""One structure is faster than fields. The clock of the deadline is the same in all processes."""
_NO_DEADLINE = -1
_PLACE_FORM = struct.Struct("<IQQ")
UNFIT = b"\1"
"""Belongs to an error that is the data's fault, `UnfitData`."""
UNVERIFIED = b"\2"
"""Belongs to a `VerificationError`."""


@dataclass(frozen=True, slots=True)
class Row(Generic[T_co]):
    """A request: its number, what it takes, and what the reply has."""

    number: int
    method: str
    """The method of the first parameter that answers it; empty: a function by hand does."""
    parameters: tuple[Field[Any], ...]
    result: Field[T_co]

    def request(self, *arguments: Any) -> Writer:
        """The packet."""
        writer = Writer(self.number)
        for field, argument in zip(self.parameters, arguments, strict=True):
            field.write(writer, argument)
        return writer

    def read(self, reply: Reader) -> T_co:
        """The result in a reply. Malformed: it is another one."""
        result = self.result.read(reply)
        reply.end()
        return result


@dataclass(frozen=True, slots=True)
class Description:
    """The properties of a device that do not change."""

    name: str
    version: str
    type: DeviceTypeCode
    feature_level: FeatureLevelCode
    capabilities: request.Capabilities
    extensions: tuple[str, ...]


@dataclass(slots=True)
class Bound:
    """An execution of the driver, and its last result: mostly it is the same object again."""

    execution: IExecution
    result: request.ExecutionResult | None = None
    encoded: bytes = b""

    def reply(self, result: request.ExecutionResult) -> bytes:
        """The reply with a result."""
        if result is not self.result:
            self.encoded = SUCCESS + fields.encoded(RESULT.write, result)
            self.result = result
        return self.encoded


# --- fields --------------------------------------------------------------------------------------------------------


def _write_array(writer: Writer, given: tuple[np.ndarray, tuple[int, int, int]]) -> None:
    write_dtype(writer, given[0])
    PLACE.write(writer, given[1])


def _read_array(reader: Reader) -> np.ndarray:
    (dtype, shape, nbytes), place = read_dtype(reader), PLACE.read(reader)
    if nbytes != place.nbytes:
        raise Malformed(f"an input of {nbytes} bytes has a place of {place.nbytes}")
    array: np.ndarray = np.ndarray(shape, dtype, place)
    array.flags.writeable = False
    return array


def _write_model(writer: Writer, model: Model) -> None:
    try:
        write_model(writer, model)
    except (struct.error, AttributeError, TypeError) as error:
        raise bad_data(f"the model can't be told the driver's process: {error}") from error


def _write_execution(writer: Writer, given: tuple[int, int | None, request.ExecuteOptions]) -> None:
    number, burst, options = given
    deadline = _NO_DEADLINE if options.deadline_ns is None else options.deadline_ns
    times = options.loop_timeout_ns, options.duration_ns
    writer.put(_EXECUTION_FORM.pack(number, burst or 0, options.measure, deadline, *times))


def _read_execution(reader: Reader) -> tuple[Bound, IBurst | None, request.ExecuteOptions]:
    number, burst, measure, deadline, loop_timeout_ns, duration_ns = reader.unpack(_EXECUTION_FORM)
    deadline_ns = None if deadline == _NO_DEADLINE else deadline
    options = request.ExecuteOptions(bool(measure), deadline_ns, loop_timeout_ns, duration_ns)
    return reader.session.get(number, Bound), reader.session.get(burst, IBurst) if burst else None, options


def _read_place(reader: Reader) -> np.ndarray:
    segment, offset, nbytes = reader.unpack(_PLACE_FORM)
    return np.ndarray(nbytes, np.uint8, reader.session.segment(segment, offset, nbytes))


_MODEL = Field("model", _write_model, read_model)
"""BAD_DATA: it holds what none may."""
_TIMING = record(request.Timing, fields.U64, fields.U64)
_SHAPE = record(request.OutputShape, fields.U64S, fields.BOOL)
RESULT = record(request.ExecutionResult, fields.member_of(ResultCode), many(_SHAPE), _TIMING, optional(_TIMING))
_PATH = Field("path", lambda writer, path: writer.string(str(path.absolute())), lambda reader: Path(reader.string()))
_PREPARE_CODES = fields.member_of(PreferenceCode), fields.member_of(PriorityCode)
PREPARE_OPTIONS = record(
    request.PrepareOptions,
    *_PREPARE_CODES,
    optional(fields.I64),
    optional(_PATH),
    fields.member_of(request.Redundancy),
    fields.BOOL,
)
_EXECUTION = Field(_EXECUTION_FORM.format, _write_execution, _read_execution)
"""A bound execution, a burst or None, and options."""
PLACE = Field(_PLACE_FORM.format, lambda writer, place: writer.put(_PLACE_FORM.pack(*place)), _read_place)
"""Bytes in a segment: its number, the offset, and how many."""
_ARRAY = Field("array", _write_array, _read_array)
"""An input, and the place of its bytes."""
_INPUT_PARTS = optional(_ARRAY), fields.U64, fields.U64S
_INPUT = replace(record(request.InputArgument, *_INPUT_PARTS), write=parts(*_INPUT_PARTS).write)
"""The attributes in a tuple: the arrays are elsewhere in this process."""
_OUTPUT_PARTS = optional(PLACE), fields.U64, fields.BOOL
_OUTPUT = replace(record(request.OutputArgument, *_OUTPUT_PARTS), write=parts(*_OUTPUT_PARTS).write)
_CAPABILITIES = record(request.Capabilities, fields.F64, fields.F64)
_DEVICE_CODES = fields.member_of(DeviceTypeCode), fields.member_of(FeatureLevelCode)
_DESCRIPTION = record(Description, fields.STRING, fields.STRING, *_DEVICE_CODES, _CAPABILITIES, many(fields.STRING))
_DEVICE: Field[IDevice] = Field("device", Writer.string, lambda reader: reader.session.device(reader.string()))
_BUFFER, _PREPARED, _FENCED = object_of(IBuffer), object_of(IPreparedModel), object_of(IFencedExecution)
_PURPOSES = many(parts(fields.STRING, fields.U64))
_BYTES = Field("bytes", lambda writer, held: _PURPOSES.write(writer, held.items()), lambda r: dict(_PURPOSES.read(r)))
"""Bytes by what they are for."""
_TOKEN = Field("token", lambda writer, buffer: writer.u64(buffer.token), Reader.u64)


_PREFERRED = Field(
    "preferred",
    lambda writer, prepared: writer.u32(prepared.preferred_alignment).u32(prepared.preferred_padding),
    lambda reader: (reader.u32(), reader.u32()),
)
"""A prepared model's alignment and padding."""


# --- rows ----------------------------------------------------------------------------------------------------------

DEVICES = Row(2000, "", (), parts(fields.STRING, many(_DESCRIPTION)))
"""Why there are none, or not all; and all about each device that does not change."""
SUPPORT = Row(2001, "get_supported_operations", (_DEVICE, _MODEL), many(record(Support, optional(fields.STRING))))
DESCRIBE = Row(2002, "describe_operations", (_DEVICE, _MODEL), many(fields.STRING))
PREPARE = Row(2003, "prepare_model", (_DEVICE, _MODEL, PREPARE_OPTIONS, fields.NEW), _PREFERRED)
WAIT = Row(2004, "wait", (_DEVICE,), fields.NOTHING)
ALLOCATE = Row(2005, "allocate", (_DEVICE, TYPE, fields.U64S, fields.NEW), _TOKEN)
COPY_TO = Row(2006, "copy_to", (_BUFFER, PLACE), fields.NOTHING)
COPY_FROM = Row(2007, "copy_from", (_BUFFER, PLACE), fields.NOTHING)
BIND = Row(2008, "", (_PREPARED, many(_INPUT), many(_OUTPUT), fields.NEW), fields.NOTHING)
BURST = Row(2009, "configure_execution_burst", (_PREPARED, fields.NEW), fields.NOTHING)
EXECUTE = Row(2010, "", (_EXECUTION,), RESULT)
EXECUTE_FENCED = Row(2011, "", (_EXECUTION, many(_FENCED), fields.NEW), fields.NOTHING)
"""A second reply has the result."""
EXPORT = Row(2012, "", (_FENCED,), fields.BOOL)
"""Whether there is a sync file, which comes along."""
MEMORY_BYTES = Row(2013, "memory_bytes", (_PREPARED,), _BYTES)
DESCRIBE_MEMORY = Row(2014, "describe_memory", (_DEVICE, _MODEL), optional(record(MemoryUse, fields.U64, fields.U64)))
SHARED_MEMORY = Row(2015, "shared_memory", (_PREPARED,), _BYTES)
ROWS: tuple[Row[Any], ...] = tuple(value for value in globals().values() if isinstance(value, Row))


def fingerprint() -> int:
    """A number of everything that both processes must agree on."""
    return zlib.crc32("\n".join(map(repr, (*LaneRequest, *ROWS))).encode())
