"""Rows of text (`nnvk.check.model_rows`) with a capital letter for whatever depends on the leading type.

``T`` is that type itself; the others are in `WORDS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nnvk.check.model_rows import code_of
from nnvk.ops import registry
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode

_CASTS = {"F": "f32", "Q": "u8*0.031+117"}


def _quantised(type_: str, zero: int, lowest: int) -> dict[str, str]:
    """The letters for a type of 8 bits, with T's zero point and the type's lowest number."""
    middle = lowest + 128
    return {
        "T": f"{type_}{{}}*0.031{zero:+}",
        "B": "u16{}*0.125",
        "A": "i16{}*0.125",
        "S": f"{type_}{{}}*0.00390625{lowest:+}",
        "D": f"{type_}{{}}*0.02{middle:+}",
        "W": f"#{type_}{{}}*0.02{middle - 1:+}",
        "Z": "#i32{}",
        "P": f"{type_}*0.00390625{lowest:+}",
        "C": f"{type_}*0.0078125{middle:+}",
        "V": "7",
        "R": "f",
        **(_CASTS if type_ == "u8" else {}),
    }


def _floating(type_: str, suffix: str) -> dict[str, str]:
    tensor = type_ + "{}"
    constants = {"W": "#" + tensor, "Z": "#" + tensor, "V": "2.5" + suffix, "R": suffix}
    return {**dict.fromkeys("TBASDPC", tensor), **constants, **_CASTS}


WORDS: Mapping[OperandCode, Mapping[str, str]] = {
    OperandCode.TENSOR_FLOAT32: _floating("f32", "f"),
    OperandCode.TENSOR_FLOAT16: _floating("f16", "h"),
    OperandCode.TENSOR_INT32: {"T": "i32{}", **_CASTS},
    OperandCode.TENSOR_BOOL8: {"T": "b8{}"},
    OperandCode.TENSOR_QUANT8_ASYMM: _quantised("u8", 117, 0),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: _quantised("i8", -13, -128),
    OperandCode.TENSOR_QUANT8_SYMM: {"T": "s8{}*0.02"},
    OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL: {"T": "pc3{}"},
    OperandCode.TENSOR_QUANT16_SYMM: {
        "T": "i16{}*0.125",
        "W": "#i8{}*0.02+0",
        "Z": "#i32{}",
        "P": "i16*0.000030517578125",
        "C": "i16*0.000030517578125",
        "R": "f",
    },
    OperandCode.TENSOR_QUANT16_ASYMM: {"T": "u16{}*0.125", "B": "u16{}*0.125", "D": "i8{}*0.02+0"},
    OperandCode.FLOAT32: {"T": "f32", "V": "2.5f"},
    OperandCode.FLOAT16: {"T": "f16", "V": "2.5h"},
    OperandCode.INT32: {"T": "i32", "V": "2"},
}
"""By the leading type: that of boxes (B), anchors (A), scores from 0 to 1 (S), small changes to boxes (D), weights (W)
and their biases (Z), of results from 0 to 1 (P) and from -1 to 1 (C), a number of the type (V), and what a real number
ends in (R); F and Q stand where numbers can be cast to other types. A row with a letter that its leading type does not
have is left out."""

LETTER = re.compile(r"(?<![A-Za-z0-9_])(?P<letter>[A-Z])(?![A-Z_0-9])(?P<shape>\[[0-9,]*\])?")
"""A letter, and a shape behind it."""


def fits(template: str, leading: OperandCode) -> bool:
    """Whether a leading type has all letters of a template."""
    return {match["letter"] for match in LETTER.finditer(template)} <= WORDS[leading].keys()


def on_all_types(names: Sequence[str]) -> Iterator[tuple[KnownCode, OperandCode]]:
    """Operations of these names, the extension's too, with their leading types."""
    for name in names:
        for code in dict.fromkeys((code_of(name), ExtendedOperationCode.__members__.get(name, code_of(name)))):
            yield from ((code, leading) for leading in registry.lookup(code).types)


def filled(template: str, leading: OperandCode) -> str:
    """The row of text for a leading type."""
    words = WORDS[leading]

    def word(match: re.Match[str]) -> str:
        return words[match["letter"]].format(match["shape"] or "")

    text = re.sub(r"(?<=[0-9])R\b", lambda _: words["R"], template)
    return LETTER.sub(word, text)
