"""Write ``docs/operations.md`` from the registry: which device runs which operation on which types, and how to call it.

    python tools/operations_doc.py           # writes the page
    python tools/operations_doc.py --check   # fails where the page is not what would be written

No device is needed: what the Vulkan driver runs is read from its kernels.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import generated_page

from nnvk.driver.vulkan import kernels as _kernels  # noqa: F401  (registers the kernels)
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.ops import registry
from nnvk.ops.flow import CONTROL_FLOW
from nnvk.ops.registry import OpDef
from nnvk.ops.signature import Codes, Param, Signature, real_scalar
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import EXTENSION, ExtendedOperationCode, KnownCode

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operations.md"
WIDTH = 110
"""Columns of the signatures."""

# The types that have a column of their own in the overview, in this order; the rest share the last one.
_COLUMNS = (
    OperandCode.TENSOR_FLOAT32,
    OperandCode.TENSOR_FLOAT16,
    OperandCode.TENSOR_INT32,
    OperandCode.TENSOR_BOOL8,
    OperandCode.TENSOR_QUANT8_ASYMM,
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
)

_INTRODUCTION = """\
# Operations

<!-- Written by tools/operations_doc.py: don't edit, run it. -->

This page lists all {count} operations of NNAPI's feature level 8, and the devices that run them. The reference device,
`nnapi-reference`, runs every operation on every type below. Vulkan devices run {on_vulkan} of the operations. If they
do not run an operation because of its type, an option or its size, the reference device runs it, and
`Model.get_support(device)` gives the reason.

## Overview

A number is the NNAPI feature level that introduced an operation on a leading type ("T" in the signatures below). The
reference device runs all of these. A number in **bold with a V** says that Vulkan devices run the operation too. Tensor
types are written without `TENSOR_`."""

_EXTENSION = """\
## nnvk's extension

The vendor extension `{name}` has operations that models of other formats need and that NNAPI lacks. An
operation with the name and the number of an NNAPI operation is the same operation on TENSOR_QUANT16_SYMM. In Python the
extension's operations are members of `nnvk.ExtendedOperationCode`; in C `<nnvk/extension.h>` has their numbers.
[api.md](api.md#vendor-extensions) shows how to use them in a model."""

_LEGEND = """\
## Signatures

Each entry has the inputs of an operation, in order, and its outputs. There is a line for each overload; the types of
the operands select one of them.

- `T` is the leading type, one of those listed. An operand without a type is of type `T`. `U`, `V`, `W` depend on `T` as
  in the operation's table.
- Scalars are in lower case: `int32`, `bool`, `float32`. `real` is a FLOAT16 scalar for a FLOAT16 tensor and a
  FLOAT32 scalar for every other type. `any` is every type of data.
- `name = value` may be left out at the end or omitted, and then has this value; `name?` may be omitted.
- `name...` stands for any number of operands.
- `name [3]` exists from feature level 3 on."""


def title(code: KnownCode) -> str:
    """The name of an operation on the page: the extension's that have the name of one of NNAPI's say so."""
    is_wide = isinstance(code, ExtendedOperationCode) and code.name in OperationCode.__members__
    return f"{code.name} (16 bits)" if is_wide else code.name


def short(code: OperandCode) -> str:
    """The name of a type on the page: tensors in upper case without TENSOR_, scalars in lower case."""
    name = code.name.removeprefix("TENSOR_")
    return name if name != code.name else name.lower()


@dataclass(frozen=True, slots=True)
class Section:
    """The page's text about an operation below its name. Operations with the same text share a section."""

    overloads: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]


# --- signatures ----------------------------------------------------------------------------------------------


class _Types:
    """Names the types of an operation's operands; those that depend on T get letters."""

    def __init__(self, definition: OpDef) -> None:
        self._leading = tuple(definition.types)
        self._letters: dict[tuple[Codes, ...], str] = {}

    def of(self, param: Param) -> str:
        """The type of an operand, "" for T."""
        accepted = tuple(param.accepts(code) for code in self._leading)
        if all(codes == {code} for codes, code in zip(accepted, self._leading, strict=True)):
            return ""
        if accepted == tuple(real_scalar(code) for code in self._leading):
            return "real" if len(set(accepted)) > 1 else _names(accepted[0])
        if len(set(accepted)) == 1:
            return _names(accepted[0])
        return self._letters.setdefault(accepted, "UVWXYZ"[len(self._letters)])

    def columns(self) -> list[tuple[str, tuple[Codes, ...]]]:
        """The letters and what they stand for at each leading type."""
        return [(letter, accepted) for accepted, letter in self._letters.items()]


def _names(codes: Iterable[OperandCode]) -> str:
    named = sorted(codes)
    if len(named) == len(OperandCode) - 1 and OperandCode.MODEL not in named:
        return "any"
    return " or ".join(short(code) for code in named)


def _operand(param: Param, types: _Types) -> str:
    name = param.name + ("..." if param.variadic else "")
    if param.optional and param.default is None:
        name += "?"
    text = f"{name}: {types.of(param)}" if types.of(param) else name
    if param.optional and param.default is not None:
        text += f" = {str(param.default).lower()}"
    return text + (f" [{param.since}]" if param.since > 1 else "")


def _overload(signature: Signature, definition: OpDef, types: _Types) -> str:
    inputs = ", ".join(_operand(param, types) for param in signature.params)
    outputs = ", ".join(_operand(param, types) for param in definition.outputs)
    # A break may come between operands, not inside of one.
    unbreakable = f"({inputs}) -> {outputs}".replace(", ", ",\0").replace(" ", "\1").replace("\0", " ")
    lines = textwrap.wrap(
        unbreakable.replace("\1->\1", " ->\1"),
        WIDTH,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(line.replace("\1", " ") for line in lines)


def section(code: KnownCode) -> Section:
    """The section about an operation."""
    definition = registry.lookup(code)
    types = _Types(definition)
    overloads = tuple(_overload(signature, definition, types) for signature in definition.signatures)
    letters = types.columns()
    on_vulkan = vulkan_types(code)
    head = ("T", "since", *(letter for letter, _ in letters), "Vulkan")
    rows = [
        (
            short(leading),
            str(level),
            *(_names(accepted[row]) for _, accepted in letters),
            "yes" if leading in on_vulkan else "",
        )
        for row, (leading, level) in sorted(enumerate(definition.types.items()), key=lambda item: item[1][0])
    ]
    return Section(overloads, (head, *sorted(rows, key=lambda row: int(row[1]))))


# --- devices -------------------------------------------------------------------------------------------------


def vulkan_types(code: KnownCode) -> Codes:
    """Leading types on which Vulkan devices run an operation: a kernel has all; IF and WHILE are the driver's own."""
    definition = registry.lookup(code)
    runs = definition.code in kernels() or code in CONTROL_FLOW
    return frozenset(definition.types) if runs else frozenset()


# --- the page ------------------------------------------------------------------------------------------------


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = rows
    return [_row(head), _row(["---"] * len(head)), *map(_row, body)]


def _cell(code: KnownCode, leading: OperandCode) -> str:
    level = registry.lookup(code).types.get(leading)
    if level is None:
        return ""
    return f"**{level} V**" if leading in vulkan_types(code) else str(level)


def _overview(codes: type[OperationCode] | type[ExtendedOperationCode], anchors: dict[KnownCode, str]) -> list[str]:
    rows = [["Operation", *(short(column) for column in _COLUMNS), "other types"]]
    for code in sorted(codes, key=title):
        others = [
            f"{short(leading)} {_cell(code, leading)}"
            for leading in registry.lookup(code).types
            if leading not in _COLUMNS
        ]
        rows.append(
            [f"[{title(code)}](#{anchors[code]})", *(_cell(code, column) for column in _COLUMNS), ", ".join(others)]
        )
    return _table(rows)


def _sections() -> list[tuple[tuple[KnownCode, ...], Section]]:
    """Sections in the order of names, one for all operations that have the same."""
    alike: dict[Section, list[KnownCode]] = {}
    for code in sorted(registry.definitions(), key=title):
        alike.setdefault(section(code), []).append(code)
    return [(tuple(codes), shared) for shared, codes in alike.items()]


def _heading(codes: Sequence[KnownCode]) -> str:
    return ", ".join(map(title, codes))


def _anchor(heading: str) -> str:
    """The anchor that Markdown renderers make of a heading."""
    return heading.lower().translate({ord(mark): None for mark in ",()"}).replace(" ", "-")


def page() -> str:
    """The whole page."""
    sections = _sections()
    anchors = {code: _anchor(_heading(codes)) for codes, _ in sections for code in codes}
    on_vulkan = sum(1 for code in OperationCode if vulkan_types(code))
    lines = [_INTRODUCTION.format(count=len(OperationCode), on_vulkan=on_vulkan), ""]
    lines += _overview(OperationCode, anchors)
    lines += ["", _EXTENSION.format(name=EXTENSION), "", *_overview(ExtendedOperationCode, anchors), "", _LEGEND]
    for codes, shared in sections:
        lines += ["", f"### {_heading(codes)}", "", "```text", *shared.overloads, "```", "", *_table(shared.table)]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool and return the exit status."""
    return generated_page.run(__file__, PAGE, lambda _: page(), arguments, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
