"""Graphs as the delegate for TensorFlow Lite hands them over: tensors and nodes of its C interface, in a packet."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.base.fields import U32, many
from nnvk.base.packets import Writer

STATIC, VARIABLE, SPARSE, CONSTANT, DECLARED = 1, 2, 4, 8, 16
"""Flags of a tensor."""
TYPES = {"FLOAT32": 1, "INT32": 2, "UINT8": 3, "INT64": 4, "BOOL": 6, "INT16": 7, "INT8": 9, "RESOURCE": 14, "INT4": 18}
"""Numbers of TfLiteType."""


@dataclass
class Tensor:
    """A tensor. ``type`` is a name, or a number of TfLiteType."""

    number: int
    shape: Sequence[int] = (2, 3)
    type: str | int = "FLOAT32"
    data: bytes | None = None
    flags: int = STATIC
    signature: Sequence[int] = ()
    scales: Sequence[float] = ()
    zero_points: Sequence[int] = ()
    channel_dim: int = 0
    name: str = "t"


@dataclass
class Node:
    """A node: a builtin by its number, or a custom operator by its name."""

    code: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: bytes = b""
    custom: str = ""
    version: int = 1
    intermediates: Sequence[int] = ()


@dataclass
class Graph:
    """Tensors, nodes and edges, which are numbers of tensors."""

    tensors: Sequence[Tensor]
    nodes: Sequence[Node]
    inputs: Sequence[int]
    outputs: Sequence[int]

    def put(self, writer: Writer) -> Writer:
        """Append the graph to a packet."""
        writer.u32(len(self.tensors))
        for tensor in self.tensors:
            _put_tensor(writer, tensor)
        writer.u32(len(self.nodes))
        for node in self.nodes:
            writer.i32(node.code).string(node.custom).i32(node.version)
            for indexes in (node.inputs, node.outputs, node.intermediates):
                _put_numbers(writer, indexes)
            writer.u32(len(node.options)).put(node.options)
        _put_numbers(writer, self.inputs)
        _put_numbers(writer, self.outputs)
        return writer


def _put_numbers(writer: Writer, numbers: Sequence[int]) -> None:
    many(U32).write(writer, [number % (1 << 32) for number in numbers])


def _put_tensor(writer: Writer, tensor: Tensor) -> None:
    type_ = TYPES[tensor.type] if isinstance(tensor.type, str) else tensor.type
    writer.i32(tensor.number).u32(type_).u8(tensor.flags | (0 if tensor.data is None else CONSTANT))
    many(U32).write(writer, tensor.shape)
    _put_numbers(writer, tensor.signature)
    writer.u32(len(tensor.scales)).put(struct.pack(f"<{len(tensor.scales)}f", *tensor.scales))
    _put_numbers(writer, tensor.zero_points)
    writer.i32(tensor.channel_dim).string(tensor.name)
    if tensor.data is None:
        writer.u64(0)
    else:
        writer.u64(len(tensor.data)).aligned(tensor.data)
