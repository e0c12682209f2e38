"""Check the arguments that an application gives to an execution, and make views of them for drivers, never copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnvk.base.checks import instance, shown, whole
from nnvk.base.errors import bad_data
from nnvk.ops.registry import compatible
from nnvk.runtime.model_checks import as_array, check_dtype, check_shape
from nnvk.types.operand import OperandType
from nnvk.types.request import LONGEST_NS


def duration(what: str, duration_ns: Any) -> int:
    """Check a 64-bit number of nanoseconds."""
    number = whole(f"the {what}", duration_ns)
    if number < 0:
        raise bad_data(f"the {what} must not be negative, got {number}")
    if number > LONGEST_NS:
        raise bad_data(f"the {what} must be less than 2^64 ns, got {number}")
    return number


def merge(what: str, operand: OperandType, given: OperandType) -> OperandType:
    """The operand's type with the dimensions that ``given`` adds. BAD_DATA if they contradict each other."""
    instance(f"{what}: the type", given, OperandType)
    if (given.code, given.scale, given.zero_point) != (operand.code, operand.scale, operand.zero_point):
        raise bad_data(f"{what}: the model says {operand}, the execution {given}")
    given.check(what)
    if operand.dimensions and not compatible(operand.dimensions, given.dimensions):
        raise bad_data(f"{what}: dimensions {list(given.dimensions)} don't fit the model's {list(operand.dimensions)}")
    return operand.with_dimensions(given.dimensions)


def input_array(
    what: str, operand: OperandType, value: Any, given: OperandType | None, padding: bool = False
) -> np.ndarray | None:
    """An input as an array of the operand's dtype and actual shape; with ``padding`` the buffer may be longer."""
    if value is None:
        return None
    full = operand if given is None else merge(what, operand, given)
    fits = isinstance(value, np.ndarray) and full.is_tensor and value.dtype.itemsize == full.dtype.itemsize
    if given is None and fits and (not full.dimensions or compatible(full.dimensions, value.shape)):
        full = full.with_dimensions(value.shape)
    if not full.is_fully_specified:
        raise bad_data(f"{what}: {operand} leaves dimensions open, and {_describe(given, value)} does not give them")
    return as_array(_unpadded(value, full) if padding else value, full, what)


def output_bytes(what: str, operand: OperandType, value: Any, padding: bool = False) -> np.ndarray | None:
    """An output's buffer as flat, writable bytes; with ``padding`` it may be longer than the output."""
    if value is None:
        return None
    try:
        buffer = value if isinstance(value, np.ndarray) else np.frombuffer(value, np.uint8)
    except TypeError as error:
        raise TypeError(f"{what}: expected a writable array or buffer, got {shown(value)}: {error}") from None
    except (ValueError, BufferError) as error:
        raise bad_data(f"{what}: expected a writable array or buffer, got {shown(value)}: {error}") from None
    if not buffer.flags.c_contiguous or not buffer.flags.writeable:
        raise bad_data(f"{what}: the array must be C-contiguous and writable")
    check_dtype(buffer, operand, what)
    if operand.is_fully_specified:
        needed = operand.size
        if buffer.nbytes < needed or (buffer.nbytes > needed and not padding):
            raise bad_data(f"{what}: {operand} needs {needed} bytes, got {buffer.nbytes}")
        if buffer.nbytes == needed:
            check_shape(buffer, operand, what)
    return buffer.reshape(-1).view(np.uint8)


def _unpadded(value: Any, type_: OperandType) -> Any:
    """Cut the bytes past the operand off a buffer. Numbers and lists do not change."""
    try:
        flat = np.frombuffer(value, np.uint8)
    except (TypeError, ValueError, BufferError):
        return value
    return flat[: type_.size] if flat.nbytes > type_.size else value


def _describe(given: OperandType | None, value: Any) -> str:
    if given is not None:
        return str(given)
    return (
        f"an array of {value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(type(value).__name__)
    )
