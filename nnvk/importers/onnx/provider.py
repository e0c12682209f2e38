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
from nnvk.base.fields import BOOL, I32, NEW, STRING, U32, U64, Keep, all_of, many, object_of, parts
from nnvk.base.lanes import SUCCESS, Handler, Reply, Session, answering, read_session
from nnvk.base.log import logger
from nnvk.base.packets import Malformed, Reader, Writer
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


def _bytes(reader: Reader) -> memoryview:
    """Bytes, which stay in the shared memory of the packet."""
    return reader.aligned(reader.u64())


class _Part:
    """A graph or a part of one, its constants, and how it is computed."""

    def __init__(self, reader: Reader) -> None:
        self.devices, self.relaxed, self.is_auto = _devices(reader), BOOL.read(reader), BOOL.read(reader)
        self.data, self.weights = bytes(_bytes(reader)), _bytes(reader)
        self.file = OnnxFile(self.data, self.weights)


def _examine(part: _Part, takes_all: bool, takes_values: bool) -> list[tuple[str, int]]:
    file, devices, relaxed = part.file, part.devices, part.relaxed
    file.keeps_doubles = True
    choice = partition.examine(file, devices, relaxed, takes_all=takes_all, takes_values=takes_values)
    if part.is_auto and not _why_device():
        choice = part_choices.without_faster(choice, file, devices, relaxed)
    numbers = {position: number for number, nodes in enumerate(choice.parts) for position in nodes}
    reasons = [printable(reason, _LONGEST) for reason in choice.reasons]
    return [(reason, numbers.get(position, -1)) for position, reason in enumerate(reasons)]


def _model(keep: Keep, part: _Part, folder: Path | None, names: Sequence[str]) -> None:
    file, devices, relaxed = part.file, part.devices, part.relaxed
    plans = saved_part.plans_of(part.data, relaxed, folder)
    why = _why_device() if part.is_auto else ""
    if why:
        _log.info("a part: the device computes: %s", why)
    choices = part_choices.choices_of(file, devices, relaxed) if part.is_auto and not why else None
    made = PreparedModel(file, names, devices, relaxed=relaxed, plans=plans, cpu=_cpu(file, names), choices=choices)
    shapes = partition.fixed_shapes(file)
    if shapes is not None:
        made.compile(shapes)
    keep(made)


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


def _save(part: _Part, names: Sequence[str]) -> Reply:
    saved = saved_part.save(part.data, part.weights, names, part.devices, relaxed=part.relaxed)
    return Reply(b"".join([SUCCESS, *saved]))


def _load(keep: Keep, devices: list[Device], folder: Path | None, order: tuple[int, ...], content: memoryview) -> int:
    made, outputs = saved_part.load(content, order, devices, folder)
    keep(made)
    return outputs


def _run(model: PreparedModel, keep: Keep, inputs: Sequence[StoredTensor]) -> Reply:
    if len(inputs) != len(model.names):
        raise Malformed(f"the part has {len(model.names)} inputs, got {len(inputs)}")
    made = BoundRun(model, inputs)
    keep(made)
    writer = Writer().u8(made.outputs is not None)
    if made.outputs is not None:
        writer.u32(len(made.outputs))
        for port in made.outputs:
            _put_type(writer, port.dtype, port.shape)
    return Reply(SUCCESS + b"".join(writer.parts))


def _outputs(session: Session, run: BoundRun, places: Sequence[tuple[int, int]]) -> None:
    ports = run.outputs or ()
    sizes = [stored_bytes(port.dtype, port.shape) for port in ports]
    if len(places) != len(ports):
        raise Malformed(f"the run has {len(ports)} outputs of known sizes, got {len(places)} places")
    run.set_outputs([session.segment(*place, size) for place, size in zip(places, sizes, strict=True)])


def _compute(run: BoundRun) -> Reply:
    outputs = run.compute()
    if outputs is None:
        return Reply(SUCCESS)
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


def _inputs(reader: Reader) -> list[StoredTensor]:
    return [_input(reader) for _ in range(reader.u32())]


def _input(reader: Reader) -> StoredTensor:
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
    memory = reader.session.segment(segment, offset, stored_bytes(dtype, shape))
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


def _profile(session: Session, number: int, path: str) -> None:
    session.put(number, _Recording(Path(path), number))


_NAMES, _PLACES, _RUN = many(STRING).read, many(parts(U32, U64)).read, object_of(BoundRun).read
HANDLERS: Mapping[int, Handler] = {
    Request.ONNX_EXAMINE: answering(_examine, _Part, BOOL.read, BOOL.read, result=all_of(parts(STRING, I32).write)),
    Request.ONNX_MODEL: answering(_model, NEW.read, _Part, _folder, _NAMES),
    Request.ONNX_RUN: answering(_run, object_of(PreparedModel).read, NEW.read, _inputs),
    Request.ONNX_OUTPUTS: answering(_outputs, read_session, _RUN, _PLACES),
    Request.ONNX_COMPUTE: answering(_compute, _RUN),
    Request.ONNX_SAVE: answering(_save, _Part, _NAMES),
    Request.ONNX_LOAD: answering(_load, NEW.read, _devices, _folder, Reader.u32s, _bytes, result=U32.write),
    Request.ONNX_PROFILE: answering(_profile, read_session, Reader.u64, Reader.string),
    Request.ONNX_PROFILE_END: answering(_Recording.end, object_of(_Recording).read),
}
"""The handlers, by the number of the request."""
