"""The cases that a device is checked by: operations on all of their types, in the order of use in real models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nnvk.check.model_rows import TYPES
from nnvk.check.templates import filled, fits, on_all_types
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode

FILE = Path(__file__).resolve().parent / "cases.txt"
_TIERS = (("f32", "i8", "u8"), ("f16",))
"""Leading types in the order in which all cases are run on them; all other types come last."""
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
    """All cases, in the order in which they are run."""
    found = [case for line in FILE.read_text(encoding="utf-8").splitlines() for case in _of_line(line)]
    return tuple(sorted(found, key=lambda case: _tier(case.leading)))


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
            text = filled(f"{code.name} {template}", leading)
            # The type of the output of a QUANTIZE says whose operation it is.
            is_wide = text.endswith(" -> i16*0.0003")
            if code.name != "QUANTIZE" or is_wide == isinstance(code, ExtendedOperationCode):
                yield Case(code, leading, text)
