"""Exact integers of up to 64 bits: one TENSOR_INT32 if they provably fit, otherwise two.

Results of INT64 and UINT32 have the operations of INT32 wherever bounds (`nnvk.importers.bounds`) say that no number
can leave 32 bits, as with shapes, indices and counts. Others become `Words`, which nnvk's extension computes with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from nnvk.importers import bounds
from nnvk.importers.bounds import INT32, INT64, Bounds, within
from nnvk.importers.decompositions.arithmetic import chosen, truncated_quotient
from nnvk.importers.decompositions.moving import packed
from nnvk.importers.emitter import BOOL8, F32, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.ops.extension.int64 import parted
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

Op = OperationCode
Extended = ExtendedOperationCode

UINT32: Bounds = (0, 2**32 - 1)
_CODES = {
    Op.ADD: Extended.ADD_INT64,
    Op.SUB: Extended.SUB_INT64,
    Op.MUL: Extended.MUL_INT64,
    Op.DIV: Extended.DIV_INT64,
}


@dataclass(slots=True, eq=False)
class Words:
    """Numbers of 64 bits: ``high * 2^32 + low``, where ``low`` counts from 0 to 2^32 - 1."""

    low: Value
    high: Value
    bounds: Bounds
    """The bounds of the numbers."""
    fitting: dict[bool, Value] = field(default_factory=dict)
    """The result of `narrowed`, which is computed once."""

    @property
    def shape(self) -> Shape:
        """All dimensions."""
        return self.low.shape


Number = Value | Words
"""A tensor of integers."""


Context = TypeVar("Context", bound=Emitter)
Result = TypeVar("Result")


def exactly_or_checked(
    c: Context, rule: Callable[[Context], Result | None] | None, mapper: Callable[[Context], Result], may_leave: bool
) -> Result:
    """The result of the rule for numbers of 64 bits, or else of the mapper, which computes in 32 bits.

    If the mapper's numbers ``may_leave`` 32 bits, an execution in which one does ends with OP_FAILED.
    """
    exact = None if rule is None else rule(c)
    if exact is not None:
        return exact
    before = c.graph.is_checked
    c.graph.is_checked = may_leave
    try:
        return mapper(c)
    finally:
        c.graph.is_checked = before


def constant(c: Emitter, array: np.ndarray) -> Number:
    """Constant signed numbers of at most 64 bits."""
    known = bounds.of_array(array)
    if within(known, INT32):
        return c.constant(array, I32)
    if not within(known, INT64):
        raise Unmapped(f"whole numbers must fit into 64 bits with a sign, got {known[0]} to {known[1]}")
    words = parted(np.atleast_1d(array.astype(np.int64)))
    return Words(c.constant(words[0], I32), c.constant(words[1], I32), known)


def narrowed(c: Emitter, number: Number, *, is_unsigned: bool = False) -> Value:
    """The numbers as TENSOR_INT32. An execution in which one does not fit ends with OP_FAILED.

    ``is_unsigned``: those below 0 do not fit either.
    """
    least = 0 if is_unsigned else INT32[0]
    if within(number.bounds, (least, INT32[1])):
        return low(number)
    if isinstance(number, Words):
        if is_unsigned not in number.fitting:
            number.fitting[is_unsigned] = _narrowed(c, number, least)
        return number.fitting[is_unsigned]
    value = number
    return value.once(("narrowed", least), lambda: _narrowed(c, value, least))


def _narrowed(c: Emitter, number: Number, least: int) -> Value:
    return bounded(c.emit(Extended.INT64_TO_INT32, *_words(number), least == 0, out=I32), (least, INT32[1]))


def wide(c: Emitter, number: Number) -> Words:
    """The numbers as two words."""
    if isinstance(number, Words):
        return number
    return Words(number, _high_word(c, number), number.bounds)


def _high_word(c: Emitter, low: Value) -> Value:
    """The high word that follows from the low word's sign: 0, or -1 for negative numbers."""
    return low.once("high word", lambda: _made_high_word(c, low))


def _made_high_word(c: Emitter, low: Value) -> Value:
    if low.bounds[0] >= 0:
        return c.filled(0, I32, low.shape)
    below = c.emit(Op.MINIMUM, low, c.constant(0, I32), out=I32)
    return c.emit(Op.MAXIMUM, below, c.constant(-1, I32), out=I32)


def low(number: Number) -> Value:
    """The numbers wrapped to INT32."""
    return number.low if isinstance(number, Words) else number


def bounded(value: Value, known: Bounds) -> Value:
    """The tensor, whose numbers lie within bounds that its operation does not tell."""
    value.known = max(known[0], value.bounds[0]), min(known[1], value.bounds[1])
    return value


def settled(words: Words) -> Number:
    """The numbers as one word if their bounds allow it."""
    if not within(words.bounds, INT32):
        return words
    return bounded(words.low, words.bounds)


def unsigned(c: Emitter, number: Number) -> Number:
    """The numbers wrapped to UINT32."""
    if within(number.bounds, UINT32):
        return number
    return Words(low(number), c.filled(0, I32, number.shape), UINT32)


def moved(c: Emitter, move: Callable[..., Value], *numbers: Number) -> Number:
    """Apply ``move``, which only puts elements elsewhere, to each word of the numbers."""
    values = [one for one in numbers if isinstance(one, Value)]
    if len(values) == len(numbers):
        return move(*values)
    words = [wide(c, one) for one in numbers]
    both = move(*(one.low for one in words)), move(*(one.high for one in words))
    return Words(*both, bounds.union(*(one.bounds for one in words)))


# --- arithmetic ----------------------------------------------------------------------------------------------


def combined(c: Emitter, code: OperationCode, first: Number, second: Number) -> Number:
    """ADD, SUB, MUL or DIV (which rounds towards 0) of numbers that broadcast; beyond 64 bits they come round."""
    known = bounds.PAIRS[code](first.bounds, second.bounds)
    if isinstance(first, Value) and isinstance(second, Value) and within(known, INT32):
        if code is Op.DIV:
            return bounded(truncated_quotient(c, first, second), known)
        return c.emit(code, first, second, NONE, out=I32)
    words = _paired(c, _CODES[code], first, second, 2)
    return settled(Words(words[0], words[1], known if within(known, INT64) else INT64))


def _paired(c: Emitter, code: Extended, first: Number, second: Number, results: int) -> list[Value]:
    """An operation of the extension on two numbers that broadcast."""
    return c.emit_many(code, *_words(first), *_words(second), outs=[I32] * results)


def _words(number: Number) -> tuple[Value, Value | None]:
    """Both words. The high word is None if it follows from the low one."""
    return (number.low, number.high) if isinstance(number, Words) else (number, None)


def negated(c: Emitter, number: Number) -> Number:
    """The negated numbers."""
    if isinstance(number, Value) and number.bounds[0] > INT32[0]:
        return c.emit(Op.NEG, number, out=I32)
    return combined(c, Op.SUB, c.constant(0, I32), number)


def magnitude(c: Emitter, number: Number) -> Number:
    """The absolute values of the numbers."""
    if isinstance(number, Value) and number.bounds[0] > INT32[0]:
        return c.emit(Op.ABS, number, out=I32)
    found = extreme(c, Op.MAXIMUM, number, negated(c, number))
    known = bounds.magnitude(number.bounds)
    return Words(found.low, found.high, known) if isinstance(found, Words) and within(known, INT64) else found


def floor_quotient(c: Emitter, first: Number, second: Number) -> Number:
    """The quotients, rounded down."""
    known = bounds.quotient(first.bounds, second.bounds)
    if isinstance(first, Value) and isinstance(second, Value) and within(known, INT32):
        return bounded(c.emit(Op.DIV, first, second, NONE, out=I32), known)
    whole = combined(c, Op.DIV, first, second)
    rest = remainder(c, first, second, is_floored=False)
    signs = c.emit(Op.MUL, _sign(c, rest), _sign(c, second), NONE, out=I32)
    less = c.as_number(c.emit(Op.LESS, signs, c.constant(0, I32), out=BOOL8), I32)
    return combined(c, Op.SUB, whole, less)


def remainder(c: Emitter, first: Number, second: Number, *, is_floored: bool) -> Number:
    """The remainder of a division whose quotient is rounded towards 0, or down (``is_floored``)."""
    whole = combined(c, Op.DIV, first, second)
    if isinstance(first, Value) or isinstance(second, Value):  # in 32 bits it comes round to what fits
        rest: Number = c.emit(Op.MUL, low(whole), low(second), NONE, out=I32)
        rest = c.emit(Op.SUB, low(first), low(rest), NONE, out=I32)
    else:
        rest = combined(c, Op.SUB, first, combined(c, Op.MUL, whole, second))
    if not is_floored:
        return rest
    signs = c.emit(Op.MUL, _sign(c, rest), _sign(c, second), NONE, out=I32)
    turned = c.emit(Op.LESS, signs, c.constant(0, I32), out=BOOL8)
    moved_up = combined(c, Op.ADD, rest, second)  # of numbers with different signs
    found = selected(c, turned, moved_up, rest)
    return low(found) if isinstance(second, Value) else found  # it is nearer to 0 than the divisor


def _sign(c: Emitter, number: Number) -> Value:
    return order(c, number, c.constant(0, I32))


# --- comparison and choice -----------------------------------------------------------------------------------


def compared(c: Emitter, code: OperationCode, first: Number, second: Number) -> Value:
    """Whether EQUAL, GREATER or the like holds."""
    if isinstance(first, Value) and isinstance(second, Value):
        return c.emit(code, first, second, out=BOOL8)
    return c.emit(code, order(c, first, second), c.constant(0, I32), out=BOOL8)


def order(c: Emitter, first: Number, second: Number) -> Value:
    """1 where the first number is larger, -1 where it is smaller, 0 where both are the same."""
    return _paired(c, Extended.COMPARE_INT64, first, second, 1)[0]


def selected(c: Emitter, condition: Value, first: Number, second: Number) -> Number:
    """``first`` where a condition is true, ``second`` elsewhere; all three broadcast."""
    return moved(c, lambda one, other: chosen(c, condition, one, other), first, second)


def extreme(c: Emitter, code: OperationCode, first: Number, second: Number) -> Number:
    """MAXIMUM or MINIMUM of numbers that broadcast."""
    if isinstance(first, Value) and isinstance(second, Value):
        return c.emit(code, first, second, out=I32)
    is_first = compared(c, Op.GREATER if code is Op.MAXIMUM else Op.LESS, first, second)
    found = selected(c, is_first, first, second)
    assert isinstance(found, Words)
    return settled(Words(found.low, found.high, bounds.PAIRS[code](first.bounds, second.bounds)))


# --- other types ---------------------------------------------------------------------------------------------


def from_real(c: Emitter, value: Value) -> Number:
    """Truncate float32 numbers to INT64. Numbers out of range become the lowest number."""
    low, high = c.emit_many(Extended.FLOAT_TO_INT64, value, outs=[I32, I32])
    return Words(low, high, INT64)


def real(c: Emitter, number: Number) -> Value:
    """The numbers rounded to float32."""
    if isinstance(number, Value):
        return c.emit(Op.CAST, number, out=F32)
    return c.emit(Extended.INT64_TO_FLOAT, number.low, number.high, out=F32)


def is_true(c: Emitter, number: Number) -> Value:
    """A boolean tensor: whether each number is not 0."""
    return compared(c, Op.NOT_EQUAL, number, c.constant(0, I32))


def together(c: Emitter, words: Words) -> Value:
    """Both words of each number beside each other, along a last dimension of 2, as INT64 lies in memory."""
    return packed(c, [words.low, words.high], len(words.shape))
