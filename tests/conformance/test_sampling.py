"""Samples of conformance vectors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from sampling import sample

from nnvk.conformance.vectors import Case

COUNTS = {"CONV_2D": 40, "SOFTMAX": 5, "SIN": 1, "WHILE": 14}


@pytest.fixture
def cases() -> list[Case]:
    return [
        Case(f"V1_2/{operation.lower()}/{number}", Path(f"{operation}.json"), number, operation)
        for operation, count in COUNTS.items()
        for number in range(count)
    ]


def drawn(cases: list[Case], count: int) -> Counter[str]:
    return Counter(case.operation for case in sample(cases, count))


def test_operations_take_turns(cases: list[Case]) -> None:
    assert drawn(cases, 4) == dict.fromkeys(COUNTS, 1)
    assert drawn(cases, 10) == {"CONV_2D": 3, "SOFTMAX": 3, "SIN": 1, "WHILE": 3}
    assert drawn(cases, 30) == {"CONV_2D": 12, "SOFTMAX": 5, "SIN": 1, "WHILE": 12}
    assert drawn(cases, 60) == COUNTS


def test_a_sample_is_in_the_order_of_names_and_has_no_vector_twice(cases: list[Case]) -> None:
    names = [case.name for case in sample(cases, 30)]
    assert names == sorted(set(names))


def test_the_order_of_vectors_does_not_matter(cases: list[Case]) -> None:
    assert sample(cases[::-1], 30) == sample(cases, 30)


def test_the_sample_stays_the_same_from_version_to_version(cases: list[Case]) -> None:
    names = ["conv_2d/3", "conv_2d/33", "sin/0", "softmax/3", "while/8", "while/9"]
    assert [case.name for case in sample(cases, 6)] == [f"V1_2/{name}" for name in names]


def test_vectors_of_a_new_operation_replace_none_of_a_smaller_sample(cases: list[Case]) -> None:
    more = [*cases, Case("V1_0/abs/0", Path("abs.json"), 0, "ABS")]
    assert [case for case in sample(more, 5) if case.operation != "ABS"] == sample(cases, 4)


@pytest.mark.parametrize("count", [0, 3, 61])
def test_sizes_that_no_sample_can_have(cases: list[Case], count: int) -> None:
    with pytest.raises(ValueError, match=rf"must have 4 \(one for each operation\) to 60 vectors, got {count}"):
        sample(cases, count)
