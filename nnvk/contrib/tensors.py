"""Checks of what functions get: types, dimensions and options."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tflite

from nnvk.importers.bounds import INT32
from nnvk.importers.errors import Unmapped
from nnvk.importers.tflite.flex_options import FlexOptions

INT16 = np.iinfo(np.int16)
Tensor = np.ndarray


@lru_cache(1024)
def option(custom_options: bytes, name: str, least: int, most: int, default: int | None = None) -> int:
    """A whole number among the options of an operator, which are read once for all executions."""
    return FlexOptions(custom_options, {} if default is None else {name: default}).whole(name, least, most)


def check(tensor: Tensor, what: str, dtype: Any, rank: int | None = None) -> None:
    """`Unmapped` where a tensor is of another type or has other dimensions."""
    if tensor.dtype != dtype:
        raise Unmapped(f"{what} must be of {np.dtype(dtype)}, got {tensor.dtype}")
    if rank is not None and tensor.ndim != rank:
        raise Unmapped(f"{what} must have {rank} dimensions, got shape {list(tensor.shape)}")


def size_of(tensor: Tensor, what: str, divisor: int = 1) -> int:
    """The last size, which must be a multiple of ``divisor``."""
    size = tensor.shape[-1] if tensor.ndim else 0
    if size < 1 or size % divisor:
        raise Unmapped(f"the last size of {what} must be a multiple of {divisor}, got {list(tensor.shape)}")
    return int(size)


def type_option(tensor: Tensor, custom_options: bytes, types: Sequence[Any]) -> None:
    """`Unmapped` where an input is none of ``types``, or the option T has another type than it."""
    names = [np.dtype(one).name for one in types]
    if tensor.dtype.name not in names:
        raise Unmapped(f"the input must be of {', '.join(names)}, got {tensor.dtype}")
    number = getattr(tflite.TensorType, tensor.dtype.name.upper())
    given = option(custom_options, "T", *INT32, default=0)
    if given != number:
        raise Unmapped(f"the option T must be {number}, the number of {tensor.dtype.name.upper()}, got {given}")
