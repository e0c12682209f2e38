"""From bytes to a model of the ``onnx`` package, and from its tensors to arrays, with every size checked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import IR_VERSION, FunctionProto, GraphProto, ModelProto, TensorProto, helper, numpy_helper
from onnx.defs import SchemaError, get_schema, onnx_opset_version

from nnvk.base.files import open_regular
from nnvk.base.text import printable
from nnvk.importers.budget import Budget
from nnvk.importers.errors import NAME_SHOWN, Unmapped
from nnvk.importers.foreign import describe_foreign, is_onnx
from nnvk.importers.onnx.errors import Malformed, NoModel, UnknownVersion
from nnvk.importers.onnx.narrow import Narrow, narrow_of
from nnvk.importers.onnx.node import domain_of

MAX_BYTES = 2**31 - 1
"""The largest file that protocol buffers have."""
MAX_RANK = 16
"""The largest rank that makes sense."""
OLDEST = 7
"""The oldest version of ONNX's operators that is read: before, broadcasting was something else."""
_NUMBERS = frozenset("biuf")
"""Kinds of NumPy's types that are numbers, or truth."""


def read_file(path: Path) -> bytes:
    """The bytes of a file. OSError: it can't be read, or is no regular file."""
    with open_regular(path) as file:
        nbytes = os.fstat(file.fileno()).st_size
        if nbytes > MAX_BYTES:
            raise NoModel(f"it has {nbytes} bytes, models have 2 GiB at most and keep more beside them")
        return file.read(MAX_BYTES + 1)


def parse(data: bytes) -> ModelProto:
    """The model in a file's bytes."""
    foreign = describe_foreign(data, is_onnx)
    if foreign:
        raise NoModel(foreign)
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise NoModel(f"its bytes are no model, or end too early: {error}") from error
    _check_messages(model)
    if not model.HasField("graph") or not model.ir_version:
        raise NoModel("it has no graph or no IR version")
    if not 1 <= model.ir_version <= IR_VERSION:
        raise UnknownVersion(
            f"the onnx package that is installed knows IR versions 1 to {IR_VERSION}, got {model.ir_version}"
        )
    return model


def _check_messages(message: Message, is_initializer: bool = False) -> None:
    """`Malformed` where a name is no UTF-8, which protocol buffers of this kind let pass, or data are elsewhere.

    Only the elements of a graph's initializers may be in another file: the onnx package would look for others in the
    process's folder.
    """
    if isinstance(message, TensorProto) and not is_initializer and is_external(message):
        raise Malformed(
            f"tensor '{printable(str(message.name), NAME_SHOWN)}' must have its elements in the file itself: "
            "only those of initializers may be in another one"
        )
    for field, value in message.ListFields():
        if field.type not in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING):
            continue
        several = [value] if isinstance(value, (str, bytes, Message)) else value
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            are_initializers = isinstance(message, GraphProto) and field.name == "initializer"
            for one in several:
                _check_messages(one, are_initializers)
        elif not all(isinstance(one, str) for one in several):
            raise Malformed(f"field '{field.full_name}' is no text in UTF-8")


def is_external(tensor: TensorProto) -> bool:
    """Whether a tensor's elements are not in the model itself."""
    return bool(tensor.data_location == TensorProto.EXTERNAL or tensor.external_data)


def versions(model: ModelProto) -> dict[str, int]:
    """The version of each domain's operators."""
    found = {domain_of(one.domain): int(one.version) for one in model.opset_import}
    version = stated_version(model)
    if not is_known(model, version):
        raise UnknownVersion(
            f"versions {OLDEST} to {onnx_opset_version()} of ONNX's operators are known here, "
            f"got opset {version}: convert the model with onnx.version_converter"
        )
    return {**found, "": max(version, OLDEST)}


def stated_version(model: ModelProto) -> int:
    """The version of ONNX's own operators that a model states; 1 if it states none and has some."""
    stated = [int(one.version) for one in model.opset_import if not domain_of(one.domain)]
    if stated:
        return stated[-1]
    has_some = any(domain_of(node.domain) == "" for node in model.graph.node)
    return 1 if has_some else onnx_opset_version()


def is_known(model: ModelProto, version: int) -> bool:
    """Whether the operators of a version are read, or all that the model has are what they are in `OLDEST`."""
    return OLDEST <= version <= onnx_opset_version() or (1 <= version < OLDEST and _is_unchanged(model, version))


def _is_unchanged(model: ModelProto, version: int) -> bool:
    """Whether all of a model's operators are in a version what they are in `OLDEST`."""
    graphs: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    for graph in graphs:
        for node in graph.node:
            graphs += [one for attribute in node.attribute for one in (attribute.g, *attribute.graphs) if one.node]
            if domain_of(node.domain):
                continue
            try:
                own, oldest = (get_schema(node.op_type, one).since_version for one in (version, OLDEST))
            except SchemaError:  # it is no operator of this version
                return False
            if own != oldest:
                return False
    return True


def dtype_of(element_type: int, what: str) -> np.dtype:
    """The NumPy type that carries an element type. `Unmapped` where it is none of numbers."""
    dtype, narrow = types_of(element_type, what)
    return dtype if narrow is None else narrow.carrier


def types_of(element_type: int, what: str) -> tuple[np.dtype, Narrow | None]:
    """The NumPy type of an element type, and its format if NumPy itself has none. `Unmapped`: it is none of numbers."""
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element_type))
    except (KeyError, ValueError, TypeError):
        raise Malformed(f"{what} has the unknown element type {element_type}") from None
    narrow = narrow_of(dtype)
    if narrow is None and (dtype.kind not in _NUMBERS or dtype.isbuiltin != 1):
        name = TensorProto.DataType.Name(element_type)
        raise Unmapped(f"{what} is of type {name}, which NNAPI has nothing for")
    return dtype, narrow


def open_beside(folder: Path, location: str, what: str) -> BinaryIO:
    """A file beside a model, by its name there, which has ``what``, open to be read.

    Raises `Unmapped` where it is elsewhere, or no regular file, and OSError, ValueError and RuntimeError of its path.
    """
    inside = location and not PurePosixPath(location).is_absolute() and ".." not in PurePosixPath(location).parts
    path = folder / location if inside else folder
    if not inside or not path.resolve(strict=True).is_relative_to(folder.resolve()) or not path.is_file():
        raise Unmapped(f"{what} must be in a file of the model's folder, got '{printable(location, NAME_SHOWN)}'")
    return open_regular(path)


class Elements:
    """The elements of the constants of a file's graph, by name, which several imports share."""

    def __init__(self) -> None:
        self._known: dict[str, np.ndarray] = {}

    def get(self, tensor: TensorProto) -> np.ndarray | None:
        """The elements that an earlier import has read; None without them."""
        return self._known.get(tensor.name)

    def put(self, tensor: TensorProto, array: np.ndarray) -> None:
        """Keep elements."""
        self._known[tensor.name] = array


class Arrays:
    """Reads the elements of tensors, those beside the model too: in files of its folder, or in memory.

    ``shared`` keeps the elements for more imports of the same file; without it a file is imported once.
    """

    def __init__(self, beside: Path | memoryview | None, budget: Budget, shared: Elements | None = None) -> None:
        self._beside = beside
        self._budget = budget
        self._shared = shared

    def look(self, tensor: TensorProto) -> np.ndarray:
        """The elements of a constant of the file's graph, which may be read again. Errors as `read`."""
        array = None if self._shared is None else self._shared.get(tensor)
        if array is None:
            return self.read(tensor)
        self._budget.charge(array.nbytes)
        return array

    def take(self, tensor: TensorProto) -> np.ndarray:
        """`look`, but the tensor's bytes are freed, because nothing reads them again."""
        array = self.look(tensor)
        if self._shared is not None:
            self._shared.put(tensor, array)
        tensor.ClearField("raw_data")
        return array

    def read(self, tensor: TensorProto) -> np.ndarray:
        """The elements. `Unmapped` says what is wrong with them."""
        what = f"tensor '{printable(tensor.name, NAME_SHOWN)}'"
        dtype, narrow = types_of(tensor.data_type, what)
        shape = tuple(tensor.dims)
        if len(shape) > MAX_RANK or any(size < 0 for size in shape):
            raise Unmapped(f"{what} must have at most {MAX_RANK} dimensions from 0 up, got {list(shape)}")
        size = math.prod(shape)
        nbytes = size * dtype.itemsize if narrow is None else -(-size * narrow.bits // 8)
        if narrow is not None:
            self._budget.charge(size * narrow.carrier.itemsize)
        if tensor.data_location == TensorProto.EXTERNAL:
            self._budget.charge(size * dtype.itemsize)
            return self._external(tensor, what, dtype, shape, nbytes)
        if tensor.HasField("raw_data") and len(tensor.raw_data) != nbytes:
            raise Unmapped(f"{what} of {dtype} {list(shape)} needs {nbytes} bytes, it has {len(tensor.raw_data)}")
        self._budget.charge(size * dtype.itemsize)
        try:
            array: np.ndarray = numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError) as error:
            raise Unmapped(f"{what} of {dtype} {list(shape)} has no such elements ({error})") from error
        return array

    def _external(
        self, tensor: TensorProto, what: str, dtype: np.dtype, shape: tuple[int, ...], nbytes: int
    ) -> np.ndarray:
        where = {entry.key: entry.value for entry in tensor.external_data}
        location = where.get("location", "")
        if isinstance(self._beside, memoryview):
            return _in_memory(self._beside, where, what, tensor, nbytes)
        if self._beside is None:
            raise Unmapped(
                f"{what} is in the file '{printable(location, NAME_SHOWN)}' beside the model: load it from its path"
            )
        try:
            offset, length = int(where.get("offset", 0)), int(where.get("length", nbytes))
            if length != nbytes:
                raise Unmapped(f"{what} of {dtype} {list(shape)} needs {nbytes} bytes, length says {length}")
            with open_beside(self._beside, location, what) as file:
                there = os.fstat(file.fileno()).st_size
                if offset < 0 or offset + length > there:
                    raise Unmapped(
                        f"{what} ends at byte {offset + length} of '{printable(location, NAME_SHOWN)}', "
                        f"which has {there}"
                    )
                if narrow_of(dtype) is not None:
                    return _unpacked(tensor, np.fromfile(file, np.uint8, nbytes, offset=offset).tobytes())
                array = np.fromfile(file, dtype.newbyteorder("<"), math.prod(shape), offset=offset)
        except (OSError, ValueError, RuntimeError) as error:
            raise Unmapped(f"{what} can't be read from '{printable(location, NAME_SHOWN)}': {error}") from error
        return array.astype(dtype, copy=False).reshape(shape)


def _in_memory(memory: memoryview, where: Mapping[str, str], what: str, tensor: TensorProto, nbytes: int) -> np.ndarray:
    """The elements of a tensor that is in memory beside the model, without a copy where NumPy has its type."""
    try:
        offset = int(where.get("offset", 0))
    except ValueError as error:
        raise Unmapped(f"{what} has no place in memory: {error}") from error
    if offset < 0 or offset + nbytes > len(memory):
        raise Unmapped(f"{what} ends at byte {offset + nbytes} of {len(memory)}")
    part = memory[offset : offset + nbytes]
    dtype, narrow = types_of(tensor.data_type, what)
    if narrow is not None:
        return _unpacked(tensor, bytes(part))
    return np.frombuffer(part, dtype).reshape(tuple(tensor.dims))


def _unpacked(tensor: TensorProto, data: bytes) -> np.ndarray:
    """The elements of a type that NumPy itself has not."""
    array: np.ndarray = numpy_helper.to_array(TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data))
    return array
