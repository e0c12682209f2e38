"""Reads the tables of a ``.tflite`` file into plain records, with every index and size checked.

The FlatBuffers package for Python has no verifier. Reading a damaged or hostile file can end in two ways
only, because of three rules kept here:

* whatever the generated accessors raise on offsets that lead nowhere becomes `Malformed`, in `_guarded`;
* vectors are charged to a budget before anything is done per element, so that a file whose tables refer to
  each other many times over costs no more than one of its size honestly could;
* constants are views of the file, and sizes are compared before a byte is looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite
from flatbuffers.number_types import Int32Flags

from nnvk.base.text import printable
from nnvk.importers.errors import NAME_SHOWN, Unmapped
from nnvk.importers.foreign import describe_foreign
from nnvk.importers.tflite.errors import Malformed, NoModel
from nnvk.importers.tflite.sparse import Level, Sparsity
from nnvk.types.operand import Shape

FILE_IDENTIFIER = b"TFL3"
METADATA_NAME = b"TFLITE_METADATA"
_BUILTIN_CODE = 10
"""Where a table of OperatorCode has the place of its field builtin_code."""
HEAD = 8
"""Bytes up to the end of the identifier."""
HEAD_OF_OTHERS = 120
"""Bytes more that say what a file is which is no model."""
SCHEMA_VERSION = 3
MAX_RANK = 8
"""The largest rank that TFLite's kernels know."""
MAX_BYTES = 2**32 - 1
"""The largest tensor that NNAPI can describe."""
_TABLE_COST, _ELEMENT_COST = 16, 4
"""Bytes that an operator or tensor, and an element of a vector, take up at least in a file."""


def _names(enumeration: type) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if not name.startswith("_")}


_BUILTINS = _names(tflite.BuiltinOperator)
_TENSOR_TYPES = _names(tflite.TensorType)

_INDEX_VECTORS: dict[int, Any] = {
    tflite.SparseIndexVector.Int32Vector: tflite.Int32Vector,
    tflite.SparseIndexVector.Uint16Vector: tflite.Uint16Vector,
    tflite.SparseIndexVector.Uint8Vector: tflite.Uint8Vector,
}
_BITS = {
    "FLOAT32": 32,
    "FLOAT16": 16,
    "INT32": 32,
    "UINT8": 8,
    "INT64": 64,
    "BOOL": 8,
    "INT16": 16,
    "COMPLEX64": 64,
    "INT8": 8,
    "FLOAT64": 64,
    "COMPLEX128": 128,
    "UINT64": 64,
    "UINT32": 32,
    "UINT16": 16,
    "INT4": 4,
    "BFLOAT16": 16,
}
"""Bits of an element. Types that are not here (STRING, RESOURCE, VARIANT) have elements of no fixed size."""


def _empty_table() -> tuple[bytes, int]:
    """A table without fields, whose accessors give the schema's defaults, and its position."""
    builder = flatbuffers.Builder(16)
    builder.StartObject(0)
    builder.Finish(builder.EndObject())
    data = bytes(builder.Output())
    return data, struct.unpack_from("<I", data)[0]


_EMPTY = _empty_table()


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of a subgraph, as the file describes it."""

    index: int
    name: str
    type: str
    """Name of its TensorType: "FLOAT32", "INT8", ..."""
    shape: Shape
    is_static: bool
    """Whether ``shape`` is what the model means, and not a placeholder for sizes known only when it runs."""
    signature: Shape
    """``shape`` with -1 where the size is a placeholder."""
    scales: np.ndarray
    """Scales, float32: none, one, or one per index of ``channel_dim``."""
    zero_points: np.ndarray
    channel_dim: int
    data: np.ndarray | None
    """The bytes of a constant."""
    is_variable: bool
    sparsity: Sparsity | None
    """How a constant that is not dense is stored."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of sizes, which ``.tflite`` files do not have."""
        return ()

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=object))

    def __str__(self) -> str:
        return describe(self.index, self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator of a subgraph; tensors are indexes into it, -1 for one that is left out."""

    index: int
    name: str
    """Name of its BuiltinOperator, or its custom code."""
    is_custom: bool
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    raw: Any

    def options(self, table: str) -> Any:
        """The generated accessor of the options, a table of this name; defaults where the file has none.

        `Unmapped` where they are another operator's.
        """
        accessor = getattr(tflite, table)()
        if hasattr(tflite.BuiltinOptions, table):
            union, present, kind = tflite.BuiltinOptions, self.raw.BuiltinOptions(), self.raw.BuiltinOptionsType()
        else:  # an operator that came after the first union was full
            union, present, kind = tflite.BuiltinOptions2, self.raw.BuiltinOptions2(), self.raw.BuiltinOptions2Type()
        if present is None or kind == union.NONE:
            accessor.Init(*_EMPTY)
        elif kind != getattr(union, table):
            raise Unmapped(f"expected options of type {table}, got type {kind}")
        else:
            accessor.Init(present.Bytes, present.Pos)
        return accessor

    def custom_options(self) -> bytes:
        """The bytes of a custom operator's options."""
        data = self.raw.CustomOptionsAsNumpy()
        return b"" if isinstance(data, int) else data.tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """Tensors, and operators in the order of execution."""

    index: int
    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SignatureDef:
    """A subgraph, and tensors of it, by names for callers."""

    key: str
    subgraph: int
    inputs: dict[str, int]
    outputs: dict[str, int]


def describe(index: int, name: str) -> str:
    """How messages call a tensor."""
    return f"tensor {index} '{printable(name, NAME_SHOWN)}'"


@contextmanager
def _guarded(what: str) -> Iterator[None]:
    """Turn whatever the generated accessors raise on a damaged file into `Malformed`."""
    try:
        yield
    except (struct.error, IndexError, ValueError, TypeError, OverflowError) as error:
        raise Malformed(f"{what} leads outside the file, as where a download has ended early") from error


def is_model(data: bytes) -> bool:
    """Whether these bytes, at least the first `HEAD` of a file, begin one."""
    return len(data) >= HEAD and data[4:HEAD] == FILE_IDENTIFIER


class File:
    """A model file. Subgraphs are read when they are asked for, once."""

    def __init__(self, data: bytes) -> None:
        if not is_model(data):
            raise NoModel(
                describe_foreign(data) or f"bytes 4 to 8 must be {FILE_IDENTIFIER!r}, got {bytes(data[4:8])!r}"
            )
        self.data = data
        self._budget = 2 * len(data) + 4096
        self._subgraphs: dict[int, Subgraph] = {}
        with _guarded("the root table"):
            self._model = tflite.Model.GetRootAs(data, 0)
            version = self._model.Version()
            if version != SCHEMA_VERSION:
                raise Malformed(f"schema version must be {SCHEMA_VERSION}, got {version}")
            self.subgraph_count = self._model.SubgraphsLength()
            self._buffer_count = self._model.BuffersLength()
            self._codes = [self._code(index) for index in self._range(self._model.OperatorCodesLength())]
            self.description = self._text(self._model.Description())
            self.signatures = [self._signature(index) for index in self._range(self._model.SignatureDefsLength())]
            self.metadata = self._metadata()
        if not self.subgraph_count:
            raise Malformed("the model has no subgraph")

    def subgraph(self, index: int) -> Subgraph:
        """A subgraph by its index."""
        if not 0 <= index < self.subgraph_count:
            raise Malformed(f"subgraph {index} does not exist, there are {self.subgraph_count}")
        if index not in self._subgraphs:
            with _guarded(f"subgraph {index}"):
                self._subgraphs[index] = self._read_subgraph(index)
        return self._subgraphs[index]

    # --- the budget ----------------------------------------------------------------------------------------------

    def _charge(self, amount: int) -> None:
        self._budget -= amount
        if self._budget < 0:
            raise Malformed(f"its tables describe more than its {len(self.data)} bytes can hold")

    def _range(self, count: int, cost: int = _ELEMENT_COST) -> range:
        self._charge(count * cost)
        return range(count)

    def _text(self, text: bytes | None) -> str:
        self._charge(len(text or b""))
        return (text or b"").decode("utf-8", "replace")

    def _numbers(self, vector: np.ndarray | int) -> np.ndarray:
        """A vector as the accessors give it: an array, or 0 where it is absent."""
        if isinstance(vector, int):
            return np.zeros(0, np.int64)
        self._charge(vector.size * _ELEMENT_COST)
        return vector

    # --- tables --------------------------------------------------------------------------------------------------

    def _code(self, index: int) -> tuple[str, bool, int]:
        code = self._model.OperatorCodes(index)
        # Files older than schema 3a have only the one-byte field, younger ones put 127 there, or leave it out. For all
        # small codes the accessor of the package gives that field.
        at = code._tab.Offset(_BUILTIN_CODE)
        own = int(code._tab.Get(Int32Flags, at + code._tab.Pos)) if at else 0
        number = max(own, code.DeprecatedBuiltinCode())
        is_custom = number == tflite.BuiltinOperator.CUSTOM
        name = self._text(code.CustomCode()) if is_custom else _BUILTINS.get(number, f"builtin {number}")
        return name, is_custom, code.Version()

    def _signature(self, index: int) -> SignatureDef:
        raw = self._model.SignatureDefs(index)
        inputs, outputs = (
            {self._text(entry.Name()): entry.TensorIndex() for entry in map(get, self._range(count, _TABLE_COST))}
            for get, count in ((raw.Inputs, raw.InputsLength()), (raw.Outputs, raw.OutputsLength()))
        )
        return SignatureDef(self._text(raw.SignatureKey()), raw.SubgraphIndex(), inputs, outputs)

    def _metadata(self) -> bytes | None:
        """The buffer of TFLite's own metadata, None where there is none."""
        for index in self._range(self._model.MetadataLength(), _TABLE_COST):
            raw = self._model.Metadata(index)
            if raw.Name() == METADATA_NAME:
                buffer = self._constant(raw.Buffer(), "the metadata")
                return None if buffer is None else buffer.tobytes()
        return None

    def _read_subgraph(self, index: int) -> Subgraph:
        raw = self._model.Subgraphs(index)
        tensors = tuple(self._tensor(raw, i) for i in self._range(raw.TensorsLength(), _TABLE_COST))
        count = len(tensors)
        operators = tuple(self._operator(raw, i, count) for i in self._range(raw.OperatorsLength(), _TABLE_COST))
        return Subgraph(
            index,
            self._text(raw.Name()),
            tensors,
            operators,
            self._indexes(raw.InputsAsNumpy(), count, f"subgraph {index}: input", 0),
            self._indexes(raw.OutputsAsNumpy(), count, f"subgraph {index}: output", 0),
        )

    def _operator(self, subgraph: Any, index: int, tensors: int) -> Operator:
        raw = subgraph.Operators(index)
        code = raw.OpcodeIndex()
        if code >= len(self._codes):
            raise Malformed(f"operator {index} refers to operator code {code}, there are {len(self._codes)}")
        name, is_custom, version = self._codes[code]
        what = f"operator {index} ({printable(name, NAME_SHOWN)})"
        return Operator(
            index,
            name,
            is_custom,
            version,
            self._indexes(raw.InputsAsNumpy(), tensors, f"{what}: input", -1),
            self._indexes(raw.OutputsAsNumpy(), tensors, f"{what}: output", 0),
            self._indexes(raw.IntermediatesAsNumpy(), tensors, f"{what}: intermediate", 0),
            raw,
        )

    def _indexes(self, vector: np.ndarray | int, count: int, what: str, least: int) -> tuple[int, ...]:
        indexes = tuple(self._numbers(vector).tolist())
        for position, index in enumerate(indexes):
            if not least <= index < count:
                raise Malformed(f"{what} {position} is tensor {index}, there are {count}")
        return indexes

    def _tensor(self, subgraph: Any, index: int) -> Tensor:
        raw = subgraph.Tensors(index)
        name = self._text(raw.Name())
        what = describe(index, name)
        type_ = _TENSOR_TYPES.get(raw.Type(), f"type {raw.Type()}")
        sparsity = self._sparsity(raw.Sparsity())
        shape = tuple(self._numbers(raw.ShapeAsNumpy()).tolist())
        signature = self._numbers(raw.ShapeSignatureAsNumpy()).tolist()
        if len(shape) > MAX_RANK or any(size < 0 for size in shape):
            raise Malformed(f"{what} must have at most {MAX_RANK} dimensions from 0 up, got {list(shape)}")
        bits = int(np.prod(shape, dtype=object)) * _BITS.get(type_, 32)
        if bits // 8 > MAX_BYTES:
            raise Malformed(f"{what} of {type_} {list(shape)} is 4 GiB or more")
        quantization = raw.Quantization()
        scales, zero_points, channel_dim = np.zeros(0, np.float32), np.zeros(0, np.int64), 0
        if quantization is not None:
            scales = self._numbers(quantization.ScaleAsNumpy()).astype(np.float32)
            zero_points = self._numbers(quantization.ZeroPointAsNumpy()).astype(np.int64)
            channel_dim = quantization.QuantizedDimension()
        data = self._constant(raw.Buffer(), what)
        if data is not None and sparsity is None and type_ in _BITS and data.size != -(-bits // 8):
            raise Malformed(f"{what} of {type_} {list(shape)} needs {-(-bits // 8)} bytes, its buffer has {data.size}")
        return Tensor(
            index=index,
            name=name,
            type=type_,
            shape=shape,
            signature=tuple(signature) if len(signature) == len(shape) else shape,
            is_static=-1 not in signature and (bool(shape) or raw.HasRank() or data is not None),
            scales=scales,
            zero_points=zero_points,
            channel_dim=channel_dim,
            data=data,
            is_variable=bool(raw.IsVariable()),
            sparsity=sparsity,
        )

    def _sparsity(self, raw: Any) -> Sparsity | None:
        if raw is None:
            return None
        order, blocks = (
            tuple(self._numbers(one).tolist()) for one in (raw.TraversalOrderAsNumpy(), raw.BlockMapAsNumpy())
        )
        levels = tuple(self._level(raw.DimMetadata(i)) for i in self._range(raw.DimMetadataLength(), _TABLE_COST))
        return Sparsity(order, blocks, levels)

    def _level(self, raw: Any) -> Level:
        if raw.Format() == tflite.DimensionType.DENSE:
            return Level(raw.DenseSize())
        segments = self._index_vector(raw.ArraySegments(), raw.ArraySegmentsType())
        return Level(0, (segments, self._index_vector(raw.ArrayIndices(), raw.ArrayIndicesType())))

    def _index_vector(self, table: Any, kind: int) -> np.ndarray:
        if table is None or kind not in _INDEX_VECTORS:
            return np.zeros(0, np.int64)
        vector = _INDEX_VECTORS[kind]()
        vector.Init(table.Bytes, table.Pos)
        return self._numbers(vector.ValuesAsNumpy())

    def _constant(self, buffer: int, what: str) -> np.ndarray | None:
        """The bytes of a buffer, None where it is empty. Large models keep them behind the tables."""
        if buffer == 0 and self._buffer_count == 0:
            return None
        if buffer >= self._buffer_count:
            raise Malformed(f"{what} refers to buffer {buffer}, there are {self._buffer_count}")
        raw = self._model.Buffers(buffer)
        data = raw.DataAsNumpy()
        if isinstance(data, np.ndarray):
            return data if data.size else None
        offset, size = raw.Offset(), raw.Size()
        if offset <= 1 or not size:
            return None
        if offset + size > len(self.data):
            raise Malformed(f"{what}: buffer {buffer} ends at byte {offset + size} of {len(self.data)}")
        return np.frombuffer(self.data, np.uint8, size, offset)
