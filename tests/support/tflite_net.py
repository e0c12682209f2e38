"""Builds small ``.tflite`` files for tests: a `Net` of tensors and operators, written with the published schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

DTYPES = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "FLOAT64": np.float64,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "UINT8": np.uint8,
    "INT8": np.int8,
    "INT16": np.int16,
    "BOOL": np.bool_,
    "COMPLEX64": np.complex64,
    "STRING": np.uint8,
}


@dataclass
class Layout:
    """Levels of a sparse constant: the size of a dense one, or segments, indices and the kind of their vectors."""

    order: list[int]
    blocks: list[int]
    levels: list[int | tuple[list[int], list[int], str]]


@dataclass
class T:
    """A tensor. ``shape`` None: the file leaves it open, as converters do for what depends on data."""

    type: str = "FLOAT32"
    shape: tuple[int, ...] | None = None
    data: Any = None
    scale: Any = None
    """One scale, or a list of them along ``dim``."""
    zero_point: int = 0
    dim: int = 0
    variable: bool = False
    name: str = ""
    signature: tuple[int, ...] | None = None
    raw: bytes | None = None
    """The bytes of a constant whose elements NumPy does not have."""
    sparse: bool = False
    layout: Layout | None = None
    """How ``raw`` keeps a sparse constant."""
    buffer_of: T | None = None
    """A constant, among the tensors before it, whose buffer this one refers to as well."""
    buffer: int = 0
    """Index of the buffer in the file that was written last."""

    def __post_init__(self) -> None:
        if self.data is not None:
            self.data = np.asarray(self.data, DTYPES[self.type])
            self.shape = self.data.shape

    @property
    def is_free(self) -> bool:
        """Whether it is neither a constant nor a variable."""
        return self.data is None and self.raw is None and self.buffer_of is None and not self.variable


@dataclass
class Op:
    name: str
    inputs: list[T | None]
    outputs: list[T]
    table: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    intermediates: list[T] = field(default_factory=list)
    custom: bytes | None = None
    version: int = 1


class Net:
    """One subgraph."""

    def __init__(self, inputs: Sequence[T] = (), outputs: Sequence[T] = ()) -> None:
        self.tensors: list[T] = []
        self.ops: list[Op] = []
        self.inputs = list(inputs)
        self.outputs = list(outputs)

    def op(
        self,
        name: str,
        inputs: Sequence[T | None],
        outputs: Sequence[T | None] | T = (),
        table: str | None = None,
        *,
        intermediates: Sequence[T] = (),
        custom: bytes | None = None,
        version: int = 1,
        **options: Any,
    ) -> T | None:
        """Add an operator; the first of its outputs, of which ``[None]`` are none."""
        results = [outputs] if isinstance(outputs, T) else list(outputs) or [T()]
        results = [result for result in results if result is not None]
        self.ops.append(Op(name, list(inputs), results, table, options, list(intermediates), custom, version))
        return results[0] if results else None

    def index(self, tensor: T | None) -> int:
        if tensor is None:
            return -1
        for index, known in enumerate(self.tensors):
            if known is tensor:
                return index
        self.tensors.append(tensor)
        return len(self.tensors) - 1


@dataclass
class Signature:
    """Names for the inputs and outputs of a subgraph."""

    key: str
    subgraph: int
    inputs: dict[str, T]
    outputs: dict[str, T]


def write(
    *nets: Net,
    description: str = "",
    behind: bool = False,
    signatures: Sequence[Signature] = (),
    metadata: bytes | None = None,
) -> bytes:
    """The bytes of a file with these subgraphs, the first of them the main one.

    ``behind`` puts constants behind the tables, as files above 2 GiB have them.
    """
    outside: Outside | None = None
    if behind:
        tables = _write(nets, description, Outside(start=1 << 20), signatures, metadata)
        outside = Outside(start=-(-len(tables) // 16) * 16)
    tables = _write(nets, description, outside, signatures, metadata)
    return tables if outside is None else tables.ljust(outside.start, b"\0") + bytes(outside.payload)


@dataclass
class Outside:
    """Constants behind the tables, from byte ``start`` of the file."""

    start: int
    payload: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes) -> dict[str, int]:
        """Fields of the buffer."""
        offset = self.start + len(self.payload)
        self.payload += data.ljust(-(-len(data) // 16) * 16, b"\0")
        return {"Offset": offset, "Size": len(data)}


def _write(
    nets: Sequence[Net],
    description: str,
    outside: Outside | None,
    signatures: Sequence[Signature],
    metadata: bytes | None,
) -> bytes:
    b = flatbuffers.Builder(1024)
    codes: list[tuple[str, bool, int]] = []
    buffers = [_table(b, "Buffer")]
    subgraphs = [_subgraph(b, net, codes, buffers, outside) for net in nets]
    code_offsets = [_code(b, *code) for code in codes]
    text = b.CreateString(description)
    more: dict[str, Any] = {}
    if signatures:
        more["SignatureDefs"] = _offsets(b, [_signature(b, nets[one.subgraph], one) for one in signatures])
    if metadata is not None:
        name, data = b.CreateString("TFLITE_METADATA"), b.CreateByteVector(metadata)
        buffers.append(_table(b, "Buffer", Data=data))
        more["Metadata"] = _offsets(b, [_table(b, "Metadata", Name=name, Buffer=len(buffers) - 1)])
    model = _table(
        b,
        "Model",
        Version=3,
        OperatorCodes=_offsets(b, code_offsets),
        Subgraphs=_offsets(b, subgraphs),
        Description=text,
        Buffers=_offsets(b, buffers),
        **more,
    )
    b.Finish(model, b"TFL3")
    return bytes(b.Output())


def _table(b: flatbuffers.Builder, name: str, **fields: Any) -> int:
    getattr(tflite, f"{name}Start")(b)
    for key, value in fields.items():
        getattr(tflite, f"{name}Add{key}")(b, value)
    return getattr(tflite, f"{name}End")(b)


def _offsets(b: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return b.EndVector()


def _ints(b: flatbuffers.Builder, values: Sequence[int]) -> int:
    return b.CreateNumpyVector(np.array(values, np.int32))


def _signature(b: flatbuffers.Builder, net: Net, signature: Signature) -> int:
    maps = [
        [
            _table(b, "TensorMap", Name=b.CreateString(name), TensorIndex=net.index(tensor))
            for name, tensor in edge.items()
        ]
        for edge in (signature.inputs, signature.outputs)
    ]
    inputs, outputs = (_offsets(b, one) for one in maps)
    key = b.CreateString(signature.key)
    return _table(b, "SignatureDef", Inputs=inputs, Outputs=outputs, SignatureKey=key, SubgraphIndex=signature.subgraph)


def _code(b: flatbuffers.Builder, name: str, is_custom: bool, version: int) -> int:
    if is_custom:
        text = b.CreateString(name)
        number = tflite.BuiltinOperator.CUSTOM
        return _table(
            b, "OperatorCode", DeprecatedBuiltinCode=number, BuiltinCode=number, CustomCode=text, Version=version
        )
    number = getattr(tflite.BuiltinOperator, name)
    return _table(b, "OperatorCode", DeprecatedBuiltinCode=min(number, 127), BuiltinCode=number, Version=version)


def _subgraph(
    b: flatbuffers.Builder, net: Net, codes: list[tuple[str, bool, int]], buffers: list[int], outside: Outside | None
) -> int:
    inputs = _ints(b, [net.index(tensor) for tensor in net.inputs])
    ops = [_operator(b, net, op, codes) for op in net.ops]
    outputs = _ints(b, [net.index(tensor) for tensor in net.outputs])
    tensors = [_tensor(b, tensor, number, buffers, outside) for number, tensor in enumerate(net.tensors)]
    return _table(
        b, "SubGraph", Tensors=_offsets(b, tensors), Inputs=inputs, Outputs=outputs, Operators=_offsets(b, ops)
    )


def _operator(b: flatbuffers.Builder, net: Net, op: Op, codes: list[tuple[str, bool, int]]) -> int:
    code = (op.name, op.custom is not None, op.version)
    if code not in codes:
        codes.append(code)
    fields: dict[str, Any] = {
        "OpcodeIndex": codes.index(code),
        "Inputs": _ints(b, [net.index(tensor) for tensor in op.inputs]),
        "Outputs": _ints(b, [net.index(tensor) for tensor in op.outputs]),
    }
    if op.intermediates:
        fields["Intermediates"] = _ints(b, [net.index(tensor) for tensor in op.intermediates])
    if op.custom is not None:
        fields["CustomOptions"] = b.CreateByteVector(op.custom)
    if op.table:
        options = {key: _option(b, value) for key, value in op.options.items()}
        union = "BuiltinOptions" if hasattr(tflite.BuiltinOptions, op.table) else "BuiltinOptions2"
        fields[f"{union}Type"] = getattr(getattr(tflite, union), op.table)
        fields[union] = _table(b, op.table, **options)
    return _table(b, "Operator", **fields)


def _option(b: flatbuffers.Builder, value: Any) -> Any:
    if isinstance(value, str):
        return b.CreateString(value)
    if isinstance(value, np.ndarray):
        return b.CreateNumpyVector(value)
    return _ints(b, value) if isinstance(value, list) else value


def _tensor(b: flatbuffers.Builder, tensor: T, number: int, buffers: list[int], outside: Outside | None = None) -> int:
    buffer = 0
    if tensor.buffer_of is not None:
        buffer = tensor.buffer_of.buffer
    payload = tensor.raw if tensor.raw is not None else None if tensor.data is None else tensor.data.tobytes()
    if payload:
        buffer = len(buffers)
        if outside is not None:
            buffers.append(_table(b, "Buffer", **outside.add(payload)))
        else:
            b.StartVector(1, len(payload), 16)
            b.head -= len(payload)
            b.Bytes[b.head : b.head + len(payload)] = payload
            buffers.append(_table(b, "Buffer", Data=b.EndVector()))
    tensor.buffer = buffer
    fields: dict[str, Any] = {
        "Shape": _ints(b, tensor.shape or ()),
        "Type": getattr(tflite.TensorType, tensor.type),
        "Buffer": buffer,
        "Name": b.CreateString(tensor.name or f"t{number}"),
        "IsVariable": tensor.variable,
        "HasRank": tensor.shape is not None,
    }
    if tensor.signature is not None:
        fields["ShapeSignature"] = _ints(b, tensor.signature)
    if tensor.layout is not None:
        fields["Sparsity"] = _sparsity(b, tensor.layout)
    elif tensor.sparse:
        fields["Sparsity"] = _table(b, "SparsityParameters")
    if tensor.scale is not None:
        scales = np.atleast_1d(np.array(tensor.scale, np.float32))
        zero_points = np.full(scales.size, tensor.zero_point, np.int64)
        fields["Quantization"] = _table(
            b,
            "QuantizationParameters",
            Scale=b.CreateNumpyVector(scales),
            ZeroPoint=b.CreateNumpyVector(zero_points),
            QuantizedDimension=tensor.dim,
        )
    return _table(b, "Tensor", **fields)


def _sparsity(b: flatbuffers.Builder, layout: Layout) -> int:
    levels = []
    for level in layout.levels:
        if isinstance(level, int):
            levels.append(_table(b, "DimensionMetadata", Format=0, DenseSize=level))
            continue
        *lists, kind = level
        dtype = {"Int32Vector": np.int32, "Uint16Vector": np.uint16, "Uint8Vector": np.uint8}[kind]
        segments, indices = (_table(b, kind, Values=b.CreateNumpyVector(np.array(one, dtype))) for one in lists)
        number = getattr(tflite.SparseIndexVector, kind)
        fields = {"ArraySegmentsType": number, "ArraySegments": segments, "ArrayIndicesType": number}
        levels.append(_table(b, "DimensionMetadata", Format=1, ArrayIndices=indices, **fields))
    order, blocks = _ints(b, layout.order), _ints(b, layout.blocks)
    return _table(b, "SparsityParameters", TraversalOrder=order, BlockMap=blocks, DimMetadata=_offsets(b, levels))
