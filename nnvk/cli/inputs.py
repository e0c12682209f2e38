"""The files of ``--input``: images and arrays for the inputs of a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nnvk.importers.ports import Port
from nnvk.inputs.arrays import describe, load_array, load_arrays
from nnvk.inputs.images import Normalization, load_image

ARRAY_SUFFIXES = (".npy", ".npz")


def read_inputs(
    files: Sequence[Path],
    ports: Sequence[Port],
    normalization: Normalization | None,
    own: Sequence[Normalization | None] = (),
) -> list[np.ndarray]:
    """Read the model's inputs, as TFLite has them, from one .npz for all or from one file for each.

    ``own`` are the normalisations that the model's metadata gives for its inputs, which hold without ``normalization``.
    Raises ValueError that names what is wanted and what came.
    """
    if normalization is not None and files and not any(is_image(file) for file in files):
        raise ValueError("--mean and --std are for images, and no --input is one")
    if len(files) == 1 and _suffix(files[0]) == ".npz":
        return load_arrays(files[0], ports)
    if len(files) != len(ports):
        wanted = "; ".join(f"{index}: {describe(port)}" for index, port in enumerate(ports))
        came = f"got {len(files)}" if files else "none was given"
        raise ValueError(f"the model wants {len(ports)} --input FILE (image, .npy, or one .npz), {came}: {wanted}")
    chosen = [normalization or known for known in own] if own else [normalization] * len(ports)
    return [_from_file(file, port, one) for file, port, one in zip(files, ports, chosen, strict=True)]


def is_image(path: Path) -> bool:
    """Whether a file of ``--input`` is taken for an image."""
    return _suffix(path) not in ARRAY_SUFFIXES


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def _from_file(path: Path, port: Port, normalization: Normalization | None) -> np.ndarray:
    if _suffix(path) == ".npz":
        raise ValueError(f"a .npz has all inputs, it must be the only --input: {path}")
    if _suffix(path) == ".npy":
        return load_array(path, port)
    return load_image(path, port.type, normalization)
