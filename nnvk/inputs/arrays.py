"""Arrays in NumPy's files as inputs of a model."""

from __future__ import annotations

import io
import lzma
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, BinaryIO, Literal

import numpy as np

from nnvk.base.errors import NnapiError, bad_data
from nnvk.base.files import open_regular
from nnvk.base.text import dimensions, printable
from nnvk.importers.errors import NAME_SHOWN
from nnvk.importers.ports import Port

BROKEN = (
    ValueError,
    EOFError,
    SyntaxError,
    TypeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""Exceptions of NumPy and zipfile for files that are broken, encrypted, or compressed in an unknown way."""
_NPY, _ZIP = b"\x93NUMPY", b"PK"
_LONGEST_HEADER = 16 << 10
_HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Readers by version; version 3 is for structures whose fields have names beyond Latin-1."""
_PARSING = Lock()
"""Held while a header is parsed: CPython 3.11 and 3.12 may raise SystemError where two threads parse (gh-106905)."""


def load_arrays(path: Path, ports: Sequence[Port]) -> list[np.ndarray]:
    """All inputs of a model from one ``.npz``, with arrays ``0``, ``1``, ... or with the inputs' names.

    Raises ValueError that says what was expected and what came, and OSError.
    """
    with open_regular(path) as file:
        if _begins_with(path, file, _NPY):
            raise ValueError(f"one array without a name, not an archive of arrays, call it .npy: {path}")
        with _reading(path):
            archive = zipfile.ZipFile(file)
        members = {name.removesuffix(".npy"): name for name in archive.namelist()}
        by_place, by_name = [str(index) for index in range(len(ports))], [port.name for port in ports]
        names = by_place if sorted(members) == sorted(by_place) else by_name
        if sorted(members) != sorted(names):
            known = " or ".join(", ".join(printable(name, NAME_SHOWN) for name in each) for each in (by_place, by_name))
            raise ValueError(f"expected arrays named {known}: {path} (found {', '.join(members)})")
        arrays = []
        for name, port in zip(names, ports, strict=True):
            with _reading(path):
                member = archive.open(members[name])
            with member:
                arrays.append(_array(path, f"member '{name}'", member, port))
        return arrays


def load_array(path: Path, port: Port) -> np.ndarray:
    """An input from a ``.npy``, which may differ from its shape in sizes of 1. Errors as `load_arrays`."""
    with open_regular(path) as file:
        if _begins_with(path, file, _ZIP):
            raise ValueError(f"an archive of arrays, not one array, call it .npz: {path}")
        return _array(path, "", file, port)


def array_shape(path: Path) -> tuple[int, ...]:
    """The shape of the array in a ``.npy``, all of which must be there. Errors as `load_arrays`."""
    with open_regular(path) as file, _reading(path):
        header = _header(file, "")
        wanted, there = math.prod(header.shape) * header.dtype.itemsize, os.fstat(file.fileno()).st_size - header.length
        if wanted > there:
            raise ValueError(f"{wanted:,} bytes of an array, of which there are {there:,}")
        return header.shape


def load_array_rows(path: Path, port: Port, place: int) -> np.ndarray:
    """An input from one row of the array in a ``.npy``, of which no more is read. Errors as `load_arrays`."""
    with open_regular(path) as file:
        with _reading(path):
            header = _header(file, "")
        _check(header.dtype, header.shape[1:], port, f"{path}#{place}")
        with _reading(path):
            array = np.memmap(file, header.dtype, "r", header.length, header.shape, header.order)
            row = np.array(array[place], order="C")
        return _shaped(row, port, f"{path}#{place}")


def _begins_with(path: Path, file: BinaryIO, magic: bytes) -> bool:
    with _reading(path):
        found = file.read(len(magic)) == magic
        file.seek(0)
    return found


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever NumPy and zipfile raise becomes a ValueError that names the file."""
    try:
        yield
    except (OSError, *BROKEN) as error:
        raise ValueError(f"not an array file of NumPy: {path} ({error})") from error


def _array(path: Path, member: str, file: IO[bytes], port: Port) -> np.ndarray:
    """An array in the tensor's shape, from which it may differ in ones; what does not fit is not read.

    ``member`` names it in an archive. Raises ValueError.
    """
    with _reading(path):
        header = _header(file, member)
    what = f"{path}, {member}" if member else str(path)
    _check(header.dtype, header.shape, port, what)
    with _reading(path):
        file.seek(header.length)
        size = math.prod(header.shape) * header.dtype.itemsize
        content = file.read(size)
        if len(content) < size:
            raise ValueError(f"{size:,} bytes of an array, of which there are {len(content):,}")
        array = np.frombuffer(content, header.dtype).reshape(header.shape, order=header.order)
    return _shaped(np.array(array, order="C"), port, what)


def _shaped(array: np.ndarray, port: Port, what: str) -> np.ndarray:
    """An array that fits an input, in the input's type and shape; open sizes are the array's. Errors as `_check`."""
    native = array.dtype.newbyteorder("=")
    try:
        array = as_numbers(port, array.astype(native, copy=False))
    except NnapiError as error:
        raise ValueError(f"{error.reason}: {what}") from error
    return array if -1 in port.shape else array.reshape(port.shape)


@dataclass(frozen=True, slots=True)
class _Header:
    """The header of an array file."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype
    length: int
    """Bytes before the array."""


def _header(file: IO[bytes], member: str) -> _Header:
    """How an array lies in a file, without reading further than a header may reach."""
    start = io.BytesIO(file.read(_LONGEST_HEADER))
    if not start.getvalue().startswith(_NPY):
        raise ValueError(f"its {member} is no array" if member else "it does not begin as one")
    version = np.lib.format.read_magic(start)
    if version not in _HEADERS:
        raise ValueError(f"version {version[0]}.{version[1]} is for arrays that no model takes")
    with _PARSING:
        shape, is_fortran, dtype = _HEADERS[version](start)
    if any(size < 0 for size in shape):
        raise ValueError(f"its shape is {list(shape)}")
    return _Header(shape, "F" if is_fortran else "C", dtype, start.tell())


def _check(dtype: np.dtype, shape: Sequence[int], port: Port, what: str) -> None:
    """Raise ValueError where elements are not an input's."""
    if not (dtype.kind == "U" if port.has_texts else _may_become(dtype, port.dtype)):
        raise ValueError(f"expected {describe(port)}, got {dtype}: {what}")
    if not fits(shape, port.shape):
        raise ValueError(f"expected {describe(port)}, got {dimensions(shape)}: {what}")


def describe(port: Port) -> str:
    """The arrays that an input takes, for errors."""
    return f"{port.elements} {dimensions(port.shape)} for {port.name!r}"


def fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether an array can have a shape: it may differ in sizes of 1, but not where sizes of -1 are open."""
    if -1 in wanted:
        return len(shape) == len(wanted) and all(
            size == known or (known == -1 and size > 0) for size, known in zip(shape, wanted, strict=True)
        )
    return [size for size in shape if size != 1] == [size for size in wanted if size != 1]


def _may_become(dtype: np.dtype, wanted: np.dtype) -> bool:
    """Whether numbers of a type may be given for an input's type: any real ones for floats, whole ones for integers."""
    if dtype.newbyteorder("=") == wanted:
        return True
    return dtype.kind in {"f": "fiub", "c": "fciub"}.get(wanted.kind, "iub") and wanted.kind in "fciub"


def as_numbers(port: Port, array: np.ndarray) -> np.ndarray:
    """An array in the input's type: real numbers are rounded to it, whole ones must be numbers that it has.

    Quantised inputs take their levels, because nothing tells levels from real numbers. BAD_DATA: the type does not fit.
    """
    if array.dtype == port.dtype:
        return array
    if port.has_texts:
        return array.astype(object)
    if port.dtype.kind in "fc" and _may_become(array.dtype, port.dtype):
        return array.astype(port.dtype)
    if _may_become(array.dtype, port.dtype):
        converted = array.astype(port.dtype)
        if np.array_equal(converted, array):
            return converted
        raise bad_data(f"{port} must have numbers of {port.dtype}, got {array.min()} to {array.max()}")
    hint = ""
    if port.is_quantised and array.dtype.kind == "f":
        hint = "; model.inputs[...].quantize(array) makes levels of real numbers"
    raise bad_data(f"{port} must be an array of {port.dtype}, got {array.dtype}{hint}")
