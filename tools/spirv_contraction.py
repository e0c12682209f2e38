"""SPIR-V whose floating-point arithmetic is decorated with NoContraction.

GLSL's `precise` reaches neither into functions nor past them. A compiler may therefore contract or reassociate what a
shader computes in a function, differently in each shader that the function is inlined in, so that two shaders would
give different bits for the same expression. `forbid_contraction` decorates every instruction instead, what
`fma` makes too: a shader that wants one rounding says so by `fma`. SPIR-V specification, 3.20, NoContraction; extended
instructions for GLSL, Fma.
"""

from __future__ import annotations

from array import array

_HEADER_WORDS = 5
_DECORATE, _NO_CONTRACTION = 71, 42
_EXT_INST, _FMA = 12, 50
_TYPES = range(19, 40)  # decorations come before the first type
_ARITHMETIC = frozenset({127, 129, 131, 133, 136, 140, 141, 142, 143, 144, 145, 146, 147, 148})
"""FNegate, FAdd, FSub, FMul, FDiv, FRem, FMod, and the products of vectors and matrices: 3.42.13."""


def forbid_contraction(spirv: bytes) -> bytes:
    """The module with NoContraction on every floating-point arithmetic instruction and every `fma`.

    The module has no other set of extended instructions than GLSL.std.450, as glslang makes it.
    """
    module = array("I", spirv)
    first_type = 0
    decorated, arithmetic = set(), []
    at = _HEADER_WORDS
    while at < len(module):
        length, opcode = module[at] >> 16, module[at] & 0xFFFF
        if opcode == _DECORATE and module[at + 2] == _NO_CONTRACTION:
            decorated.add(module[at + 1])
        elif opcode in _TYPES and not first_type:
            first_type = at
        elif opcode in _ARITHMETIC or (opcode == _EXT_INST and module[at + 4] == _FMA):
            arithmetic.append(module[at + 2])
        at += length
    decorations = array("I")
    for result in arithmetic:
        if result not in decorated:
            decorations.extend((3 << 16 | _DECORATE, result, _NO_CONTRACTION))
    return (module[:first_type] + decorations + module[first_type:]).tobytes()
