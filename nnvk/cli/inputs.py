"""The files of ``--input``: images and arrays for the inputs of a model."""

from __future__ import annotations

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nnvk.cli.images import Normalization, load_image
from nnvk.importers.tflite import Port

ARRAY_SUFFIXES = (".npy", ".npz")
_BROKEN = (
    ValueError,
    EOFError,
    SyntaxError,
    TypeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""What NumPy and zipfile raise for files that are broken, encrypted, or compressed in a way they don't know."""


def read_inputs(files: Sequence[Path], ports: Sequence[Port], normalization: Normalization | None) -> list[np.ndarray]:
    """Read the model's inputs, as TFLite has them, from one .npz for all or from one file for each.

    Raises ValueError that names what is wanted and what came.
    """
    if normalization is not None and files and all(_suffix(file) in ARRAY_SUFFIXES for file in files):
        raise ValueError("--mean and --std are for images, and no --input is one")
    if len(files) == 1 and _suffix(files[0]) == ".npz":
        return _from_npz(files[0], ports)
    if len(files) != len(ports):
        wanted = "; ".join(f"{index}: {_describe(port)}" for index, port in enumerate(ports))
        came = f"got {len(files)}" if files else "none was given"
        raise ValueError(f"the model wants {len(ports)} --input FILE (image, .npy, or one .npz), {came}: {wanted}")
    return [_from_file(file, port, normalization) for file, port in zip(files, ports, strict=True)]


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def _from_file(path: Path, port: Port, normalization: Normalization | None) -> np.ndarray:
    if _suffix(path) == ".npz":
        raise ValueError(f"{path}: a .npz has all inputs, it must be the only --input")
    if _suffix(path) == ".npy":
        return _from_npy(path, port)
    return load_image(path, port.type, normalization)


def _from_npz(path: Path, ports: Sequence[Port]) -> list[np.ndarray]:
    names = [str(index) for index in range(len(ports))]
    arrays = _load(path)
    if not isinstance(arrays, dict):
        raise ValueError(f"{path} has one array without a name, not an archive of arrays: call it .npy")
    if sorted(arrays) != sorted(names):
        raise ValueError(f"{path}: expected arrays named {', '.join(names)}, found {', '.join(arrays)}")
    return [_fitting(f"{path}[{name}]", arrays[name], port) for name, port in zip(names, ports, strict=True)]


def _from_npy(path: Path, port: Port) -> np.ndarray:
    array = _load(path)
    if isinstance(array, dict):
        raise ValueError(f"{path} is an archive of arrays, not one array: call it .npz")
    return _fitting(str(path), array, port)


def _load(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    """What a .npy or .npz holds, whatever it is called. Raises ValueError for anything else, OSError if absent."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            arrays = {name: loaded[name] for name in loaded.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise ValueError(f"its member {name!r} is no array")
        return arrays
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(f"{path} is no array file of NumPy: {error}") from error
    except _BROKEN as error:
        raise ValueError(f"{path} is no array file of NumPy: {error}") from error


def _fitting(what: str, array: np.ndarray, port: Port) -> np.ndarray:
    """The array in the tensor's shape, from which it may differ in ones."""
    if array.dtype.newbyteorder("=") != port.dtype:
        raise ValueError(f"{what}: expected {_describe(port)}, got {array.dtype}")
    if _without_ones(array.shape) != _without_ones(port.shape):
        raise ValueError(f"{what}: expected {_describe(port)}, got {list(array.shape)}")
    return np.ascontiguousarray(array, port.dtype).reshape(port.shape)


def _describe(port: Port) -> str:
    return f"{port.dtype}{list(port.shape)} for {port.name!r}"


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]
