"""The parts of SPIR-V that the transformations of modules share: instructions, operands, and integer arithmetic.

SPIR-V specification, sections 2.3 (layout of a module) and 3.52 (instructions).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

HEADER_WORDS = 5
BOUND = 3
"""The word of the header that is greater than all ids."""

NAME, EXT_INST, ENTRY_POINT, EXECUTION_MODE, CAPABILITY = 5, 12, 15, 16, 17
TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_POINTER = 20, 21, 22, 32
TRUE, FALSE, CONSTANT, COMPOSITE, NULL = 41, 42, 43, 44, 46
SPEC_TRUE, SPEC_FALSE, SPEC_CONSTANT, SPEC_COMPOSITE, SPEC_OP = 48, 49, 50, 51, 52
FUNCTION, FUNCTION_PARAMETER, FUNCTION_END, FUNCTION_CALL = 54, 55, 56, 57
VARIABLE, LOAD, STORE = 59, 61, 62
DECORATE, COMPOSITE_EXTRACT = 71, 81
LOGICAL_OR, LOGICAL_AND, LOGICAL_NOT = 166, 167, 168
PHI, LOOP_MERGE, SELECTION_MERGE, LABEL = 245, 246, 247, 248
BRANCH, BRANCH_CONDITIONAL, SWITCH, UNREACHABLE = 249, 250, 251, 255


def instructions(
    module: array[int], start: int = HEADER_WORDS, stop: int | None = None
) -> Iterator[tuple[int, int, int]]:
    """The instructions of a module: the first word's index, the opcode, and the index behind the last word.

    ``start`` and ``stop``: the words between which they lie; the whole module by default.
    """
    at, stop = start, len(module) if stop is None else stop
    while at < stop:
        end = at + (module[at] >> 16)
        yield at, module[at] & 0xFFFF, end
        at = end


def _signed(word: int) -> int:
    return word - (1 << 32) if word & 0x80000000 else word


def _towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


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
    LOGICAL_OR: lambda a, b: a or b,
    LOGICAL_AND: lambda a, b: a and b,
    LOGICAL_NOT: lambda a: not a,
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
FOLDED = frozenset(_FOLD)
"""Opcodes that `fold` computes."""


def fold(opcode: int, operands: Sequence[int]) -> int | None:
    """The result of an instruction on 32-bit words and truth values (0 and 1), not yet cut to 32 bits.

    The result is None if `FOLDED` lacks the opcode, and for a division by zero, which SPIR-V leaves undefined.
    """
    function = _FOLD.get(opcode)
    if function is None:
        return None
    try:
        return int(function(*operands))
    except ZeroDivisionError:
        return None


# Instructions of functions, by their operands. All operands of _ALL_IDS are ids.
_ALL_IDS = frozenset(
    {
        *(FUNCTION_CALL, 65, 66, 77, 78, 80, 83, 84, 100),  # calls, access chains, vectors, composites, OpImage
        *range(109, 117),  # conversions
        *(124, *range(126, 153), *range(154, 158), *range(164, 192), *range(194, 206)),  # arithmetic
        *(227, *range(229, 243), PHI),  # atomics
        *(345, 346, 347, 348, 365, 366),  # shuffles
    }
)
_OPERANDS: Mapping[int, Callable[[int], Sequence[int]]] = {
    # The words that are ids behind the type and the result, by the number of words.
    FUNCTION: lambda length: (),  # control and type
    FUNCTION_PARAMETER: lambda length: (),
    VARIABLE: lambda length: (),  # the storage class; an initial value is a global constant
    EXT_INST: lambda length: range(5, length),  # the set is global, the instruction a literal
    79: lambda length: (3, 4),  # VectorShuffle: literals
    COMPOSITE_EXTRACT: lambda length: (3,),  # literals
    82: lambda length: (3, 4),  # CompositeInsert: literals
    95: lambda length: (3, 4, *range(6, length)),  # ImageFetch: a mask
    **dict.fromkeys(range(4450, 4453), lambda length: (3, 4)),  # dot products: the format is a literal
    **dict.fromkeys(range(4453, 4456), lambda length: (3, 4, 5)),
}
_WITHOUT_RESULT: Mapping[int, Callable[[int], Sequence[int]]] = {
    FUNCTION_END: lambda length: (),
    STORE: lambda length: (1, 2),
    224: lambda length: (1, 2, 3),  # ControlBarrier
    225: lambda length: (1, 2),  # MemoryBarrier
    228: lambda length: (1, 2, 3, 4),  # AtomicStore
    LOOP_MERGE: lambda length: (1, 2),  # literals
    SELECTION_MERGE: lambda length: (1,),  # literals
    BRANCH: lambda length: (1,),
    BRANCH_CONDITIONAL: lambda length: (1, 2, 3),  # weights are literals
    SWITCH: lambda length: (1, 2, *range(4, length, 2)),  # cases are literals of 32 bits
    253: lambda length: (),  # Return
    254: lambda length: (1,),  # ReturnValue
    UNREACHABLE: lambda length: (),
}


def has_result_type(opcode: int) -> bool:
    """Whether the instruction of a function has the words of a type and a result before its operands."""
    return opcode != LABEL and opcode not in _WITHOUT_RESULT


def id_operands(opcode: int, length: int) -> Sequence[int] | None:
    """The words of an instruction of a function that are ids, without its type and result.

    Ids of an extended instruction set and of initial values are left out, because they are global. The result is None
    if the operands of the instruction are not known.
    """
    if opcode in _ALL_IDS:
        return range(3, length)
    if opcode == LOAD:
        return (3,) if length == 4 else None  # memory operands may be ids
    if opcode == STORE and length != 3:
        return None
    if opcode == LABEL:
        return ()
    operands = _OPERANDS.get(opcode) or _WITHOUT_RESULT.get(opcode)
    return None if operands is None else operands(length)
