"""Enumerations have the header's numbers."""

from __future__ import annotations

from enum import IntEnum

import pytest

from nnvk.types import codes
from nnvk.types.codes import (
    DeviceTypeCode,
    DurationCode,
    FeatureLevelCode,
    FuseCode,
    OperandCode,
    OperationCode,
    PaddingCode,
    PreferenceCode,
    PriorityCode,
    ResultCode,
)

NUMBERS: list[tuple[type[IntEnum], list[int]]] = [
    (OperandCode, list(range(16))),
    (OperationCode, list(range(106))),
    (FuseCode, [0, 1, 2, 3]),
    (PaddingCode, [1, 2]),
    (PreferenceCode, [0, 1, 2]),
    (PriorityCode, [90, 100, 110]),
    (DeviceTypeCode, [0, 1, 2, 3, 4]),
    (DurationCode, [0, 1, 2, 3]),
    (ResultCode, list(range(15))),
    (FeatureLevelCode, [27, 28, 29, 30, 31, 1000006, 1000007, 1000008]),
]


@pytest.mark.parametrize(("enumeration", "numbers"), NUMBERS, ids=lambda value: getattr(value, "__name__", ""))
def test_numbers(enumeration: type[IntEnum], numbers: list[int]) -> None:
    assert [int(member) for member in enumeration] == numbers


@pytest.mark.parametrize(
    ("member", "number"),
    [
        (OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, 14),
        (OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, 11),
        (OperationCode.CONV_2D, 3),
        (OperationCode.TRANSPOSE, 37),
        (OperationCode.UNIDIRECTIONAL_SEQUENCE_RNN, 93),
        (OperationCode.REVERSE, 105),
        (ResultCode.OUTPUT_INSUFFICIENT_SIZE, 8),
        (ResultCode.DEAD_OBJECT, 14),
        (FuseCode.RELU6, 3),
        (PaddingCode.SAME, 1),
    ],
)
def test_some_numbers(member: IntEnum, number: int) -> None:
    assert member == number


def test_constants() -> None:
    assert codes.MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES == 128
    assert codes.BYTE_SIZE_OF_CACHE_TOKEN == 32
