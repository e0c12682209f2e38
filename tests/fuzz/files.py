"""``.tflite`` and ``.onnx`` files for the fuzzer: any bytes are imported, and what imports is executed."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
from execution import is_small
from onnx import ModelProto
from onnx.defs import onnx_opset_version
from tflite_metadata import metadata, packed
from tflite_net import Net, T, write

import nnvk
from nnvk.api import Device, NnapiError, ResultCode
from nnvk.importers import formats


def seeds(kind: str) -> list[bytes]:
    """Small valid files of a format: each has an operator, or its quantised kind, that the others have not.

    The last of the ``.tflite`` files has metadata and an archive of labels behind it.
    """
    with zipfile.ZipFile(Path(__file__).with_name(f"{kind}_seeds.zip")) as archive:
        found = [archive.read(name) for name in sorted(archive.namelist())]
    return [*found, _described()] if kind == "tflite" else list(filter(_is_known, found))


def _is_known(model: bytes) -> bool:
    """Whether an ``.onnx`` file is of a version that the installed package has."""
    opsets = ModelProto.FromString(model).opset_import
    return all(one.version <= onnx_opset_version() for one in opsets if not one.domain)


def _described() -> bytes:
    image, classes = T("FLOAT32", (1, 2, 2, 3)), T("FLOAT32", (1, 2, 2, 3))
    net = Net([image], [classes])
    net.op("RELU", [image], classes)
    described = metadata("a model", mean=[0.5], std=[0.25], labels="labels.txt")
    return packed(write(net, metadata=described), {"labels.txt": "cat\ndog\n", "notes.txt": "none"})


def execute(data: bytes, device: Device) -> str:
    """Load and call the model of a file, as applications do. Says how far that got; raises what is a bug."""
    try:
        imported = formats.read(data).load(in_parts=True)
    except NnapiError as error:
        if error.code is ResultCode.OUT_OF_MEMORY:
            raise MemoryError(str(error)) from error  # what a file may make of the memory is limited
        return f"refused by the importer: {_foreseen(error)}"
    model = imported.model.frozen
    if not is_small([operand.type for each in (*model.referenced(), model) for operand in each.operands]):
        return "imported"
    try:
        loaded = nnvk.load(data, device=device)
    except NnapiError as error:
        return f"refused by the device: {_foreseen(error)}"
    rng = np.random.default_rng(zlib.crc32(data))
    arrays = []
    for port in loaded.inputs:
        steps = rng.integers(-9, 10, port.shape)
        arrays.append(steps.astype(port.dtype) if port.dtype.kind != "f" else (steps / 4).astype(port.dtype))
    try:
        with np.errstate(all="ignore"), loaded:
            loaded(*arrays)
    except NnapiError as error:
        return f"refused at execution: {_foreseen(error)}"
    operations = {str(operation) for operation in model.operations}
    return f"executed: {' '.join(sorted(operations))}"


def _foreseen(error: NnapiError) -> NnapiError:
    """An error that a check gives. Another exception behind it is one that no check has foreseen: a bug."""
    if "makes no sense to nnvk" in error.reason:
        raise AssertionError(str(error)) from error
    return error
