"""The cases that a device is checked by: operations on all of their types, in the order of use in real models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nnvk.check.model_rows import TYPES
from nnvk.check.templates import derived, filled, fits, on_all_types
from nnvk.ops import registry
from nnvk.ops.flow import CONTROL_FLOW
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode

FILE = Path(__file__).resolve().parent / "cases.txt"
_TIERS = (("f32", "i8", "u8"), ("f16",))
"""Leading types in the order in which all cases are run on them; all other types come last."""
_SHAPES = (2, 3, 5, 7), (1, 28, 28, 64)
"""The shapes of derived cases: a small one of odd size, and a usual one."""
_FEW = 3
"""Operations whose names are said."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model with its inputs, as a row of text."""

    code: KnownCode
    """Its first operation."""
    leading: OperandCode
    text: str
    """The row."""

    @property
    def operations(self) -> str:
        """Names of its operations, the first and a number where they are many."""
        names = [part.partition(" ")[0] for part in self.text.split(" | ")]
        return " + ".join(names) if len(names) <= _FEW else f"{names[0]} + {len(names) - 1} more"

    @property
    def details(self) -> str:
        """Types, sizes and parameters; the whole row where it has several operations."""
        return self.text if " | " in self.text else self.text.partition(" ")[2]


def cases() -> tuple[Case, ...]:
    """All cases, in the order in which they are run: those of the file, then those of operations that it lacks."""
    found = [case for line in FILE.read_text(encoding="utf-8").splitlines() for case in _of_line(line)]
    named = {case.code for case in found} | set(CONTROL_FLOW)
    for code, definition in registry.definitions().items():
        if code not in named:
            found += [case for leading in definition.types for case in _derived_cases(code, leading)]
    return tuple(sorted(found, key=lambda case: _tier(case.leading)))


def _derived_cases(code: KnownCode, leading: OperandCode) -> Iterator[Case]:
    """The cases of an operation without a line in the file; none where its signature does not say enough."""
    for shape in _SHAPES:
        template = derived(code, shape)
        if template is not None and fits(template, leading):
            yield Case(code, leading, filled(code, template, leading))


def _tier(leading: OperandCode) -> int:
    codes = [[TYPES[name] for name in tier] for tier in _TIERS]
    return next((number for number, tier in enumerate(codes) if leading in tier), len(_TIERS))


def _of_line(line: str) -> Iterator[Case]:
    """The cases of a line of the file: ``TYPE,TYPE: NAME,NAME template``, where the types may be left out."""
    words = line.partition(" # ")[0].split()
    if not words or words[0] == "#":
        return
    types = None
    if words[0].endswith(":"):
        types = {TYPES[name] for name in words.pop(0)[:-1].split(",")}
    names, template = words[0].split(","), " ".join(words[1:])
    for code, leading in on_all_types(names):
        if (types is None or leading in types) and fits(template, leading):
            text = filled(code, template, leading)
            # The type of the output of a QUANTIZE says whose operation it is.
            is_wide = text.endswith(" -> i16*0.0003")
            if code.name != "QUANTIZE" or is_wide == isinstance(code, ExtendedOperationCode):
                yield Case(code, leading, text)
