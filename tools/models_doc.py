"""Write the table of ``docs/models.md``: which NNAPI operations a TFLite operator becomes, and whether a GPU runs them.

    python tools/models_doc.py           # writes the table, between its two marks
    python tools/models_doc.py --check   # fails where the table is not what would be written

No device is needed: operators are read from the importer's mappers, what a GPU runs from the Vulkan driver's kernels.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from operations_doc import vulkan_types

from nnvk.importers import idioms
from nnvk.importers.tflite import mappers, supported_operators
from nnvk.importers.tflite.mappers import variables
from nnvk.importers.tflite.registry import find
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode

PAGE = Path(__file__).resolve().parent.parent / "docs" / "models.md"
BEGIN = "<!-- Written by tools/models_doc.py: don't edit, run it. -->"
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
"""Operations that go between others to fit shapes and quantisations; named where nothing else is."""
_HELPERS = {
    "reshape": (OperationCode.RESHAPE,),
    "quantized": (OperationCode.QUANTIZE,),
    "real": (OperationCode.DEQUANTIZE,),
    "widened": (OperationCode.DEQUANTIZE,),
    "broadcast": (OperationCode.TILE,),
    "as_number": (OperationCode.SELECT,),
    "as_bool": (OperationCode.NOT_EQUAL,),
}
"""What methods of a mapper's context emit."""


def operations(operator: str) -> list[KnownCode]:
    """The operations that the mapper of an operator can emit: the one of its own name first."""
    mapper = find(operator)
    assert mapper is not None
    found = set(_emitted(mapper, operator, set()))
    own = {code for code in found if code not in _GLUE or code.name == operator}
    return sorted(own or found, key=lambda code: (code.name != operator, code.name))


def _emitted(function: Callable[..., Any], operator: str, seen: set[Callable[..., Any]]) -> Iterator[KnownCode]:
    """Operations that a function names, that tables it uses have for the operator, and that its helpers emit."""
    if function in seen:
        return
    seen.add(function)
    names = inspect.unwrap(function).__globals__  # type: ignore[attr-defined]
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
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
    elif isinstance(value, FunctionType) and value.__module__.startswith((mappers.__name__, idioms.__name__)):
        yield from _emitted(value, operator, seen)
    elif isinstance(value, dict):
        for one in [value[operator]] if operator in value else value.values():
            yield from _of_value(one, operator, seen)
    elif isinstance(value, tuple):
        for one in value:
            yield from _of_value(one, operator, seen)


def _without_operations(operator: str) -> str:
    """What an operator becomes that needs no operation."""
    return "a state" if getattr(find(operator), "__module__", "") == variables.__name__ else "a constant"


def table() -> str:
    """The table, in Markdown."""
    lines = ["| TFLite operator | NNAPI operations | GPU |", "| --- | --- | --- |"]
    for operator in sorted(supported_operators(), key=str.upper):
        codes = operations(operator)
        missing = [code.name for code in codes if not vulkan_types(code)]
        gpu = f"not {', '.join(missing)}" if missing else "yes" if codes else ""
        names = ", ".join(code.name for code in codes) or _without_operations(operator)
        lines.append(f"| {operator} | {names} | {gpu} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the table anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the table is up to date")
    options = parser.parse_args(arguments)
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if options.check:
        if old == new:
            return 0
        print(f"{PAGE} is not up to date: run python tools/models_doc.py", file=sys.stderr)
        return 1
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
