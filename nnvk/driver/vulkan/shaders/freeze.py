"""SPIR-V with its specialisation constants frozen and folded.

Drivers get modules with plain constants. Some drivers neither unroll loops whose bounds follow from specialisation
constants nor keep arrays of such sizes in registers (SwiftShader takes up to ten times as long), and every driver has
less to compile. The module does the same as ``spirv-opt --set-spec-const-default-value --freeze-spec-const
--fold-spec-const-op-composite``, for the constants that glslang emits for nnvk's shaders: 32 bits and truth values.
SPIR-V specification, sections 2.3 and 3.32.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence

_HEADER_WORDS = 5
_DECORATE, _SPEC_ID = 71, 1
_TYPE_BOOL = 20
_TRUE, _FALSE, _CONSTANT, _COMPOSITE, _NULL = 41, 42, 43, 44, 46
_SPEC_TRUE, _SPEC_FALSE, _SPEC_CONSTANT, _SPEC_COMPOSITE, _SPEC_OP = 48, 49, 50, 51, 52
_COMPOSITE_EXTRACT = 81

Words = Sequence[int]


def _signed(word: int) -> int:
    return word - (1 << 32) if word & 0x80000000 else word


def _towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# Instructions on constants by opcode, on unsigned words; a result is cut to 32 bits, truth values are 0 and 1.
_FOLD: Mapping[int, Callable[..., int]] = {
    124: lambda a: a,  # Bitcast
    126: lambda a: -a,  # SNegate
    128: lambda a, b: a + b,  # IAdd
    130: lambda a, b: a - b,  # ISub
    132: lambda a, b: a * b,  # IMul
    134: lambda a, b: a // b,  # UDiv
    135: lambda a, b: _towards_zero(_signed(a), _signed(b)),  # SDiv
    137: lambda a, b: a % b,  # UMod
    138: lambda a, b: _signed(a) - _towards_zero(_signed(a), _signed(b)) * _signed(b),  # SRem
    139: lambda a, b: _signed(a) % _signed(b),  # SMod
    164: lambda a, b: a == b,  # LogicalEqual
    165: lambda a, b: a != b,  # LogicalNotEqual
    166: lambda a, b: a or b,  # LogicalOr
    167: lambda a, b: a and b,  # LogicalAnd
    168: lambda a: not a,  # LogicalNot
    169: lambda condition, a, b: a if condition else b,  # Select
    170: lambda a, b: a == b,  # IEqual
    171: lambda a, b: a != b,  # INotEqual
    172: lambda a, b: a > b,  # UGreaterThan
    173: lambda a, b: _signed(a) > _signed(b),  # SGreaterThan
    174: lambda a, b: a >= b,  # UGreaterThanEqual
    175: lambda a, b: _signed(a) >= _signed(b),  # SGreaterThanEqual
    176: lambda a, b: a < b,  # ULessThan
    177: lambda a, b: _signed(a) < _signed(b),  # SLessThan
    178: lambda a, b: a <= b,  # ULessThanEqual
    179: lambda a, b: _signed(a) <= _signed(b),  # SLessThanEqual
    194: lambda a, b: a >> (b & 31),  # ShiftRightLogical
    195: lambda a, b: _signed(a) >> (b & 31),  # ShiftRightArithmetic
    196: lambda a, b: a << (b & 31),  # ShiftLeftLogical
    197: lambda a, b: a | b,  # BitwiseOr
    198: lambda a, b: a ^ b,  # BitwiseXor
    199: lambda a, b: a & b,  # BitwiseAnd
    200: lambda a: ~a,  # Not
}


def freeze(spirv: bytes, specialization: Words) -> bytes:
    """The module with the 32-bit value ``specialization[i]`` instead of the specialisation constant with id i.

    Instructions on these constants are folded too if their operands are words and truth values. Other instructions
    remain, with frozen constants.
    """
    module = array("I", spirv)
    frozen = array("I", module[:_HEADER_WORDS])
    spec_ids: dict[int, int] = {}
    bools: set[int] = set()
    words: dict[int, int] = {}
    composites: dict[int, Words] = {}
    at = _HEADER_WORDS
    while at < len(module):
        length, opcode = module[at] >> 16, module[at] & 0xFFFF
        instruction = module[at : at + length]
        at += length
        if opcode == _DECORATE and instruction[2] == _SPEC_ID:
            spec_ids[instruction[1]] = instruction[3]
            continue
        if opcode == _TYPE_BOOL:
            bools.add(instruction[1])
        elif opcode in (_TRUE, _FALSE, _CONSTANT, _NULL) and length <= 4:
            words[instruction[2]] = instruction[3] if opcode == _CONSTANT else int(opcode == _TRUE)
        elif opcode in (_SPEC_TRUE, _SPEC_FALSE, _SPEC_CONSTANT):
            default = instruction[3] if opcode == _SPEC_CONSTANT else int(opcode == _SPEC_TRUE)
            spec_id = spec_ids.get(instruction[2])
            value = default if spec_id is None or spec_id >= len(specialization) else specialization[spec_id]
            instruction = _constant(instruction, value, bools, words)
        elif opcode in (_COMPOSITE, _SPEC_COMPOSITE):
            composites[instruction[2]] = instruction[3:]
            instruction[0] = length << 16 | _COMPOSITE
        elif opcode == _SPEC_OP:
            result = _folded(instruction[3], instruction[4:], words, composites)
            if result is not None:
                instruction = _constant(instruction, result, bools, words)
        frozen.extend(instruction)
    return frozen.tobytes()


def _constant(instruction: Words, value: int, bools: set[int], words: dict[int, int]) -> array[int]:
    """OpConstant, OpConstantTrue or OpConstantFalse with the type and id of an instruction."""
    type_, result = instruction[1], instruction[2]
    words[result] = int(bool(value)) if type_ in bools else value & 0xFFFFFFFF
    if type_ in bools:
        return array("I", (3 << 16 | (_TRUE if value else _FALSE), type_, result))
    return array("I", (4 << 16 | _CONSTANT, type_, result, words[result]))


def _folded(opcode: int, operands: Words, words: Mapping[int, int], composites: Mapping[int, Words]) -> int | None:
    """The result of an OpSpecConstantOp; None where it has unknown words, or is not defined."""
    if opcode == _COMPOSITE_EXTRACT and len(operands) == 2 and operands[0] in composites:
        return words.get(composites[operands[0]][operands[1]])
    fold = _FOLD.get(opcode)
    if fold is None or any(operand not in words for operand in operands):
        return None
    try:
        return int(fold(*(words[operand] for operand in operands)))
    except ZeroDivisionError:  # undefined, in what is not reached
        return None
