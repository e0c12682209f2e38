"""Exact integers of up to 64 bits, computed from constants at import: Python's numbers, and bounds that hold them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emitted import elements, emitter

from nnvk.importers import bounds
from nnvk.importers.decompositions import int64
from nnvk.importers.decompositions.cumulative import cumulative_exactly
from nnvk.importers.decompositions.int64 import Number, Words
from nnvk.importers.decompositions.reductions import folded_exactly
from nnvk.importers.emitter import BOOL8, F32, I32, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.types.codes import OperationCode as Op

SMALL = np.array([-7, -3, -1, 1, 2, 5, 0])
ENDS = np.array([-(2**31), -(2**31) + 1, -2, 3, 2**31 - 1, 0])
WIDE = np.array([-(2**62), -(2**40) - 3, -(2**31) - 1, -5, 7, 2**31, 2**33 + 1, 3 * 2**60])
KINDS = {"small": SMALL, "ends": ENDS, "wide": WIDE}
PAIRS = list(itertools.product(KINDS, KINDS))


@pytest.fixture
def c() -> Emitter:
    return emitter()


def numbers_of(c: Emitter, *numbers: Number) -> list[np.ndarray]:
    """The numbers."""
    pairs = [int64.wide(c, number) for number in numbers]
    flat = iter(elements(c, *(word for pair in pairs for word in (pair.low, pair.high))))
    found = []
    for low, high in zip(flat, flat, strict=True):
        found.append((high.astype(np.int64) << 32) + (low.astype(np.int64) & 0xFFFFFFFF))
    return found


def value_of(c: Emitter, number: Number) -> np.ndarray:
    (found,) = numbers_of(c, number)
    return found


def wrapped(number: int) -> int:
    """A number in 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


def pair_of(
    c: Emitter, first: str, second: str, zeros: bool = True
) -> tuple[Number, Number, list[list[int]], list[int]]:
    """A column and a row of numbers, and Python's ones."""
    one, other = KINDS[first], KINDS[second]
    other = other if zeros else other[other != 0]
    numbers = int64.constant(c, one.reshape(-1, 1)), int64.constant(c, other.reshape(1, -1))
    return *numbers, [[int(each)] * len(other) for each in one], [int(each) for each in other]


def check(c: Emitter, found: Number, wanted: list[list[int]], known: bounds.Bounds | None = None) -> None:
    """The elements are these, which the bounds hold."""
    np.testing.assert_array_equal(value_of(c, found), np.array(wanted, np.int64))
    low, high = found.bounds
    assert low <= min(map(min, wanted)) and max(map(max, wanted)) <= high
    assert isinstance(found, Words) or bounds.within(found.bounds, bounds.INT32)
    if known is not None and not (isinstance(found, Value) and found.is_constant):
        assert found.bounds == known


def towards_0(first: int, second: int) -> int:
    return abs(first) // abs(second) * (1 if (first < 0) == (second < 0) else -1)


ARITHMETIC: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda one, other: one + other,
    Op.SUB: lambda one, other: one - other,
    Op.MUL: lambda one, other: one * other,
    Op.DIV: towards_0,
}


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("code", ARITHMETIC)
def test_arithmetic(c: Emitter, code: Op, first: str, second: str) -> None:
    """Results that may leave 64 bits have the bounds of 64 bits; those that fit into 32 bits are one word."""
    one, other, rows, columns = pair_of(c, first, second, zeros=code is not Op.DIV)
    wanted = [
        [wrapped(ARITHMETIC[code](left, right)) for left, right in zip(row, columns, strict=True)] for row in rows
    ]
    exact = bounds.PAIRS[code](one.bounds, other.bounds)
    found = int64.combined(c, code, one, other)
    check(c, found, wanted, exact if bounds.within(exact, bounds.INT64) else bounds.INT64)
    assert isinstance(found, Value) == bounds.within(exact, bounds.INT32)


BOUNDS = {"few": (-7, 5), "positive": (3, 9), "all": bounds.INT32, "wide": (-(2**40), 2**33), "widest": bounds.INT64}


def free(c: Emitter, known: bounds.Bounds) -> Number:
    """Numbers that the model gets."""
    words = [c.graph.input(I32.with_dimensions((3,))) for _ in range(2)]
    return int64.bounded(words[0], known) if bounds.within(known, bounds.INT32) else Words(*words, known)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(BOUNDS, BOUNDS)))
def test_bounds_of_pairs(c: Emitter, first: str, second: str) -> None:
    one, other = free(c, BOUNDS[first]), free(c, BOUNDS[second])
    for code in (*ARITHMETIC, Op.MAXIMUM, Op.MINIMUM):
        exact = bounds.PAIRS[code](one.bounds, other.bounds)
        found = int64.combined(c, code, one, other) if code in ARITHMETIC else int64.extreme(c, code, one, other)
        assert found.bounds == (exact if bounds.within(exact, bounds.INT64) else bounds.INT64), code
        assert isinstance(found, Value) == bounds.within(exact, bounds.INT32), code
    quotient = int64.floor_quotient(c, one, other)
    if isinstance(one, Value) and isinstance(other, Value) and isinstance(quotient, Value):
        assert quotient.bounds == bounds.quotient(one.bounds, other.bounds)
    exact = bounds.magnitude(one.bounds)
    assert int64.magnitude(c, one).bounds == (exact if bounds.within(exact, bounds.INT64) else bounds.INT64)


DIVIDED: dict[str, Callable[[int, int], int]] = {
    "quotient": lambda left, right: left // right,
    "remainder": lambda left, right: left - towards_0(left, right) * right,
    "floored remainder": lambda left, right: left % right,
}


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("name", DIVIDED)
def test_division(c: Emitter, name: str, first: str, second: str) -> None:
    one, other, rows, columns = pair_of(c, first, second, zeros=False)
    if name == "quotient":
        found = int64.floor_quotient(c, one, other)
    else:
        found = int64.remainder(c, one, other, is_floored=name != "remainder")
    if name == "floored remainder":
        assert isinstance(found, Value) or second == "wide"  # it is nearer to 0 than the divisor
    rule = DIVIDED[name]
    check(c, found, [[rule(left, right) for left, right in zip(row, columns, strict=True)] for row in rows])


COMPARED: dict[Op, Callable[[int, int], bool]] = {
    Op.EQUAL: lambda one, other: one == other,
    Op.NOT_EQUAL: lambda one, other: one != other,
    Op.LESS: lambda one, other: one < other,
    Op.LESS_EQUAL: lambda one, other: one <= other,
    Op.GREATER: lambda one, other: one > other,
    Op.GREATER_EQUAL: lambda one, other: one >= other,
}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_comparison(c: Emitter, first: str, second: str) -> None:
    one, other, rows, columns = pair_of(c, first, second)
    found = [int64.compared(c, code, one, other) for code in COMPARED]
    *flags, signs = elements(c, *found, int64.order(c, one, other))
    for array, rule in zip(flags, COMPARED.values(), strict=True):
        assert array.tolist() == [[rule(left, right) for left, right in zip(row, columns, strict=True)] for row in rows]
    wanted = [[(left > right) - (left < right) for left, right in zip(row, columns, strict=True)] for row in rows]
    assert signs.tolist() == wanted


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize(("code", "rule"), [(Op.MAXIMUM, max), (Op.MINIMUM, min)])
def test_extremes(c: Emitter, code: Op, rule: Callable[[int, int], int], first: str, second: str) -> None:
    one, other, rows, columns = pair_of(c, first, second)
    wanted = [[rule(left, right) for left, right in zip(row, columns, strict=True)] for row in rows]
    check(c, int64.extreme(c, code, one, other), wanted, bounds.PAIRS[code](one.bounds, other.bounds))


@pytest.mark.parametrize("kind", KINDS)
def test_choices(c: Emitter, kind: str) -> None:
    one, other = int64.constant(c, KINDS[kind][np.newaxis]), int64.constant(c, np.array([[2**50]]))
    flags = np.arange(len(KINDS[kind])) % 3 == 0
    found = int64.selected(c, c.constant(flags, BOOL8), one, other)
    check(c, found, [np.where(flags, KINDS[kind], 2**50).tolist()], bounds.union(one.bounds, other.bounds))


@pytest.mark.parametrize("kind", KINDS)
def test_single_numbers(c: Emitter, kind: str) -> None:
    number, numbers = int64.constant(c, KINDS[kind]), KINDS[kind].tolist()
    negated, magnitude, wide = int64.negated(c, number), int64.magnitude(c, number), int64.wide(c, number)
    assert [one.bounds for one in (negated, magnitude, wide)] == [
        (-number.bounds[1], -number.bounds[0]),
        bounds.magnitude(number.bounds),
        number.bounds,
    ]
    pairs = [int64.wide(c, one) for one in (negated, magnitude, number)]
    words = [word for pair in pairs for word in (pair.low, pair.high)]
    others = [int64.is_true(c, number), int64.real(c, number), int64.low(number), int64.together(c, wide)]
    found = elements(c, *words, *others)
    for (low, high), wanted in zip(
        zip(found[0:6:2], found[1:6:2], strict=True), (-KINDS[kind], abs(KINDS[kind]), KINDS[kind]), strict=True
    ):
        np.testing.assert_array_equal((high.astype(np.int64) << 32) + (low.astype(np.int64) & 0xFFFFFFFF), wanted)
    flags, real, low, both = found[6:]
    assert flags.tolist() == [one != 0 for one in numbers]
    np.testing.assert_array_equal(real, KINDS[kind].astype(np.float32))
    np.testing.assert_array_equal(low, KINDS[kind].astype(np.int32))
    np.testing.assert_array_equal(np.ascontiguousarray(both).view(np.int64).reshape(-1), KINDS[kind])


def test_the_lowest_number(c: Emitter) -> None:
    """It has no counterpart above 0 in 64 bits, and in 32 bits one that needs more."""
    lowest, small, above = (int64.constant(c, np.array([one])) for one in (-(2**63), -(2**31), -(2**31) + 1))
    found = [change(c, one) for one in (lowest, small, above) for change in (int64.negated, int64.magnitude)]
    numbers = numbers_of(c, *found)
    assert [int(one[0]) for one in numbers] == [-(2**63)] * 2 + [2**31] * 2 + [2**31 - 1] * 2
    assert [one.bounds for one in found[:2]] == [bounds.INT64] * 2
    assert [isinstance(one, Words) for one in found] == [True] * 4 + [False] * 2


def test_real_numbers(c: Emitter) -> None:
    real = np.array([0.75, -0.75, 3e9, -3e9, 2.0**62, -(2.0**63), 2.0**63, np.inf, np.nan], np.float32)
    found = int64.from_real(c, c.constant(real, F32))
    lowest = -(2**63)
    wanted = [0, 0, 3 * 10**9, -3 * 10**9, 2**62, lowest, lowest, lowest, lowest]
    assert value_of(c, found).tolist() == wanted
    assert found.bounds == bounds.INT64


# --- the types of results --------------------------------------------------------------------------------------------


def test_constants(c: Emitter) -> None:
    assert isinstance(int64.constant(c, np.array([2**31 - 1, -(2**31)])), Value)
    assert isinstance(int64.constant(c, np.array([2**31])), Words)
    assert isinstance(int64.constant(c, np.array([2**63 - 1], np.uint64)), Words)
    with pytest.raises(Unmapped) as raised:
        int64.constant(c, np.array([3, 2**63], np.uint64))
    assert str(raised.value) == "whole numbers must fit into 64 bits with a sign, got 3 to 9223372036854775808"


@pytest.mark.parametrize("is_unsigned", [False, True])
def test_numbers_that_are_narrowed(c: Emitter, is_unsigned: bool) -> None:
    """Numbers that fit by their bounds stay; others are checked once when the model runs."""
    least = 0 if is_unsigned else -(2**31)
    fitting = int64.bounded(c.graph.input(I32.with_dimensions((3,))), (0, 5))
    assert int64.narrowed(c, fitting, is_unsigned=is_unsigned) is fitting
    for low, high in ((-1, 5), (-(2**31), 2**31 - 1)):
        value = int64.bounded(c.graph.input(I32.with_dimensions((3,))), (low, high))
        found = int64.narrowed(c, value, is_unsigned=is_unsigned)
        assert (found is value) != is_unsigned
        assert found is int64.narrowed(c, value, is_unsigned=is_unsigned)
        assert found.bounds == ((0, 2**31 - 1) if is_unsigned else (low, high))
    for known in (bounds.INT64, (-5, 2**31), (0, 2**32)):
        words = Words(*(c.graph.input(I32.with_dimensions((3,))) for _ in range(2)), known)
        found = int64.narrowed(c, words, is_unsigned=is_unsigned)
        assert found is int64.narrowed(c, words, is_unsigned=is_unsigned)
        assert found.bounds == (least, 2**31 - 1)
        assert found is not int64.narrowed(c, words, is_unsigned=not is_unsigned)
    small = Words(*(c.graph.input(I32.with_dimensions((3,))) for _ in range(2)), (1, 7))
    assert int64.narrowed(c, small, is_unsigned=is_unsigned) is small.low


def test_numbers_are_signed_unless_they_are_said_not_to_be(c: Emitter) -> None:
    value = int64.bounded(c.graph.input(I32.with_dimensions((3,))), (-1, 5))
    assert int64.narrowed(c, value) is value


@pytest.mark.parametrize(
    ("known", "is_same"), [((0, 2**32 - 1), True), ((-1, 5), False), ((0, 2**32), False), ((3, 4), True)]
)
def test_numbers_without_a_sign(c: Emitter, known: bounds.Bounds, is_same: bool) -> None:
    words = Words(*(c.graph.input(I32.with_dimensions((3,))) for _ in range(2)), known)
    found = int64.unsigned(c, words)
    assert (found is words) == is_same
    assert found.bounds == (known if is_same else (0, 2**32 - 1))
    assert isinstance(found, Words) and found.low is words.low


@pytest.mark.parametrize(("known", "is_one"), [((-(2**31), 2**31 - 1), True), ((0, 2**31), False), ((-5, 5), True)])
def test_words_that_are_settled(c: Emitter, known: bounds.Bounds, is_one: bool) -> None:
    words = Words(*(c.graph.input(I32.with_dimensions((3,))) for _ in range(2)), known)
    found = int64.settled(words)
    assert found is (words.low if is_one else words)
    assert found.bounds == known


def test_bounds_only_narrow(c: Emitter) -> None:
    value = c.graph.input(I32.with_dimensions((3,)), (-5, 9))
    assert int64.bounded(value, (-7, 4)).bounds == (-5, 4)
    assert int64.bounded(value, (-2, 20)).bounds == (-2, 4)


@pytest.mark.parametrize("known", [(0, 9), (-1, 9)])
def test_high_words(c: Emitter, known: bounds.Bounds) -> None:
    """Those of numbers from 0 up are constants, and all are made once."""
    value = c.graph.input(I32.with_dimensions((3,)), known)
    high = int64.wide(c, value).high
    assert high is int64.wide(c, value).high
    assert high.is_constant == (known[0] == 0)


@pytest.mark.parametrize("may_leave", [False, True])
@pytest.mark.parametrize("exact", [None, 5])
def test_the_rule_or_the_mapper(c: Emitter, exact: int | None, may_leave: bool) -> None:
    """Only what the mapper adds is checked, and not beyond it."""
    checked: list[bool] = []

    def mapper(c: Emitter) -> int:
        checked.append(c.graph.is_checked)
        return 7

    for rule in (lambda c: exact, None):
        found = int64.exactly_or_checked(c, rule, mapper, may_leave)
        assert found == (5 if rule is not None and exact else 7)
        assert not c.graph.is_checked
    assert checked == [may_leave] * (1 if exact else 2)


# --- along axes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("axes", [[0], [1], [0, 1], []], ids=str)
@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (Op.REDUCE_SUM, np.sum),
        (Op.REDUCE_PROD, np.prod),
        (Op.REDUCE_MAX, np.max),
        (Op.REDUCE_MIN, np.min),
        (Op.MEAN, None),
    ],
)
@pytest.mark.parametrize("factor", [1, 2**34])
def test_reductions(c: Emitter, factor: int, code: Op, rule: Any, axes: list[int], size: int) -> None:
    numbers = np.random.default_rng(size).integers(-3, 4, (size, 3)) * factor
    if code is Op.REDUCE_PROD:
        numbers = np.where(numbers == 0, 1, np.sign(numbers)) * (factor if size == 1 else 1)
    found = folded_exactly(c, code, int64.constant(c, numbers), axes)
    if rule is None:
        count = math.prod(numbers.shape[axis] for axis in axes)
        total = numbers.sum(axis=tuple(axes), keepdims=True) if axes else numbers
        wanted = np.sign(total) * (np.abs(total) // count)
    else:
        wanted = rule(numbers, axis=tuple(axes), keepdims=True) if axes else numbers
    np.testing.assert_array_equal(value_of(c, found), wanted)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("factor", [1, 2**20, 2**40])
def test_cumulative(c: Emitter, factor: int, axis: int, exclusive: bool, reverse: bool) -> None:
    numbers = np.random.default_rng(0).integers(1, 4, (5, 3)) * factor
    turned = np.flip(numbers, axis) if reverse else numbers
    wanted = np.cumsum(turned, axis)
    if exclusive:
        first = np.zeros_like(np.take(wanted, [0], axis))
        wanted = np.concatenate([first, np.take(wanted, range(wanted.shape[axis] - 1), axis)], axis)
    wanted = np.flip(wanted, axis) if reverse else wanted
    found = cumulative_exactly(c, int64.constant(c, numbers), axis, exclusive=exclusive, reverse=reverse)
    np.testing.assert_array_equal(value_of(c, found), wanted)
