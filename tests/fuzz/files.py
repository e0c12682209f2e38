"""``.tflite`` files for the fuzzer: any bytes are imported, and what imports is executed."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
from execution import compile_and_run, devices_for, is_small

from nnvk.api import Device, NnapiError, ResultCode
from nnvk.importers import tflite

_SEEDS = Path(__file__).with_name("tflite_seeds.zip")


def seeds() -> list[bytes]:
    """Small valid files: each has an operator, or its quantised kind, that the others have not."""
    with zipfile.ZipFile(_SEEDS) as archive:
        return [archive.read(name) for name in sorted(archive.namelist())]


def execute(data: bytes, device: Device) -> str:
    """Import and compute a file. Says how far that got; raises what is a bug."""
    try:
        imported = tflite.load(data)
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
