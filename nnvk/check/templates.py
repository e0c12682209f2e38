"""Rows of text (`nnvk.check.model_rows`) with a capital letter for whatever depends on the leading type.

``T`` is that type itself; the others are in `WORDS`. `derived` makes a template of an operation's signature, for the
operations that no table has a row for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nnvk.check.model_rows import TYPES, code_of, name_of
from nnvk.ops import registry
from nnvk.ops.quant import is_quantised
from nnvk.ops.signature import Param
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode
from nnvk.types.operand import Shape

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
    OperandCode.TENSOR_INT32: {"T": "i32{}", "R": "f", **_CASTS},
    OperandCode.TENSOR_BOOL8: {"T": "b8{}", "R": "f"},
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
    OperandCode.TENSOR_QUANT16_ASYMM: {"T": "u16{}*0.125", "B": "u16{}*0.125", "D": "i8{}*0.02+0", "R": "f"},
    OperandCode.FLOAT32: {"T": "f32", "V": "2.5f"},
    OperandCode.FLOAT16: {"T": "f16", "V": "2.5h"},
    OperandCode.INT32: {"T": "i32", "V": "2"},
}
"""The types that each letter stands for, by the leading type: boxes (B), anchors (A), scores from 0 to 1 (S), small
changes to boxes (D), weights (W) and their biases (Z), results from 0 to 1 (P) and from -1 to 1 (C), a number of the
type (V), and the suffix of a real number (R). F and Q stand where numbers can be cast to other types. A row with a
letter that its leading type lacks is left out.
"""

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


def filled(code: KnownCode, template: str, leading: OperandCode) -> str:
    """The row of text of an operation for a leading type."""
    words = WORDS[leading]

    def word(match: re.Match[str]) -> str:
        return words[match["letter"]].format(match["shape"] or "")

    text = LETTER.sub(word, re.sub(r"(?<=[0-9])R\b", lambda _: words["R"], template))
    return f"{name_of(code, text)} {text}"


# --- templates by signature ----------------------------------------------------------------------------------

_REALS = frozenset({OperandCode.FLOAT32, OperandCode.FLOAT16})
_NAMES = {code: name for name, code in TYPES.items()}


def derived(code: KnownCode, shape: Shape) -> str | None:
    """The template of an operation by its first signature, without the last parameters that may be left out.

    All tensors have this shape, as far as their ranks allow, an integer is 1 and a real number 1.0. None if a type
    follows from the leading one in another way than these words can say.
    """
    definition = registry.lookup(code)
    params = list(definition.signatures[0].params)
    while params and params[-1].optional and not params[-1].listed:
        params.pop()
    words = [_word(code, param, shape) for param in params]
    outputs = [_output(code, param) for param in definition.outputs]
    is_like_first = outputs == ["T"] and (words[0] or "").startswith("T")
    found = words if is_like_first else [*words, "->", *outputs]
    return None if None in found else " ".join(filter(None, found))


def _accepted(code: KnownCode, param: Param) -> frozenset[OperandCode] | None:
    """The types of a parameter with any leading type; None where it has the leading type itself."""
    accepted = {leading: param.accepts(leading) for leading in registry.lookup(code).types}
    if all(leading in codes for leading, codes in accepted.items()):
        return None
    return frozenset().union(*accepted.values())


def _word(code: KnownCode, param: Param, shape: Shape) -> str | None:
    if param.optional and param.default is None:
        return "none"
    accepted = _accepted(code, param)
    least, most = param.rank or (0, len(shape))
    sizes = (*(1,) * (least - len(shape)), *shape[max(0, len(shape) - most) :])
    text = f"[{','.join(map(str, sizes))}]"
    if accepted is None:
        return f"T{text}"
    if accepted <= _REALS:
        return "1.0R"
    if accepted == {OperandCode.INT32}:
        return "NONE" if param.name == "activation" else "1"
    if accepted == {OperandCode.BOOL}:
        return "false"
    name = _single(accepted)
    return None if name is None else f"{name}{text}"


def _output(code: KnownCode, param: Param) -> str | None:
    accepted = _accepted(code, param)
    return "T" if accepted is None else _single(accepted)


def _single(accepted: frozenset[OperandCode]) -> str | None:
    """The name of the only type; None if there are several, or if it needs a scale."""
    (code, *others) = accepted
    return None if others or is_quantised(code) else _NAMES.get(code)
