"""Between which numbers results lie: never outside, and at both ends of what can come out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nnvk.importers import bounds
from nnvk.importers.budget import Budget
from nnvk.importers.emitter import BOOL8, F32, I32, NONE, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Graph, Value
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import ExtendedOperationCode as Extended
from nnvk.types.extension import KnownCode
from nnvk.types.operand import OperandType

INTERVALS = [(low, high) for low in range(-4, 5) for high in range(low, 5)]


def quotients(first: int, second: int) -> list[int]:
    """Rounded down, and towards 0."""
    return [first // second, int(first / second)] if second else [0]


FUNCTIONS = {
    Op.ADD: lambda first, second: [first + second],
    Op.SUB: lambda first, second: [first - second],
    Op.MUL: lambda first, second: [first * second],
    Op.DIV: quotients,
    Op.MAXIMUM: lambda first, second: [max(first, second)],
    Op.MINIMUM: lambda first, second: [min(first, second)],
}


@pytest.mark.parametrize("code", FUNCTIONS)
def test_pairs(code: Op) -> None:
    for first, second in itertools.product(INTERVALS, INTERVALS):
        pairs = itertools.product(range(first[0], first[1] + 1), range(second[0], second[1] + 1))
        found = [number for pair in pairs for number in FUNCTIONS[code](*pair)]
        given = bounds.PAIRS[code](first, second)
        assert bounds.within((min(found), max(found)), given), (first, second)
        if code is not Op.DIV:
            assert given == (min(found), max(found))


@pytest.mark.parametrize(("code", "function"), [(Op.ABS, abs), (Op.NEG, lambda number: -number)])
def test_single_numbers(code: Op, function) -> None:
    for interval in INTERVALS:
        found = [function(number) for number in range(interval[0], interval[1] + 1)]
        assert bounds.SINGLE[code](interval) == (min(found), max(found))


@pytest.fixture
def c() -> Emitter:
    return Emitter(Graph(Budget(1 << 20), relaxed=False))


def whole(c: Emitter, *shape: int, known: bounds.Bounds | None = None) -> Value:
    return c.graph.input(I32.with_dimensions(shape), known)


def test_inputs_and_constants(c: Emitter) -> None:
    assert whole(c, 3).bounds == bounds.INT32
    assert whole(c, 3, known=(0, 255)).bounds == (0, 255)
    assert c.constant(np.array([3, -7, 5]), I32).bounds == (-7, 5)
    assert c.reshape(whole(c, 2, 3, known=(1, 2)), (6,)).bounds == (1, 2)


def test_operations(c: Emitter) -> None:
    x = whole(c, 2, 3, known=(-5, 9))
    total = c.emit(Op.ADD, x, c.constant(100, I32), NONE, out=I32)
    assert total.bounds == (95, 109)
    assert c.emit(Op.MUL, total, total, NONE, out=I32).bounds == (9025, 11881)
    assert c.emit(Op.PACK, 0, x, total, out=I32).bounds == (-5, 109)
    assert c.emit(Op.GATHER, x, 1, np.array([0, 2]), out=I32).bounds == (-5, 9)
    assert c.emit(Op.ARGMAX, x, 1, out=I32).bounds == (0, 6)
    best, places = c.emit_many(Op.TOPK_V2, c.graph.input(F32.with_dimensions((2, 5))), 2, outs=[F32, I32])
    assert (best.known, places.bounds) == (None, (0, 5))
    is_large = c.emit(Op.GREATER, x, c.constant(2, I32), out=BOOL8)
    assert c.as_number(is_large, I32).bounds == (0, 1)


def test_what_leaves_32_bits_comes_round(c: Emitter) -> None:
    x = whole(c, 2, known=(0, 2**31 - 1))
    assert c.emit(Op.ADD, x, c.constant(1, I32), NONE, out=I32).bounds == bounds.INT32
    assert c.emit(Op.CAST, c.graph.input(F32.with_dimensions((2,))), out=I32).bounds == bounds.INT32


def test_a_constant_that_does_not_fit_is_refused(c: Emitter) -> None:
    with pytest.raises(Unmapped, match="whole numbers must fit into 32 bits, got 4294967297 to 4294967297"):
        c.constant(np.array([2**32 + 1]), I32)


# --- every operation -----------------------------------------------------------------------------------------

ALL, A, B = bounds.INT32, (-5, 9), (2, 7)
FLOATS, WORDS = F32.with_dimensions((2, 6)), I32.with_dimensions((2, 6))
BYTES = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (2, 6), 1.0)
SIGNED = OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (2, 6), 1.0)
RESULTS: dict[str, tuple[KnownCode, list[bounds.Bounds | None], list[OperandType], list[bounds.Bounds]]] = {
    "positions": (Op.ARGMAX, [A], [WORDS], [(0, 12)]),
    "positions of the least": (Op.ARGMIN, [None], [FLOATS], [(0, 12)]),
    "whole numbers that are cast": (Op.CAST, [A], [WORDS], [A]),
    "real numbers that are cast": (Op.CAST, [None], [FLOATS], [ALL]),
    "bytes that are cast": (Op.CAST, [None], [BYTES], [(0, 255)]),
    "signed bytes that are cast": (Op.CAST, [None], [SIGNED], [ALL]),
    "the largest": (Op.TOPK_V2, [A], [WORDS], [A, (0, 6)]),
    "the largest of real numbers": (Op.TOPK_V2, [None], [FLOATS], [ALL, (0, 6)]),
    "elements that are moved": (Op.SLICE, [A, B, B], [WORDS], [A]),
    "parts": (Op.SPLIT, [A], [WORDS], [A, A, A]),
    "elements that are moved of nothing known": (Op.SLICE, [None], [FLOATS], [ALL]),
    "elements that are joined": (Op.PACK, [None, A, B], [WORDS], [(-5, 9)]),
    "elements that are joined along an axis": (Op.CONCATENATION, [A, B, None], [WORDS], [(-5, 9)]),
    "a choice": (Op.SELECT, [None, B, A], [WORDS], [(-5, 9)]),
    "a choice of which one is not known": (Op.SELECT, [None, B, None], [WORDS], [ALL]),
    "a sum": (Op.ADD, [A, B, None], [WORDS], [(-3, 16)]),
    "a sum of which one is not known": (Op.ADD, [A, None, None], [WORDS], [ALL]),
    "a sum of which the first is not known": (Op.ADD, [None, B, None], [WORDS], [ALL]),
    "a sum that comes round": (Op.ADD, [(0, 2**31 - 1), (0, 1), None], [WORDS], [ALL]),
    "a sum up to the largest": (Op.ADD, [(0, 2**31 - 2), (0, 1), None], [WORDS], [(0, 2**31 - 1)]),
    "a difference down to the least": (Op.SUB, [(-(2**31) + 1, 0), (0, 1), None], [WORDS], [(-(2**31), 0)]),
    "a difference that comes round": (Op.SUB, [(-(2**31), 0), (0, 1), None], [WORDS], [ALL]),
    "a magnitude": (Op.ABS, [A], [WORDS], [(0, 9)]),
    "a negation of nothing known": (Op.NEG, [None], [WORDS], [ALL]),
    "a comparison of numbers of 64 bits": (Extended.COMPARE_INT64, [A, B], [WORDS], [(-1, 1)]),
    "others": (Op.REDUCE_SUM, [A], [WORDS], [ALL]),
    "several others": (Op.UNIDIRECTIONAL_SEQUENCE_RNN, [], [FLOATS], [ALL, ALL]),
}


@pytest.mark.parametrize("what", RESULTS)
def test_results(what: str) -> None:
    code, inputs, operands, found = RESULTS[what]
    assert bounds.of_results(code, inputs, operands, len(found)) == found


def test_the_words() -> None:
    for found, dtype in ((bounds.INT32, np.int32), (bounds.INT64, np.int64)):
        assert found == bounds.of_dtype(np.dtype(dtype)) == (np.iinfo(dtype).min, np.iinfo(dtype).max)


@pytest.mark.parametrize(
    ("inner", "is_within"), [(B, True), ((2, 8), False), ((1, 7), False), ((3, 6), True), ((7, 7), True)]
)
def test_within(inner: bounds.Bounds, is_within: bool) -> None:
    assert bounds.within(inner, B) is is_within


def test_arrays_and_unions() -> None:
    assert bounds.of_array(np.array([3, -7])) == (-7, 3)
    assert bounds.of_array(np.array([], np.int32)) == (0, 0)
    assert bounds.union(A, B, (-6, -6)) == (-6, 9)
