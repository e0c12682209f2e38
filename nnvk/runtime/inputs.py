"""The inputs that callers give: arrays of any package, by position or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnvk.base.checks import sequence
from nnvk.base.errors import bad_data
from nnvk.base.text import printable

_PROTOCOLS = ("__array__", "__array_interface__", "__dlpack__")
Inputs = Sequence[Any] | Mapping[str, Any]
"""The inputs of a model, by position or by name."""


def is_array(value: Any) -> bool:
    """Whether this is one array, NumPy's or one that can become it. NumPy's scalars are numbers."""
    return not isinstance(value, np.generic) and any(hasattr(value, protocol) for protocol in _PROTOCOLS)


def as_array(value: Any, what: str) -> np.ndarray:
    """Return a C-contiguous array of anything that `numpy.asarray` or DLPack takes, without a copy if possible.

    BAD_DATA: neither takes it.
    """
    try:
        array = np.asarray(value) if not hasattr(value, "__dlpack__") or hasattr(value, "__array__") else None
        return np.asarray(np.from_dlpack(value) if array is None else array, order="C")
    except Exception as error:  # other packages raise what they like
        raise bad_data(f"{what}: a {type(value).__name__} that can't be read as an array: {error}") from error


def in_order(inputs: Inputs, names: Sequence[str], call: str) -> list[Any]:
    """The inputs by position. ``names`` are theirs, empty where they have none; ``call`` is what was called.

    BAD_DATA: names that are unknown, missing or ambiguous, or one array in the place of a list. TypeError: no list.
    """
    if is_array(inputs) or isinstance(inputs, (bytes, bytearray, memoryview)):
        raise bad_data(
            f"{call} takes a list of arrays, one for each input, got one {type(inputs).__name__}: write [it]"
        )
    if not isinstance(inputs, Mapping):
        return list(sequence("the inputs", inputs))
    if not names:
        raise bad_data(f"the model's inputs have no names: {call} takes a list of arrays, in their order")
    shown = f"[{', '.join(repr(printable(name)) for name in names)}]"
    if len(set(names)) < len(names):
        raise bad_data(f"some inputs of {shown} have one name: {call} takes a list of arrays, in their order")
    if inputs.keys() != set(names):
        given = ", ".join(repr(printable(str(name))) for name in inputs)
        raise bad_data(f"expected the inputs {shown}, got [{given}]")
    return [inputs[name] for name in names]
