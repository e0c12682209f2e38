"""Options and results as bytes of packets, and back."""

from __future__ import annotations

import math
import struct
from pathlib import Path

from nnvk.base.errors import ResultCode
from nnvk.base.packets import Reader, Writer
from nnvk.types.codes import PreferenceCode, PriorityCode
from nnvk.types.encoding import member
from nnvk.types.model import Model
from nnvk.types.operand import dtype_of
from nnvk.types.request import ExecutionResult, OutputShape, PrepareOptions, Redundancy, Timing

_NO_DEADLINE = -1
_RESULT = struct.Struct("<IBQQQQI")
"""The result code; whether there is a fenced timing; both timings; how many outputs."""


def write_prepare_options(writer: Writer, options: PrepareOptions) -> None:
    """How to prepare a model."""
    writer.u32(options.preference).u32(options.priority).i64(to_deadline(options.deadline_ns))
    writer.string("" if options.cache is None else str(options.cache.absolute())).u8(options.redundancy)
    writer.u8(options.other_strategies)


def read_prepare_options(reader: Reader) -> PrepareOptions:
    """How to prepare a model."""
    preference, priority = member(PreferenceCode, reader.u32()), member(PriorityCode, reader.u32())
    deadline_ns, cache = from_deadline(reader.i64()), reader.string()
    redundancy, other_strategies = member(Redundancy, reader.u8()), bool(reader.u8())
    path = Path(cache) if cache else None
    return PrepareOptions(preference, priority, deadline_ns, path, redundancy, other_strategies)


def to_deadline(deadline_ns: int | None) -> int:
    """A deadline as a number: the clock is the same in all processes."""
    return _NO_DEADLINE if deadline_ns is None else deadline_ns


def from_deadline(number: int) -> int | None:
    """The deadline that `to_deadline` was given."""
    return None if number == _NO_DEADLINE else number


def encoded_result(result: ExecutionResult) -> bytes:
    """The result of an execution."""
    timing, fenced = result.timing, result.fenced_timing
    times = [time for each in (timing, fenced or timing) for time in (each.on_hardware_ns, each.in_driver_ns)]
    writer = Writer().put(_RESULT.pack(result.code, fenced is not None, *times, len(result.output_shapes)))
    for shape in result.output_shapes:
        writer.u8(shape.is_sufficient).u64s(shape.dimensions)
    return b"".join(writer.parts)


def read_result(reader: Reader) -> ExecutionResult:
    """The result of an execution."""
    code, has_fenced, *times, count = reader.unpack(_RESULT)
    shapes = []
    for _ in range(count):
        is_sufficient = bool(reader.u8())
        shapes.append(OutputShape(reader.u64s(), is_sufficient))
    reader.end()
    fenced = Timing(times[2], times[3]) if has_fenced else None
    return ExecutionResult(member(ResultCode, code), tuple(shapes), Timing(times[0], times[1]), fenced)


def output_sizes(model: Model, result: ExecutionResult) -> list[int]:
    """Bytes of each output."""
    return [
        math.prod(shape.dimensions) * dtype_of(type_.code).itemsize
        for type_, shape in zip(model.output_types(), result.output_shapes, strict=True)
    ]
