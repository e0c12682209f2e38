"""Write a ``.tflite`` model from plain Python descriptions of its tensors and operators.

The published TFLite schema (package ``tflite``) gives one ``<Table>Add<Field>`` function per field; the
writer looks them up by name, so it follows the schema and knows no operator by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import flatbuffers
import numpy as np
import tflite

FILE_IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3
BUFFER_ALIGNMENT = 16
"""The schema's ``force_align`` of constant data, in bytes: readers map weights straight from the file."""

_TENSOR_TYPES = {
    np.dtype(np.float32): tflite.TensorType.FLOAT32,
    np.dtype(np.int32): tflite.TensorType.INT32,
    np.dtype(np.int8): tflite.TensorType.INT8,
    np.dtype(np.uint8): tflite.TensorType.UINT8,
}
_LAST_DEPRECATED_CODE = tflite.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES


@dataclass(frozen=True, slots=True)
class Quantization:
    """``real = scale * (quantised - zero_point)``: one scale, or one per slice along ``dimension``."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    dimension: int = 0

    def __post_init__(self) -> None:
        """Refuse scales and zero points that do not pair up."""
        if len(self.scales) != len(self.zero_points):
            raise ValueError(f"{len(self.scales)} scales but {len(self.zero_points)} zero points")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the graph; ``data`` makes it a constant."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    data: np.ndarray | None = None
    quantization: Quantization | None = None

    def __post_init__(self) -> None:
        """Refuse constant data of another shape or type than the tensor's."""
        if self.data is not None and (self.data.shape != self.shape or self.data.dtype != self.dtype):
            raise ValueError(
                f"{self.name}: expected data {self.dtype}{list(self.shape)}, "
                f"got {self.data.dtype}{list(self.data.shape)}"
            )


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: a ``BuiltinOperator`` name, tensor indices, and the fields of its options table.

    ``version`` is the operator's version in TFLite's registry: the type it works on decides it.
    """

    builtin: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    version: int = 1
    options_table: str | None = None
    options: Mapping[str, int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Graph:
    """A model of one subgraph, operators in execution order."""

    name: str
    tensors: Sequence[Tensor]
    operators: Sequence[Operator]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def serialize(graph: Graph, description: str) -> bytes:
    """Return the bytes of ``graph`` as a ``.tflite`` file."""
    builder = flatbuffers.Builder(1024)
    # Buffer 0 is by convention the empty one, of the tensors that are not constant.
    buffers = [_table(builder, "Buffer")]
    tensors = []
    for tensor in graph.tensors:
        index = 0
        if tensor.data is not None:
            index = len(buffers)
            buffers.append(_table(builder, "Buffer", Data=_aligned_bytes(builder, tensor.data)))
        tensors.append(_tensor(builder, tensor, index))

    codes = sorted({(op.builtin, op.version) for op in graph.operators})
    operators = [_operator(builder, op, codes.index((op.builtin, op.version))) for op in graph.operators]
    subgraph = _table(
        builder,
        "SubGraph",
        Tensors=_offsets(builder, tensors),
        Inputs=_ints(builder, graph.inputs),
        Outputs=_ints(builder, graph.outputs),
        Operators=_offsets(builder, operators),
        Name=builder.CreateString(graph.name),
    )
    model = _table(
        builder,
        "Model",
        Version=SCHEMA_VERSION,
        OperatorCodes=_offsets(builder, [_operator_code(builder, *code) for code in codes]),
        Subgraphs=_offsets(builder, [subgraph]),
        Description=builder.CreateString(description),
        Buffers=_offsets(builder, buffers),
    )
    builder.Finish(model, FILE_IDENTIFIER)
    return bytes(builder.Output())


def _table(builder: flatbuffers.Builder, table: str, **fields: int | float | bool) -> int:
    """Write one table of the schema; offsets in ``fields`` must be of things already written."""
    getattr(tflite, f"{table}Start")(builder)
    for name, value in fields.items():
        getattr(tflite, f"{table}Add{name}")(builder, value)
    return int(getattr(tflite, f"{table}End")(builder))


def _tensor(builder: flatbuffers.Builder, tensor: Tensor, buffer: int) -> int:
    fields: dict[str, int] = {
        "Shape": _ints(builder, tensor.shape),
        "Type": _TENSOR_TYPES[tensor.dtype],
        "Buffer": buffer,
        "Name": builder.CreateString(tensor.name),
    }
    if (quantization := tensor.quantization) is not None:
        fields["Quantization"] = _table(
            builder,
            "QuantizationParameters",
            Scale=builder.CreateNumpyVector(np.array(quantization.scales, np.float32)),
            ZeroPoint=builder.CreateNumpyVector(np.array(quantization.zero_points, np.int64)),
            QuantizedDimension=quantization.dimension,
        )
    return _table(builder, "Tensor", **fields)


def _operator(builder: flatbuffers.Builder, operator: Operator, opcode_index: int) -> int:
    fields: dict[str, int] = {
        "OpcodeIndex": opcode_index,
        "Inputs": _ints(builder, operator.inputs),
        "Outputs": _ints(builder, operator.outputs),
    }
    if operator.options_table is not None:
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, operator.options_table)
        fields["BuiltinOptions"] = _table(builder, operator.options_table, **operator.options)
    return _table(builder, "Operator", **fields)


def _operator_code(builder: flatbuffers.Builder, builtin: str, version: int) -> int:
    code = getattr(tflite.BuiltinOperator, builtin)
    return _table(
        builder,
        "OperatorCode",
        # Readers older than schema 3a know only the one-byte field.
        DeprecatedBuiltinCode=min(code, _LAST_DEPRECATED_CODE),
        BuiltinCode=code,
        Version=version,
    )


def _ints(builder: flatbuffers.Builder, values: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.array(values, np.int32)))


def _offsets(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _aligned_bytes(builder: flatbuffers.Builder, data: np.ndarray) -> int:
    payload = data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes()
    builder.StartVector(1, len(payload), BUFFER_ALIGNMENT)
    builder.head -= len(payload)
    builder.Bytes[builder.head : builder.head + len(payload)] = payload
    return int(builder.EndVector())
