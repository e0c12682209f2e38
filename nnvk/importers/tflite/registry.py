"""The table of mappers: one small function for each TFLite builtin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from nnvk.importers.graph_builder import Value
from nnvk.importers.registry import Mappers
from nnvk.importers.tflite.context import Context
from nnvk.importers.user_functions import function_names, is_function

Mapper = Callable[[Context], "Value | Sequence[Value]"]
"""Adds NNAPI operations that do what the operator does and returns its outputs.

An output may be in another quantisation than the file declares, or real: the importer converts it.
"""

_mappers = Mappers[Mapper]()
builtin = _mappers.of
"""Decorates the mapper of builtins by their names in the schema, and of custom operators by their custom code."""
find = _mappers.find
_CONTRIBUTED = "nnvk.contrib"


def look_among_contributed(custom_code: str) -> None:
    """Import the operators of other runtimes, unless the one of this code is known without them."""
    if not (is_function(custom_code) or find(custom_code)):
        import_module(_CONTRIBUTED)


def supported_operators() -> frozenset[str]:
    """Names of the builtins, and custom codes of the other operators, that can be mapped or that functions compute."""
    import_module(_CONTRIBUTED)
    return _mappers.names() | function_names()
