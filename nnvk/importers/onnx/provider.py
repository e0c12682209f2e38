"""Answers of ``nnvk serve`` to the execution provider for onnxruntime, libnnvk_onnxruntime.so."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from onnx import helper

from nnvk.api import Device, get_device, get_devices
from nnvk.base import tracing
from nnvk.base.errors import bad_data
from nnvk.base.lanes import OK, SUCCESS, Handler, Reply, Session
from nnvk.base.log import logger
from nnvk.base.packets import Descriptors, Malformed, Reader, Writer
from nnvk.base.settings import settings
from nnvk.base.text import printable
from nnvk.importers.measured import why_device
from nnvk.importers.mixed import LibraryPart
from nnvk.importers.onnx import part_choices, partition, saved_part
from nnvk.importers.onnx.backend import PreparedModel
from nnvk.importers.onnx.bound import BoundRun
from nnvk.importers.onnx.file import OnnxFile
from nnvk.importers.onnx.stored import StoredTensor, stored, stored_bytes
from nnvk.serve.protocol import Request
from nnvk.types.operand import Shape

_log = logger("compilation")
_LONGEST = 600
"""Characters of the reason for a node."""


def _devices(reader: Reader) -> list[Device]:
    name = reader.string()
    return [get_device(name)] if name else list(get_devices()[:1])


def _bytes(reader: Reader) -> bytes:
    """A model without its weights. These follow, and stay in the shared memory of the packet."""
    return bytes(reader.aligned(reader.u64()))


def _examine(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    devices, relaxed, is_auto, data = _devices(reader), bool(reader.u8()), bool(reader.u8()), _bytes(reader)
    file, takes_all, takes_values = OnnxFile(data, reader.aligned(reader.u64())), bool(reader.u8()), bool(reader.u8())
    reader.end()
    file.keeps_doubles = True
    choice = partition.examine(file, devices, relaxed, takes_all=takes_all, takes_values=takes_values)
    if is_auto and not _why_device():
        choice = part_choices.without_faster(choice, file, devices, relaxed)
    numbers = {position: number for number, part in enumerate(choice.parts) for position in part}
    writer = Writer()
    for position, reason in enumerate(choice.reasons):
        writer.string(printable(reason, _LONGEST)).i32(numbers.get(position, -1))
    return Reply(SUCCESS + b"".join(writer.parts))


def _model(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    number, devices, relaxed, is_auto = reader.u64(), _devices(reader), bool(reader.u8()), bool(reader.u8())
    data = _bytes(reader)
    file, folder = OnnxFile(data, reader.aligned(reader.u64())), _folder(reader)
    names = [reader.string() for _ in range(reader.u32())]
    reader.end()
    plans = saved_part.plans_of(data, relaxed, folder)
    why = _why_device() if is_auto else ""
    if why:
        _log.info("a part: the device computes: %s", why)
    choices = part_choices.choices_of(file, devices, relaxed) if is_auto and not why else None
    made = PreparedModel(file, names, devices, relaxed=relaxed, plans=plans, cpu=_cpu(file, names), choices=choices)
    shapes = partition.fixed_shapes(file)
    if shapes is not None:
        made.compile(shapes)
    session.put(number, made)
    return OK


def _cpu(file: OnnxFile, names: Sequence[str]) -> Callable[[], LibraryPart] | None:
    """A maker of onnxruntime's session for inputs that nnvk can't compute; None if this Python has no onnxruntime."""
    if not _has_library():
        return None

    def make() -> LibraryPart:
        part: LibraryPart = import_module("nnvk.importers.onnx.library").part_of_file(file, names)
        return part

    return make


def _has_library() -> bool:
    return settings().cpu_libraries and find_spec("onnxruntime") is not None


def _why_device() -> str:
    """Why no part is measured; empty: they are."""
    return why_device("onnxruntime", _has_library(), None)


def _folder(reader: Reader) -> Path | None:
    """The application's folder for compiled models; None if there is none."""
    folder = reader.string()
    return Path(folder) if folder else None


def _save(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    devices, relaxed, _, data = _devices(reader), bool(reader.u8()), reader.u8(), _bytes(reader)
    weights = reader.aligned(reader.u64())
    names = [reader.string() for _ in range(reader.u32())]
    reader.end()
    return Reply(b"".join([SUCCESS, *saved_part.save(data, weights, names, devices, relaxed=relaxed)]))


def _load(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    number, devices, folder, order = reader.u64(), _devices(reader), _folder(reader), reader.u32s()
    content = reader.aligned(reader.u64())
    reader.end()
    made, outputs = saved_part.load(content, order, devices, folder)
    session.put(number, made)
    return Reply(SUCCESS + b"".join(Writer(outputs).parts))


def _run(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    model, number = session.get(reader.u64(), PreparedModel), reader.u64()
    inputs = [_input(session, reader) for _ in range(reader.u32())]
    reader.end()
    if len(inputs) != len(model.names):
        raise Malformed(f"the part has {len(model.names)} inputs, got {len(inputs)}")
    made = BoundRun(model, inputs)
    session.put(number, made)
    writer = Writer().u8(made.outputs is not None)
    if made.outputs is not None:
        writer.u32(len(made.outputs))
        for port in made.outputs:
            _put_type(writer, port.dtype, port.shape)
    return Reply(SUCCESS + b"".join(writer.parts))


def _outputs(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    run = session.get(reader.u64(), BoundRun)
    places = [(reader.u32(), reader.u64()) for _ in range(reader.u32())]
    reader.end()
    ports = run.outputs or ()
    sizes = [stored_bytes(port.dtype, port.shape) for port in ports]
    if len(places) != len(ports):
        raise Malformed(f"the run has {len(ports)} outputs of known sizes, got {len(places)} places")
    run.set_outputs([session.segment(*place, size) for place, size in zip(places, sizes, strict=True)])
    return OK


def _compute(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    run = session.get(reader.u64(), BoundRun)
    reader.end()
    outputs = run.compute()
    if outputs is None:
        return OK
    writer = Writer(len(outputs))
    for output in outputs:
        array = np.asarray(output, order="C")  # ascontiguousarray makes [1] of a scalar
        _put_type(writer, array.dtype, array.shape)
        writer.put(stored(array))
    return Reply(SUCCESS + b"".join(writer.parts))


def _put_type(writer: Writer, dtype: np.dtype, shape: Shape) -> None:
    """The element type, the shape and the bytes of an output."""
    writer.i32(helper.np_dtype_to_tensor_dtype(dtype)).u32(len(shape))
    writer.put(struct.pack(f"<{len(shape)}qQ", *shape, stored_bytes(dtype, shape)))


def _input(session: Session, reader: Reader) -> StoredTensor:
    """An input, whose elements are in a segment."""
    element, rank = reader.i32(), reader.u32()
    shape = struct.unpack(f"<{rank}q", reader.bytes(8 * rank))
    segment, offset = reader.u32(), reader.u64()
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element))
    except KeyError:
        raise Malformed(f"there is no element type {element}") from None
    if dtype.hasobject or min(shape, default=0) < 0:
        raise Malformed(f"there is no input of {dtype} {list(shape)}")
    memory = session.segment(segment, offset, stored_bytes(dtype, shape))
    if offset % dtype.alignment:
        raise Malformed(f"offset {offset} is not aligned to {dtype}")
    return StoredTensor(memory, dtype, shape)


class _Recording:
    """A recording of all that the server does while a session lives."""

    def __init__(self, path: Path, number: int) -> None:
        """Raises BAD_DATA if the file can't be written."""
        self._path = path / f"nnvk-{os.getpid()}-{number}.json" if path.is_dir() else path
        try:
            self._path.touch()
        except OSError as error:
            raise bad_data(f"the option profile must be a file or folder that can be written: {error}") from error
        self._stack = ExitStack()
        self._trace = self._stack.enter_context(tracing.record())

    def end(self) -> None:
        """Write the recording."""
        self._stack.close()
        self._trace.write(self._path)


def _profile(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    number, path = reader.u64(), reader.string()
    reader.end()
    session.put(number, _Recording(Path(path), number))
    return OK


def _profile_end(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    recording = session.get(reader.u64(), _Recording)
    reader.end()
    recording.end()
    return OK


HANDLERS: Mapping[int, Handler] = {
    Request.ONNX_EXAMINE: _examine,
    Request.ONNX_MODEL: _model,
    Request.ONNX_RUN: _run,
    Request.ONNX_OUTPUTS: _outputs,
    Request.ONNX_COMPUTE: _compute,
    Request.ONNX_SAVE: _save,
    Request.ONNX_LOAD: _load,
    Request.ONNX_PROFILE: _profile,
    Request.ONNX_PROFILE_END: _profile_end,
}
"""The handlers, by the number of the request."""
