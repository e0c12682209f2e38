"""The files of ``--input``: images and arrays for the inputs of a model."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nnvk.cli.images import Normalization, load_image
from nnvk.importers.tflite import Port
from nnvk.types.operand import OperandType


def read_inputs(files: Sequence[Path], ports: Sequence[Port], normalization: Normalization | None) -> list[np.ndarray]:
    """The model's inputs, in order, from one .npz for all of them, or from one file for each.

    Raises ValueError that names what is wanted and what came.
    """
    if len(files) == 1 and files[0].suffix == ".npz":
        return _from_npz(files[0], ports)
    if len(files) != len(ports):
        wanted = "; ".join(f"{index} {port.name!r} {port.type}" for index, port in enumerate(ports))
        came = f"got {len(files)}" if files else "none was given"
        raise ValueError(f"the model wants {len(ports)} --input FILE (image, .npy, or one .npz), {came}: {wanted}")
    return [_from_file(file, port.type, normalization) for file, port in zip(files, ports, strict=True)]


def _from_file(path: Path, type: OperandType, normalization: Normalization | None) -> np.ndarray:
    if path.suffix == ".npz":
        raise ValueError(f"{path}: a .npz has all inputs, it must be the only --input")
    if path.suffix == ".npy":
        return _fitting(str(path), _load(path), type)
    return load_image(path, type, normalization)


def _from_npz(path: Path, ports: Sequence[Port]) -> list[np.ndarray]:
    names = [str(index) for index in range(len(ports))]
    with _load(path) as archive:
        if sorted(archive.files) != sorted(names):
            raise ValueError(f"{path}: expected arrays named {', '.join(names)}, found {', '.join(archive.files)}")
        try:
            arrays = {name: archive[name] for name in names}
        except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
    return [_fitting(f"{path}[{name}]", arrays[name], port.type) for name, port in zip(names, ports, strict=True)]


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no array file of NumPy: {error}") from error


def _fitting(what: str, array: np.ndarray, type: OperandType) -> np.ndarray:
    """The array in the operand's dimensions: they may differ in ones, and stand in for those not known."""
    if array.dtype.newbyteorder("=") != type.dtype:
        raise ValueError(f"{what}: expected {type.dtype} for {type}, got {array.dtype}")
    dimensions = type.dimensions or array.shape
    if len(dimensions) == array.ndim:
        dimensions = tuple(size or actual for size, actual in zip(dimensions, array.shape, strict=True))
    if _without_ones(array.shape) != _without_ones(dimensions):
        raise ValueError(f"{what}: expected dimensions {list(type.dimensions)}, got {list(array.shape)}")
    return np.ascontiguousarray(array, type.dtype).reshape(dimensions)


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]
