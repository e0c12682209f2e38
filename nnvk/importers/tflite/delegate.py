"""Answers of ``nnvk serve`` to the delegate for TensorFlow Lite, libnnvk_delegate.so."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping

from nnvk import __version__
from nnvk.base.fields import BOOL, I32, NEW, STRING, U32, Keep, all_of, many, parts
from nnvk.base.lanes import SUCCESS, Handler, Reply, answering
from nnvk.base.text import printable
from nnvk.importers.ports import Port
from nnvk.importers.tflite import partition
from nnvk.importers.tflite.c_options import SIZES
from nnvk.importers.tflite.partition import Loaded
from nnvk.serve.protocol import Request

_LONGEST = 600
"""Characters of what is said of an operator."""


def _examine(loaded: Loaded) -> list[str]:
    reasons = zip(loaded.graph.operators, partition.examine(loaded), strict=True)
    return [printable(f"{operator.name}: {reason}", _LONGEST) if reason else "" for operator, reason in reasons]


def _build(keep: Keep, relaxed: bool, with_token: bool, loaded: Loaded) -> Reply:
    built = partition.model(loaded, relaxed)
    keep(built.model)
    edges = [_edge(port) for port in (*built.inputs, *built.outputs)]
    states = struct.pack(f"<I{len(built.states)}I", len(built.states), *built.states)
    return Reply(b"".join([SUCCESS, states, *edges, _token(loaded, relaxed) if with_token else b""]))


def _edge(port: Port) -> bytes:
    """Bytes of the operand, and the shape of the tensor."""
    return struct.pack(f"<QI{len(port.shape)}I", port.type.size, len(port.shape), *port.shape)


def _token(loaded: Loaded, relaxed: bool) -> bytes:
    """The model's token in a cache: a hash of everything that was handed over."""
    digest = hashlib.sha256(f"{__version__} {relaxed}".encode())
    graph = loaded.graph
    for tensor in graph.tensors:
        described = (tensor.type, tensor.shape, tensor.is_static, tensor.is_variable, tensor.channel_dim)
        digest.update(repr((described, tensor.scales.tolist(), tensor.zero_points.tolist())).encode())
        if tensor.data is not None:
            digest.update(tensor.data.data)
    for node in graph.operators:
        tensors = (node.inputs, node.outputs, node.intermediates)
        digest.update(repr((node.name, node.version, tensors, node.raw)).encode())
    digest.update(repr((graph.inputs, graph.outputs, sorted(loaded.declared))).encode())
    return digest.digest()


HANDLERS: Mapping[int, Handler] = {
    Request.TFLITE_OPTIONS: answering(SIZES.items, result=many(parts(I32, U32)).write),
    Request.TFLITE_EXAMINE: answering(_examine, partition.read, result=all_of(STRING.write)),
    Request.TFLITE_MODEL: answering(_build, NEW.read, BOOL.read, BOOL.read, partition.read),
}
"""The handlers, by the number of the request."""
