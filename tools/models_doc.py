"""Write the tables of ``docs/models.md``: the NNAPI operations of each operator, and whether a GPU runs them.

    python tools/models_doc.py           # writes the tables, each between its two marks
    python tools/models_doc.py --check   # fails if a table is not up to date

The tool needs no device: it reads operators from the importers' mappers, and the operations of GPUs from the Vulkan
driver's kernels.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import generated_page
from operations_doc import vulkan_types

from nnvk import contrib
from nnvk.importers import decompositions, dynamic_extents
from nnvk.importers.onnx import mappers as onnx_mappers
from nnvk.importers.onnx import registry as onnx_registry
from nnvk.importers.tflite import mappers as tflite_mappers
from nnvk.importers.tflite import registry as tflite_registry
from nnvk.importers.tflite import tables
from nnvk.importers.tflite.mappers import variables
from nnvk.importers.user_functions import is_function
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode

PAGE = Path(__file__).resolve().parent.parent / "docs" / "models.md"
END = "<!-- End of what is written. -->"
_GLUE = frozenset(
    {
        OperationCode.RESHAPE,
        OperationCode.TRANSPOSE,
        OperationCode.TILE,
        OperationCode.QUANTIZE,
        OperationCode.DEQUANTIZE,
    }
)
"""Operations that adapt shapes and quantisations; named only if an operator becomes nothing else."""
_READ = (
    contrib.__name__,
    decompositions.__name__,
    dynamic_extents.__name__,
    onnx_mappers.__name__,
    tflite_mappers.__name__,
    tables.__name__,
)
"""Packages and modules whose functions the tool reads."""
_HELPERS = {
    "reshape": (OperationCode.RESHAPE,),
    "quantized": (OperationCode.QUANTIZE,),
    "real": (OperationCode.DEQUANTIZE,),
    "widened": (OperationCode.DEQUANTIZE,),
    "broadcast": (OperationCode.TILE,),
    "as_number": (OperationCode.SELECT,),
    "as_bool": (OperationCode.NOT_EQUAL,),
    "cast": (OperationCode.CAST, OperationCode.NOT_EQUAL, OperationCode.SELECT),
    "plain": (OperationCode.DEQUANTIZE,),
    "halved": (OperationCode.CAST,),
    "scaled": (OperationCode.ADD, OperationCode.MUL),
}
"""The operations that methods of a mapper's context emit."""


@dataclass(frozen=True)
class Table:
    """The operators of a format."""

    format: str
    registry: ModuleType
    mappers: ModuleType

    @property
    def begin(self) -> str:
        """The mark before the table."""
        return f"<!-- Written by tools/models_doc.py, of {self.format}: don't edit, run it. -->"

    def operations(self, operator: str) -> list[KnownCode]:
        """The NNAPI operations that the mapper of an operator can emit: the one of its own name first."""
        if operator in _SAID or is_function(operator):
            return []
        mapper = self.registry.find(operator)
        assert mapper is not None
        found = set(_emitted(mapper, operator, set()))
        own = {code for code in found if code not in _GLUE or _is_own(code, operator)}
        return sorted(own or found, key=lambda code: (not _is_own(code, operator), code.name))

    def text(self) -> str:
        """The table, in Markdown."""
        lines = [f"| {self.format} operator | NNAPI operations | GPU |", "| --- | --- | --- |"]
        for operator in sorted(self.registry.supported_operators(), key=str.upper):
            codes = self.operations(operator)
            missing = [code.name for code in codes if not vulkan_types(code)]
            gpu = f"not {', '.join(missing)}" if missing else "yes" if codes else ""
            names = ", ".join(code.name for code in codes) or self._without_operations(operator)
            lines.append(f"| {operator} | {names} | {gpu} |")
        return "\n".join(lines)

    def _without_operations(self, operator: str) -> str:
        """A description of an operator that becomes no operation."""
        if is_function(operator):
            return "a function on the CPU"
        is_state = getattr(self.registry.find(operator), "__module__", "") == variables.__name__
        return "a state" if is_state else _SAID.get(operator, "a constant")


_SAID = {
    **dict.fromkeys(("Dropout", "Identity"), "its input"),
    **dict.fromkeys(("Loop", "Scan"), "the operations of its body, repeated"),
    **dict.fromkeys(("CALL", "STABLEHLO_COMPOSITE"), "the operations of its subgraph"),
    "If": "IF, or the operations of the branch if it is known",
}
"""Descriptions of operators whose mappers do not name the operations."""
TFLITE = Table("TFLite", tflite_registry, tflite_mappers)
ONNX = Table("ONNX", onnx_registry, onnx_mappers)
TABLES = (TFLITE, ONNX)
_parsed = cache(lambda function: ast.parse(textwrap.dedent(inspect.getsource(function))))


def _is_own(code: KnownCode, operator: str) -> bool:
    """Whether an operation has the operator's name: PRELU is both PRELU's and PRelu's."""
    return code.name.replace("_", "") == operator.rpartition(".")[2].upper().replace("_", "")


def _emitted(function: Callable[..., Any], operator: str, seen: set[Callable[..., Any]]) -> Iterator[KnownCode]:
    """Operations that a function names, that tables it uses have for the operator, and that its helpers emit."""
    if function in seen:
        return
    seen.add(function)
    names = inspect.unwrap(function).__globals__  # type: ignore[attr-defined]
    if isinstance(function, FunctionType) and function.__name__ == "<lambda>":  # its source is a part of a table
        for name in function.__code__.co_names:
            yield from [OperationCode[name]] if name in OperationCode.__members__ else ()
            yield from _of_value(names.get(name), operator, seen)
        return
    for node in ast.walk(_parsed(function)):
        match node:
            case ast.Attribute(value=ast.Name(id="Op" | "OperationCode"), attr=name):
                yield OperationCode[name]
            case ast.Attribute(value=ast.Name(id="ExtendedOperationCode"), attr=name):
                yield ExtendedOperationCode[name]
            case ast.Attribute(value=ast.Name(id="c" | "self"), attr=name) if name in _HELPERS:
                yield from _HELPERS[name]
            case ast.Subscript(value=ast.Name(id="Op" | "OperationCode")) if operator in OperationCode.__members__:
                yield OperationCode[operator]
            case ast.Attribute(value=ast.Name(id=module), attr=name) if isinstance(names.get(module), ModuleType):
                yield from _of_value(getattr(names[module], name, None), operator, seen)
            case ast.Name(id=name):
                yield from _of_value(names.get(name), operator, seen)


def _of_value(value: Any, operator: str, seen: set[Callable[..., Any]]) -> Iterator[KnownCode]:
    if isinstance(value, KnownCode):
        yield value
    elif isinstance(value, FunctionType) and value.__module__.startswith(_READ):
        yield from _emitted(value, operator, seen)
    elif isinstance(value, type) and value.__module__.startswith(_READ):
        file = sys.modules[value.__module__].__file__
        for method in vars(value).values():
            if isinstance(method, FunctionType) and method.__code__.co_filename == file:
                yield from _of_value(method, operator, seen)
    elif isinstance(value, dict):
        yield from _of_value(tuple([value[operator]] if operator in value else value.values()), operator, seen)
    elif isinstance(value, tuple):
        for one in value:
            yield from _of_value(one, operator, seen)


def page(text: str) -> str:
    """The page with new tables. ValueError: a mark is missing."""
    for table in TABLES:
        text = generated_page.between(text, table.begin, END, table.text())
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool and return the exit status."""
    return generated_page.run(__file__, PAGE, page, arguments, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
