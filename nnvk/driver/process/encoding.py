"""Models, requests and results as bytes of packets, and back."""

from __future__ import annotations

import math
import struct
from enum import IntEnum
from pathlib import Path
from typing import TypeVar

import numpy as np

from nnvk.base.errors import ResultCode, bad_data
from nnvk.base.packets import Malformed, Reader, Writer
from nnvk.types.codes import ExtensionCode, OperandCode, OperationCode, PreferenceCode, PriorityCode
from nnvk.types.extension import EXTENSION, AnyCode, ExtendedOperationCode, operation_of
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import ChannelQuant, OperandType, Shape, dtype_of
from nnvk.types.request import ExecutionResult, OutputShape, PrepareOptions, Timing

E = TypeVar("E", bound=IntEnum)
_LIFETIMES = tuple(Lifetime)
_DTYPES = tuple(np.dtype(code) for code in ("?", "u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4", "u8", "i8", "f8"))
_DTYPE_NUMBERS = {dtype: number for number, dtype in enumerate(_DTYPES)}
_NO_DEADLINE = -1
_RESULT = struct.Struct("<IBQQQQI")
"""The result code; whether there is a fenced timing; both timings; how many outputs."""


# --- arrays, types, models -----------------------------------------------------------------------------------------


def write_dtype(writer: Writer, array: np.ndarray) -> None:
    """The type of an array's elements, and its shape. BAD_DATA: no operand has such."""
    number = _DTYPE_NUMBERS.get(array.dtype)
    if number is None:
        raise bad_data(f"no operand has elements of type {array.dtype}")
    writer.u8(number).u64s(array.shape)


def read_dtype(reader: Reader) -> tuple[np.dtype, Shape, int]:
    """The type of an array's elements, its shape, and how many bytes that are."""
    number, shape = reader.u8(), reader.u64s()
    if number >= len(_DTYPES):
        raise Malformed(f"there is no type {number} of elements")
    dtype = _DTYPES[number]
    return dtype, shape, math.prod(shape) * dtype.itemsize


def flat(array: np.ndarray) -> np.ndarray:
    """The bytes of an array; its own where it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def write_type(writer: Writer, type_: OperandType) -> None:
    """An operand's type."""
    quant = type_.channel_quant
    writer.u32(type_.code).u64s(type_.dimensions).f64(type_.scale).i64(type_.zero_point).u8(quant is not None)
    if quant is not None:
        writer.f64s(quant.scales).i64(quant.channel_dim)


def read_type(reader: Reader) -> OperandType:
    """An operand's type. BAD_DATA, Malformed: it is none."""
    code, dimensions, scale, zero_point = reader.u32(), reader.u64s(), reader.f64(), reader.i64()
    quant = ChannelQuant(reader.f64s(), reader.i64()) if reader.u8() else None
    return OperandType(_member(OperandCode, code), dimensions, scale, zero_point, quant)


def write_model(writer: Writer, model: Model) -> None:
    """A model, and before it all that it refers to. BAD_DATA: it can't be told."""
    models = [*model.referenced(), model]
    numbers = {each: number for number, each in enumerate(models)}
    writer.u32(len(models))
    for each in models:
        writer.u32(len(each.operands))
        for operand in each.operands:
            _write_operand(writer, operand, numbers)
        writer.u32(len(each.operations))
        for operation in each.operations:
            _write_operation(writer, operation)
        writer.u64s(each.inputs).u64s(each.outputs).u8(each.relaxed).u32(len(each.input_names))
        for name in each.input_names:
            writer.string(name)


def read_model(reader: Reader) -> Model:
    """A model; the values of its constants lie in the packet. BAD_DATA, Malformed: it is none."""
    models: list[Model] = []
    for _ in range(reader.u32()):
        operands = tuple(_read_operand(reader, models) for _ in range(reader.u32()))
        operations = tuple(_read_operation(reader) for _ in range(reader.u32()))
        inputs, outputs, relaxed = reader.u64s(), reader.u64s(), bool(reader.u8())
        names = tuple(reader.string() for _ in range(reader.u32()))
        models.append(Model(operands, operations, inputs, outputs, relaxed, names))
    if not models:
        raise Malformed("there is no model")
    return models[-1]


def _write_operand(writer: Writer, operand: Operand, numbers: dict[Model, int]) -> None:
    write_type(writer, operand.type)
    writer.u8(_LIFETIMES.index(operand.lifetime)).u8(operand.constant is not None).u8(operand.subgraph is not None)
    value = operand.value
    if value is not None:
        write_dtype(writer, value)
        writer.aligned(flat(value).data)
    if operand.subgraph is not None:
        writer.u32(numbers[operand.subgraph])


def _read_operand(reader: Reader, models: list[Model]) -> Operand:
    type_, lifetime = read_type(reader), reader.u8()
    has_value, has_subgraph = reader.u8(), reader.u8()
    if lifetime >= len(_LIFETIMES):
        raise Malformed(f"there is no lifetime {lifetime}")
    value: np.ndarray | None = None
    subgraph = None
    if has_value:
        dtype, shape, nbytes = read_dtype(reader)
        value = np.ndarray(shape, dtype, reader.aligned(nbytes))
    if has_subgraph:
        number = reader.u32()
        if number >= len(models):
            raise Malformed(f"model {number} does not come before those that refer to it")
        subgraph = models[number]
    return Operand(type_, _LIFETIMES[lifetime], value, subgraph)


def _write_operation(writer: Writer, operation: Operation) -> None:
    code = operation.code
    if isinstance(code, ExtendedOperationCode):
        writer.u8(1).string(EXTENSION).u32(code.value)
    elif isinstance(code, ExtensionCode):
        writer.u8(1).string(code.extension).u32(code.code)
    elif isinstance(code, OperationCode):
        writer.u8(0).u32(code)
    else:
        raise bad_data(f"an operation has the code {code!r}, which is none of feature level 8")
    writer.u64s(operation.inputs).u64s(operation.outputs)


def _read_operation(reader: Reader) -> Operation:
    code: AnyCode
    code = operation_of(reader.string(), reader.u32()) if reader.u8() else _member(OperationCode, reader.u32())
    return Operation(code, reader.u64s(), reader.u64s())


# --- options and results -------------------------------------------------------------------------------------------


def write_prepare_options(writer: Writer, options: PrepareOptions) -> None:
    """How to prepare a model."""
    writer.u32(options.preference).u32(options.priority).i64(to_deadline(options.deadline_ns))
    writer.string("" if options.cache is None else str(options.cache.absolute())).u8(options.verified)


def read_prepare_options(reader: Reader) -> PrepareOptions:
    """How to prepare a model."""
    preference, priority = _member(PreferenceCode, reader.u32()), _member(PriorityCode, reader.u32())
    deadline_ns, cache = from_deadline(reader.i64()), reader.string()
    verified = bool(reader.u8())
    return PrepareOptions(preference, priority, deadline_ns, Path(cache) if cache else None, verified)


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
    return ExecutionResult(_member(ResultCode, code), tuple(shapes), Timing(times[0], times[1]), fenced)


def output_sizes(model: Model, result: ExecutionResult) -> list[int]:
    """Bytes of each output."""
    return [
        math.prod(shape.dimensions) * dtype_of(type_.code).itemsize
        for type_, shape in zip(model.output_types(), result.output_shapes, strict=True)
    ]


def _member(enum: type[E], number: int) -> E:
    try:
        return enum(number)
    except ValueError:
        raise Malformed(f"{number} is no {enum.__name__}") from None
