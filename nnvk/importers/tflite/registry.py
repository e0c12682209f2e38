"""The table of mappers: one small function for each TFLite builtin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnvk.importers.graph import Value
from nnvk.importers.tflite.context import Context

Mapper = Callable[[Context], "Value | Sequence[Value]"]
"""Adds NNAPI operations that do what the operator does and returns its outputs.

An output may be in another quantisation than the file declares, or real: the importer converts it.
"""

_mappers: dict[str, Mapper] = {}


def builtin(*names: str) -> Callable[[Mapper], Mapper]:
    """Register the mapper of builtins by their names in the schema, and of custom operators by their custom code."""

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
    """Names of the builtins, and custom codes of the other operators, that can be mapped."""
    return frozenset(_mappers)
