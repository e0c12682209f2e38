"""The table of mappers: one small function for each operator of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.tensors import Tensor
from nnvk.importers.registry import Mappers

Result = Value | Tensor | None
Mapper = Callable[[Context], "Result | Sequence[Result]"]
"""Adds NNAPI operations that do what the operator does and returns its outputs.

A `Value` is of the first input's type, or of the one that its operand type is. None: an output that is not made.
"""

_mappers = Mappers[Mapper]()
operator = _mappers.of
"""Decorates the mapper of operators by their names, those of other domains as ``com.microsoft.Gelu``."""
find = _mappers.find
supported_operators = _mappers.names
"""Names of the operators that can be mapped; those of other domains than ONNX's own have theirs in front."""
