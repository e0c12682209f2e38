"""Parts of a graph that were compiled before: what onnxruntime keeps in the EPContext nodes of a model.

A saved part begins with a magic number, the number of its format and its size, and ends with a digest. A part of fixed
shapes has an NNAPI model, its edges, and the plans that the device has made of it: it is loaded without an import. A
part whose shapes are open has its ONNX graph.

A saved part may come from anybody. Its model is built anew, with all checks of `nnvk.api.Model`. Its plans count only
if this user has made them (`nnvk.base.files.signature`), since a forged plan could have a shader read and write beyond
its buffers. Otherwise the device makes new plans of the model.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from onnx import helper

from nnvk.api import Device, Model, NnapiError
from nnvk.base.errors import bad_data
from nnvk.base.files import KEY_NAME, cache_folder, signature
from nnvk.base.log import logger
from nnvk.base.packets import Buffer, Malformed, Reader, Writer
from nnvk.base.text import printable
from nnvk.importers.onnx.backend import PreparedModel
from nnvk.importers.onnx.file import OnnxFile
from nnvk.importers.onnx.partition import fixed_shapes
from nnvk.importers.plan_folder import PlanFolder
from nnvk.importers.ports import DTYPES, ImportedModel, Port
from nnvk.importers.shapes import Shapes
from nnvk.serve.protocol import SAVED_PART_FORMAT
from nnvk.types import model as frozen
from nnvk.types.encoding import TYPE, read_model, write_model
from nnvk.types.model import Lifetime
from nnvk.types.operand import OperandType, Shape

_log = logger("compilation")
_MAGIC = b"nnvkpart"
_START = struct.Struct("<8sIQ")
"""Magic number, format, and the bytes of all, the digest too."""
_DIGEST_BYTES = hashlib.sha256().digest_size
_PLAN_NAME = re.compile(rf"[0-9a-f]{{64}}\.nnvk|{re.escape(KEY_NAME)}")
_LONGEST_TEXT = 100


class Saved:
    """The NNAPI model of a saved part, in the place of the ONNX file that it was made of."""

    def __init__(self, imported: ImportedModel) -> None:
        self._imported = imported
        self.shapes: dict[str, Shape] = {port.name: port.shape for port in imported.inputs}
        """The shapes of the inputs."""

    def load_in_parts(
        self,
        *,
        shapes: Shapes | None = None,
        constants: Mapping[str, Any] | None = None,
        knows_inputs: bool = False,
        **options: Any,
    ) -> ImportedModel:
        """The model. BAD_DATA: it was not made for these shapes."""
        if shapes != self.shapes or constants:
            raise bad_data(f"the part was saved for inputs of shapes {self.shapes}, got {shapes}")
        return self._imported

    def known_outputs(self, shapes: Shapes, constants: Mapping[str, Any]) -> list[np.ndarray] | None:
        """None: a model is only saved if an execution computes its outputs."""
        return None


def save(
    data: bytes, weights: memoryview, names: Sequence[str], devices: Sequence[Device], *, relaxed: bool
) -> list[Buffer]:
    """A part of a graph, compiled and saved, in pieces. Raises `OnnxImportError`, and what compilations raise."""
    file = OnnxFile(data, weights)
    with TemporaryDirectory(prefix="nnvk-part-") as folder:
        plans = PlanFolder(Path(folder), hashlib.sha256(data + bytes([relaxed])).digest())
        shapes = fixed_shapes(file)
        prepared = PreparedModel(file, names, devices, relaxed=relaxed, plans=plans)
        imported = None if shapes is None else prepared.compile(shapes)
        kept = [] if imported is None else [(path.name, path.read_bytes()) for path in sorted(Path(folder).iterdir())]
    writer = Writer().put(bytes(_START.size)).u32(len(names))
    for name in names:
        writer.string(name)
    writer.string(devices[0].name).u8(relaxed).u8(imported is not None)
    if imported is None:
        writer.u64(len(data)).aligned(data).u64(len(weights)).aligned(weights)
    else:
        writer.put(plans.token)
        for ports in imported.inputs, imported.outputs:
            writer.u32(len(ports))
            for port in ports:
                _write_port(writer, port)
        write_model(writer, imported.model.frozen)
        _write_plans(writer, plans.token, kept)
    writer.parts[0] = _START.pack(_MAGIC, SAVED_PART_FORMAT, writer.size + _DIGEST_BYTES)
    digest = hashlib.sha256()
    for part in writer.parts:
        digest.update(part)
    return [*writer.parts, digest.digest()]


def plans_of(data: bytes, relaxed: bool, folder: Path | None) -> PlanFolder | None:
    """The place of what is compiled of a graph in a folder, if there is one."""
    return None if folder is None else PlanFolder(folder, hashlib.sha256(data + bytes([relaxed])).digest())


def load(
    content: memoryview, order: Sequence[int], devices: Sequence[Device], folder: Path | None
) -> tuple[PreparedModel, int]:
    """A part that is ready to run, and how many outputs it has.

    ``order`` says for each input of a run which one of the saved part it is. ``folder`` keeps what is compiled of a
    part whose shapes are open. BAD_DATA says in one line why the part can't be loaded; compilations raise what else
    they do.
    """
    try:
        reader = _checked(content)
        names = [reader.string() for _ in range(reader.u32())]
        if sorted(order) != list(range(len(names))):
            raise bad_data(f"the part has {len(names)} inputs, its node has {list(order)} of them")
        made_for, relaxed, is_compiled = reader.string(), bool(reader.u8()), reader.u8()
        ordered = [names[position] for position in order]
        if not is_compiled:
            data, weights = bytes(reader.aligned(reader.u64())), reader.aligned(reader.u64())
            reader.end()
            file, plans = OnnxFile(data, weights), plans_of(data, relaxed, folder)
            made = PreparedModel(file, ordered, devices, relaxed=relaxed, plans=plans)
            return made, len(file.proto().graph.output)
        return _loaded(reader, ordered, devices, made_for)
    except NnapiError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise bad_data(f"the saved part is damaged: {printable(str(error), _LONGEST_TEXT)}") from error


def _checked(content: memoryview) -> Reader:
    """A reader of what is between the beginning and the digest. BAD_DATA: it is no part, of another format, damaged."""
    if len(content) < _START.size + _DIGEST_BYTES:
        raise bad_data(f"a saved part has more than {len(content)} bytes")
    magic, format_, size = _START.unpack_from(content)
    if magic != _MAGIC:
        raise bad_data("it is no part that nnvk has saved")
    if format_ != SAVED_PART_FORMAT:
        raise bad_data(
            f"the part was saved in format {format_} by another version of nnvk, this one has {SAVED_PART_FORMAT}: "
            "compile the model again"
        )
    if not _START.size + _DIGEST_BYTES <= size <= len(content) or any(content[size:]):
        raise bad_data(f"the saved part is damaged: it has {len(content)} bytes instead of {size}")
    end = size - _DIGEST_BYTES
    if hashlib.sha256(content[:end]).digest() != content[end:size]:
        raise bad_data("the saved part is damaged: its digest is another one")
    return Reader(content[:end], _START.size)


def _loaded(
    reader: Reader, names: Sequence[str], devices: Sequence[Device], made_for: str
) -> tuple[PreparedModel, int]:
    token = bytes(reader.bytes(_DIGEST_BYTES))
    inputs, outputs = (tuple(_read_port(reader) for _ in range(reader.u32())) for _ in range(2))
    model = _built(read_model(reader))
    plans = _read_plans(reader, token)
    reader.end()
    types = model.frozen.input_types(), model.frozen.output_types()
    for ports, own in zip((inputs, outputs), types, strict=True):
        if len(ports) != len(own) or not all(_fits(port.type, type_) for port, type_ in zip(ports, own, strict=True)):
            raise Malformed("its edges are not those of its model")
    if sorted(names) != sorted(port.name for port in inputs):
        raise Malformed("its inputs are not those of its model")
    saved = Saved(ImportedModel(model, inputs, outputs))
    if plans and devices[0].name != made_for:
        _log.info("the part was saved for %s: %s compiles it anew", printable(made_for), devices[0].name)
    with TemporaryDirectory(prefix="nnvk-part-") as folder:
        for name, data in plans:
            Path(folder, name).touch(mode=0o600)
            Path(folder, name).write_bytes(data)
        made = PreparedModel(saved, names, devices, plans=PlanFolder(Path(folder), token))
        made.compile(saved.shapes)
    return made, len(outputs)


def _fits(edge: OperandType, operand: OperandType) -> bool:
    """Whether an edge has the type of its operand, whose dimensions data may decide."""
    is_known = operand.is_fully_specified
    return edge == operand if is_known else edge.with_dimensions(()) == operand.with_dimensions(())


# --- edges, models and plans -----------------------------------------------------------------------------------------


def _write_port(writer: Writer, port: Port) -> None:
    writer.string(port.name).string(port.file_type).u8(port.in_words)
    writer.i32(-1 if port.array_type is None else helper.np_dtype_to_tensor_dtype(port.array_type))
    writer.put(struct.pack(f"<I{len(port.shape)}q", len(port.shape), *port.shape))
    TYPE.write(writer, port.type)


def _read_port(reader: Reader) -> Port:
    name, file_type, in_words, element = reader.string(), reader.string(), bool(reader.u8()), reader.i32()
    rank = reader.u32()
    shape = struct.unpack(f"<{rank}q", reader.bytes(8 * rank))
    if file_type not in DTYPES and element < 0:
        raise Malformed(f"there is no type {file_type}")
    array_type = None if element < 0 else np.dtype(helper.tensor_dtype_to_np_dtype(element))
    return Port(name, TYPE.read(reader), file_type, shape, in_words=in_words, array_type=array_type)


def _built(read: frozen.Model) -> Model:
    """A model that is made call by call, so that it is checked like every other. BAD_DATA: it breaks a rule."""
    made: dict[frozen.Model, Model] = {}
    for each in (*read.referenced(), read):
        model = Model()
        for number, operand in enumerate(each.operands):
            model.add_operand(operand.type)
            if operand.subgraph is not None:
                model.set_operand_value_from_model(number, made[operand.subgraph])
            elif operand.constant is not None:
                model.set_operand_value(number, operand.constant)
            elif operand.lifetime is Lifetime.NO_VALUE:
                model.set_operand_value(number, None)
        for operation in each.operations:
            model.add_operation(operation.code, operation.inputs, operation.outputs)
        model.identify_inputs_and_outputs(each.inputs, each.outputs)
        if each.input_names:
            model.name_inputs(each.input_names)
        model.relax_computation_float32_to_float16(each.relaxed)
        model.finish()
        made[each] = model
    return made[read]


def _write_plans(writer: Writer, token: bytes, plans: Sequence[tuple[str, bytes]]) -> None:
    """The files of a folder of plans, with its key, behind a signature of all; no files if they can't be signed."""
    try:
        signed = _signature(token, plans)
    except OSError as error:
        _log.warning("the part is saved without plans, which can't be signed: %s", error)
        plans, signed = (), bytes(_DIGEST_BYTES)
    writer.put(signed).u32(len(plans))
    for name, data in plans:
        writer.string(name).u64(len(data)).put(data)


def _read_plans(reader: Reader, token: bytes) -> list[tuple[str, bytes]]:
    """The files of a folder of plans; none if somebody else has made them."""
    signed = bytes(reader.bytes(_DIGEST_BYTES))
    plans = [(reader.string(), bytes(reader.bytes(reader.u64()))) for _ in range(reader.u32())]
    try:
        is_own = hmac.compare_digest(signed, _signature(token, plans))
    except OSError:
        is_own = False
    if plans and not is_own:
        _log.info("the plans of a saved part are of another user or machine: the device makes new ones")
    return plans if is_own and all(_PLAN_NAME.fullmatch(name) for name, _ in plans) else []


def _signature(token: bytes, plans: Iterable[tuple[str, bytes]]) -> bytes:
    folder = cache_folder()
    if folder is None:
        raise OSError("there is no folder for a key: NNVK_CACHE_DIR is 0, or the user has no home")
    parts: list[bytes] = [token]
    for name, data in plans:
        parts += [name.encode(errors="replace"), struct.pack("<Q", len(data)), data]
    return signature(folder, parts)
