"""The table of mappers: one small function for each TFLite builtin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnvk.importers.graph_builder import Value
from nnvk.importers.registry import Mappers
from nnvk.importers.tflite.context import Context

Mapper = Callable[[Context], "Value | Sequence[Value]"]
"""Adds NNAPI operations that do what the operator does and returns its outputs.

An output may be in another quantisation than the file declares, or real: the importer converts it.
"""

_mappers = Mappers[Mapper]()
builtin = _mappers.of
"""Decorates the mapper of builtins by their names in the schema, and of custom operators by their custom code."""
find = _mappers.find
supported_operators = _mappers.names
"""Names of the builtins, and custom codes of the other operators, that can be mapped."""
