"""Random inputs, for models whose results nobody looks at, or are compared."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator, default_rng  # NumPy imports it late, and Cython loses a Ctrl-C that comes meanwhile

from nnvk.importers.ports import ImportedModel, Port
from nnvk.inputs.whole_numbers import limits_of_inputs
from nnvk.types.model import Model
from nnvk.types.operand import OperandType


def random_inputs(model: Model, seed: int = 0) -> list[np.ndarray]:
    """Something for every input of a model, the same for the same seed.

    Floats are from -1 to 1, of quantised numbers any may come, of flags both. Indices are below the size of their
    table, and other whole numbers are 0, or 0 and 1 in masks (`limits_of_inputs`). Raises ValueError for an input whose
    dimensions are open, and MemoryError where the machine has too little for it all.
    """
    types = model.input_types()
    needed = sum(type_.size for type_ in (*types, *model.output_types()))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise MemoryError(f"inputs and outputs take {needed} bytes, the machine has {memory}")
    generator = default_rng(seed)
    limits = limits_of_inputs(model)
    return [random_array(type_, generator, limit) for type_, limit in zip(types, limits, strict=True)]


def random_ports(imported: ImportedModel, seed: int = 0) -> list[np.ndarray]:
    """Random inputs as the file has them; ValueError where a dimension is open."""
    arrays = random_inputs(imported.model.frozen, seed)
    return [port.decode(array) for port, array in zip(imported.inputs, arrays, strict=False)]


def random_edges(ports: Sequence[Port], seed: int = 0) -> list[np.ndarray]:
    """Random inputs of a file that is no model of NNAPI as a whole; open sizes are 1, and whole numbers 0.

    Raises ValueError for an input that is no array of numbers.
    """
    generator = default_rng(seed)
    arrays = []
    for port in ports:
        if not port.has_numbers:
            raise ValueError(f"input {port} is of type {port.file_type}, which has no random values: give inputs")
        shape = tuple(max(size, 1) if size else 0 for size in port.shape)
        if port.dtype.kind in "iub":
            arrays.append(np.zeros(shape, port.dtype))
        else:
            arrays.append((generator.random(shape, np.float32) * 2 - 1).astype(port.dtype))
    return arrays


def random_array(type: OperandType, generator: Generator, limit: int = 1) -> np.ndarray:
    """Random numbers of a type that has all its dimensions, else ValueError; ``limit`` is above all whole numbers."""
    if not type.is_fully_specified:
        raise ValueError(f"the model leaves dimensions of an input open ({type}): it needs inputs, or --shape")
    if type.dtype.kind == "f":
        array = generator.random(type.dimensions, np.float32)
        array *= 2
        array -= 1
        return array.astype(type.dtype, copy=False)
    if type.dtype.kind == "b":
        return generator.integers(0, 2, type.dimensions).astype(type.dtype)
    if type.scale:
        limits = np.iinfo(type.dtype)
        return generator.integers(limits.min, limits.max, type.dimensions, type.dtype, endpoint=True)
    return generator.integers(0, limit, type.dimensions).astype(type.dtype)
