"""Extents: code gives the same results on them as on numbers, and a trace gives those of other numbers, or None."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from nnvk.base.extents import Computed, Extent, Trace, applied, computed, has_extents, hint, identity, unique


def code(n: Any, m: Any) -> list[Any]:
    """Planning does this with sizes: products, quotients rounded up, remainders, maxima, reciprocals, floats."""
    groups = -(-n * m // 64)
    found = [n, groups, n * 4 // 4, n * m % 7, max(n, m), min(n, 16), divmod(n, 3)[1], abs(m - n), n << 2, (n | 1) & 7]
    found += [2**32 // max(m, 1), n.bit_length() - 1, n / m * 2.5, 100 - n, n // n, sum([n, m, 0])]
    found.append(n + 1 if n % 4 == 0 else m - 1)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_a_trace_gives_what_code_gives_for_other_numbers(seed: int) -> None:
    draw = random.Random(seed)
    trace, base = Trace(), (draw.randrange(1, 90), draw.randrange(1, 90))
    results = code(*map(trace.symbol, base))
    assert [one.value if isinstance(one, Extent) else one for one in results] == code(*base)
    extents = [one for one in results if isinstance(one, Extent)]
    evaluate, met = trace.function(extents), 0
    assert evaluate(base) is not None
    for _ in range(300):
        other = draw.randrange(1, 90), draw.randrange(1, 90)
        numbers = evaluate(other)
        if numbers is not None:
            met += 1
            given = iter(numbers)
            assert [next(given) if isinstance(one, Extent) else one for one in results] == code(*other), other
    assert met


NEEDS_IT: dict[str, Callable[[Any], object]] = {
    "index": lambda n: list(range(10))[n],
    "range": lambda n: list(range(n)),
    "int": int,
    "float": float,
    "hash": lambda n: {n: 1},
    "text": str,
    "format": lambda n: f"{n:3d}",
    "array": lambda n: np.zeros(n),
}


@pytest.mark.parametrize("name", NEEDS_IT)
def test_code_that_needs_the_number_fixes_it(name: str) -> None:
    trace = Trace()
    n = trace.symbol(5)
    NEEDS_IT[name](n)
    evaluate = trace.function([n])
    assert evaluate([5]) == (5,)
    assert evaluate([6]) is None
    assert trace.fixed


def test_comparisons_are_guards() -> None:
    trace = Trace()
    n = trace.symbol(5)
    assert n > 4 and n != 6 and n < 7 and bool(n)
    evaluate = trace.function([n * 2])
    assert [evaluate([number]) for number in (4, 5, 6, 7)] == [None, (10,), None, None]


def test_what_is_the_same_for_all_numbers_is_no_guard() -> None:
    trace = Trace()
    n = trace.symbol(5)
    assert (n * 3, n * 1, n + 0, n * 8 // 8) == (n * 3, n, n, n)
    assert n * 0 == 0
    assert not trace.guards


def test_numpy_numbers_are_numbers() -> None:
    trace = Trace()
    n = trace.symbol(5)
    products = np.int64(3) * n, n * np.int32(3)
    assert products[0] is products[1]
    assert trace.function(products[:1])([7]) == (21,)


def test_a_trace_that_has_ended_can_not_be_asked() -> None:
    trace = Trace()
    n = trace.symbol(5)
    assert n > 1
    trace.function([n])
    for ask in (int, lambda one: one > 1, lambda one: one + 1):
        with pytest.raises(RuntimeError, match="after its trace has ended"):
            ask(n)


@dataclass(frozen=True)
class Pair:
    one: Any
    other: Any


def test_hints_and_keys() -> None:
    trace = Trace()
    n, m = trace.symbol(5, hint=50), trace.symbol(5)
    assert hint(Pair((n * 2, 1), "text")) == Pair((100, 1), "text")
    plain = Pair((1, 2), 0.5)
    assert hint(plain) is plain
    assert identity((n, 1.0)) == identity((n, 1.0)) != identity((m, 1.0))
    assert identity(0.0) != identity(-0.0)
    assert identity(Pair(n, 1)) != identity(Pair(m, 1))
    assert unique([n, n * 1, 3, m, 3]) == [n, 3, m]
    assert has_extents([1, n]) and not has_extents([1, 2])
    assert not [guard for guard in trace.guards if "50" in guard]


def test_functions_of_numbers_to_come() -> None:
    trace = Trace()
    n = trace.symbol(16)
    assert applied(math.isqrt, 9) == 3
    root: Any = applied(math.isqrt, n)
    assert trace.function([root])([81]) == (9,)
    assert computed(operator.add, 1, 2) == 3
    later = computed("{}-{}".format, (1, 2), n)
    assert isinstance(later, Computed)
    assert hint(later) == "(1, 2)-16"
