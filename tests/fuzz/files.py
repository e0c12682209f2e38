"""``.tflite`` and ``.onnx`` files for the fuzzer: any bytes are imported, and what imports is executed."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from execution import compile_and_run, devices_for, is_small
from onnx import ModelProto
from onnx.defs import onnx_opset_version
from tflite_metadata import metadata, packed
from tflite_net import Net, T, write

from nnvk.api import Device, NnapiError, ResultCode
from nnvk.importers import onnx, tflite
from nnvk.importers.ports import ImportedModel


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
    """Import and compute a ``.tflite`` file. Says how far that got; raises what is a bug."""
    return _execute(tflite.load, data, device)


def execute_onnx(data: bytes, device: Device) -> str:
    """The same with an ``.onnx`` file."""
    return _execute(onnx.load, data, device)


def _execute(load: Callable[[bytes], ImportedModel], data: bytes, device: Device) -> str:
    try:
        imported = load(data)
    except NnapiError as error:
        if error.code is ResultCode.OUT_OF_MEMORY:
            raise MemoryError(str(error)) from error  # what a file may make of the memory is limited
        return f"refused by the importer: {error}"
    model = imported.model
    if not is_small([operand.type for each in (*model.frozen.referenced(), model.frozen) for operand in each.operands]):
        return "imported"
    rng = np.random.default_rng(zlib.crc32(data))
    arrays = []
    for port in imported.inputs:
        steps = rng.integers(-9, 10, port.shape)
        arrays.append(steps.astype(port.dtype) if port.dtype.kind != "f" else (steps / 4).astype(port.dtype))
    with np.errstate(all="ignore"):
        return compile_and_run(model, devices_for(device), imported.encode(arrays))
