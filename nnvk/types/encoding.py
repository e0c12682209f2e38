"""Arrays, types of operands and models as bytes of packets, and back."""

from __future__ import annotations

import math

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.base.fields import BOOL, F64, F64S, I64, STRING, U64S, Field, many, member_of, optional, parts, record
from nnvk.base.packets import Malformed, Reader, Writer
from nnvk.types.codes import ExtensionCode, OperandCode, OperationCode
from nnvk.types.extension import EXTENSION, AnyCode, ExtendedOperationCode, operation_of
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import ChannelQuant, OperandType, Shape

_LIFETIMES = tuple(Lifetime)
_DTYPES = tuple(np.dtype(code) for code in ("?", "u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4", "u8", "i8", "f8"))
_DTYPE_NUMBERS = {dtype: number for number, dtype in enumerate(_DTYPES)}


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


TYPE = record(OperandType, member_of(OperandCode), U64S, F64, I64, optional(record(ChannelQuant, F64S, I64)))
"""BAD_DATA, Malformed: it is none."""


def write_model(writer: Writer, model: Model) -> None:
    """A model, and before it all that it refers to. BAD_DATA: it can't be told."""
    models = [*model.referenced(), model]
    numbers = {each: number for number, each in enumerate(models)}
    writer.u32(len(models))
    for each in models:
        writer.u32(len(each.operands))
        for operand in each.operands:
            _write_operand(writer, operand, numbers)
        settings = each.relaxed, each.reproducible
        _REST.write(writer, (each.operations, each.inputs, each.outputs, each.input_names, *settings))


def read_model(reader: Reader) -> Model:
    """A model; the values of its constants lie in the packet. BAD_DATA, Malformed: it is none."""
    models: list[Model] = []
    for _ in range(reader.u32()):
        operands = tuple(_read_operand(reader, models) for _ in range(reader.u32()))
        operations, inputs, outputs, names, relaxed, reproducible = _REST.read(reader)
        models.append(Model(operands, operations, inputs, outputs, relaxed, names, reproducible=reproducible))
    if not models:
        raise Malformed("there is no model")
    return models[-1]


def _write_operand(writer: Writer, operand: Operand, numbers: dict[Model, int]) -> None:
    TYPE.write(writer, operand.type)
    writer.u8(_LIFETIMES.index(operand.lifetime)).u8(operand.constant is not None).u8(operand.subgraph is not None)
    value = operand.value
    if value is not None:
        write_dtype(writer, value)
        writer.aligned(flat(value).data)
    if operand.subgraph is not None:
        writer.u32(numbers[operand.subgraph])


def _read_operand(reader: Reader, models: list[Model]) -> Operand:
    type_, lifetime = TYPE.read(reader), reader.u8()
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


def _write_code(writer: Writer, code: AnyCode) -> None:
    if isinstance(code, ExtendedOperationCode):
        writer.u8(1).string(EXTENSION).u32(code.value)
    elif isinstance(code, ExtensionCode):
        writer.u8(1).string(code.extension).u32(code.code)
    elif isinstance(code, OperationCode):
        writer.u8(0).u32(code)
    else:
        raise bad_data(f"an operation has the code {code!r}, which is none of feature level 8")


def _read_code(reader: Reader) -> AnyCode:
    return operation_of(reader.string(), reader.u32()) if reader.u8() else _CODE.read(reader)


_CODE = member_of(OperationCode)
_OPERATION = record(Operation, Field("code", _write_code, _read_code), U64S, U64S)
_REST = parts(many(_OPERATION), U64S, U64S, many(STRING), BOOL, BOOL)
"""A model without its operands."""
