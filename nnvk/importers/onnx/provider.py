"""Answers of ``nnvk serve`` to the execution provider for onnxruntime, libnnvk_onnxruntime.so."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

import numpy as np
from onnx import helper

from nnvk.api import Device, get_device, get_devices
from nnvk.base.lanes import OK, SUCCESS, Handler, Reply, Session
from nnvk.base.packets import Descriptors, Malformed, Reader, Writer
from nnvk.base.text import printable
from nnvk.importers.onnx import partition
from nnvk.importers.onnx.backend import PreparedModel
from nnvk.importers.onnx.importer import OnnxFile
from nnvk.serve.protocol import Request

_LONGEST = 600
"""Characters of the reason for a node."""


def _devices(reader: Reader) -> list[Device]:
    name = reader.string()
    return [get_device(name)] if name else list(get_devices()[:1])


def _file(reader: Reader) -> OnnxFile:
    """A model, and its weights, which stay in the shared memory of the packet."""
    data = bytes(reader.aligned(reader.u64()))
    return OnnxFile(data, reader.aligned(reader.u64()))


def _examine(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    devices, relaxed, file = _devices(reader), bool(reader.u8()), _file(reader)
    reader.end()
    choice = partition.examine(file, devices, relaxed)
    numbers = {position: number for number, part in enumerate(choice.parts) for position in part}
    writer = Writer()
    for position, reason in enumerate(choice.reasons):
        writer.string(printable(reason, _LONGEST)).i32(numbers.get(position, -1))
    return Reply(SUCCESS + b"".join(writer.parts))


def _model(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    number, devices, relaxed, file = reader.u64(), _devices(reader), bool(reader.u8()), _file(reader)
    names = [reader.string() for _ in range(reader.u32())]
    reader.end()
    made = PreparedModel(file, names, devices, relaxed=relaxed)
    shapes = partition.fixed_shapes(file)
    if shapes is not None:
        made.compile(shapes)
    session.put(number, made)
    return OK


def _compute(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    model = session.get(reader.u64(), PreparedModel)
    arrays = [_array(reader) for _ in range(reader.u32())]
    reader.end()
    outputs = model.run(arrays)
    writer = Writer(len(outputs))
    for output in outputs:
        array = np.asarray(output, order="C")  # ascontiguousarray makes [1] of a scalar
        writer.i32(helper.np_dtype_to_tensor_dtype(array.dtype)).u32(array.ndim)
        writer.put(struct.pack(f"<{array.ndim}q", *array.shape)).u64(array.nbytes)
        writer.put(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return Reply(SUCCESS + b"".join(writer.parts))


def _array(reader: Reader) -> np.ndarray:
    element, rank = reader.i32(), reader.u32()
    shape = struct.unpack(f"<{rank}q", reader.bytes(8 * rank))
    data = reader.aligned(reader.u64())
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element))
    except KeyError:
        raise Malformed(f"there is no element type {element}") from None
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise Malformed(f"{dtype} {list(shape)} has not {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape)


HANDLERS: Mapping[int, Handler] = {
    Request.ONNX_EXAMINE: _examine,
    Request.ONNX_MODEL: _model,
    Request.ONNX_COMPUTE: _compute,
}
"""The handlers, by the number of the request."""
