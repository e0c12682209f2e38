"""The table of mappers: one small function for each operator of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnvk.importers.graph import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.tensors import Tensor

Result = Value | Tensor | None
Mapper = Callable[[Context], "Result | Sequence[Result]"]
"""Adds NNAPI operations that do what the operator does and returns its outputs.

A `Value` is of the first input's type, or of the one that its operand type is. None: an output that is not made.
"""

_mappers: dict[str, Mapper] = {}


def operator(*names: str) -> Callable[[Mapper], Mapper]:
    """Register the mapper of operators by their names, those of other domains as ``com.microsoft.Gelu``."""

    def register(mapper: Mapper) -> Mapper:
        for name in names:
            if name in _mappers:
                raise ValueError(f"{name} has two mappers")
            _mappers[name] = mapper
        return mapper

    return register


def find(name: str) -> Mapper | None:
    """The mapper of an operator, None where there is none."""
    return _mappers.get(name)


def supported_operators() -> frozenset[str]:
    """Names of the operators that can be mapped; those of other domains than ONNX's own have theirs in front."""
    return frozenset(_mappers)
