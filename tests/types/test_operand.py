"""Operand types: what they take, what they refuse, what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperandCode
from nnvk.types.operand import SCALAR_CODES, ChannelQuant, OperandType, dtype_of

F32 = OperandCode.TENSOR_FLOAT32
Q8 = OperandCode.TENSOR_QUANT8_ASYMM
CHANNELS = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL


def test_numbers_of_the_header_are_taken() -> None:
    type_ = OperandType(5, [np.int64(2), True, 3], 0.5, 7)  # type: ignore[arg-type]
    assert type_ == OperandType(Q8, (2, 1, 3), 0.5, 7)
    assert type_.code is Q8
    assert all(type(size) is int for size in type_.dimensions)
    assert hash(type_) == hash(OperandType(Q8, (2, 1, 3), 0.5, 7))


@pytest.mark.parametrize("code", [16, -1, 2**70])
def test_codes_that_are_none(code: Any) -> None:
    with pytest.raises(NnapiError, match="no operand code") as caught:
        OperandType(code)
    assert caught.value.code is ResultCode.BAD_DATA


@pytest.mark.parametrize(
    "parts",
    [
        (None,),
        (3.0,),
        (F32, (1.5,)),
        (F32, ("2",)),
        (F32, 4),
        (F32, None),
        (Q8, (2,), None),
        (Q8, (2,), "0.5"),
        (Q8, (2,), 0.5, 1.5),
        (Q8, (2,), 0.5, None),
        (CHANNELS, (2,), 0.0, 0, [0.5, 0.5]),
    ],
    ids=str,
)
def test_what_is_no_number(parts: Any) -> None:
    with pytest.raises(TypeError, match="must be a"):
        OperandType(*parts)


def test_dimensions_may_be_an_array() -> None:
    assert OperandType(F32, np.array([2, 3])) == OperandType(F32, (2, 3))  # type: ignore[arg-type]
    assert OperandType(Q8, (2,), np.float32(0.5), np.int8(3)) == OperandType(Q8, (2,), 0.5, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("type_", "specified", "size"),
    [
        (OperandType(F32, (2, 3)), True, 24),
        (OperandType(F32, (2, 0)), False, 0),
        (OperandType(F32, ()), False, 0),
        (OperandType(OperandCode.FLOAT16), True, 2),
        (OperandType(OperandCode.BOOL), True, 1),
        (OperandType(Q8, (5,), 1.0), True, 5),
        (OperandType(OperandCode.TENSOR_QUANT16_SYMM, (5,), 1.0), True, 10),
    ],
    ids=str,
)
def test_sizes(type_: OperandType, specified: bool, size: int) -> None:
    assert type_.is_fully_specified == specified
    assert type_.size == size


def test_every_code_but_model_has_a_dtype() -> None:
    for code in OperandCode:
        if code is OperandCode.MODEL:
            with pytest.raises(NnapiError, match="MODEL"):
                dtype_of(code)
        else:
            assert dtype_of(code).itemsize in (1, 2, 4)
        assert OperandType(code).is_tensor == (code not in SCALAR_CODES and code is not OperandCode.MODEL)


@pytest.mark.parametrize(
    "type_",
    [
        OperandType(F32),
        OperandType(F32, (0, 3)),
        OperandType(F32, (2**16, 2**13)),
        OperandType(OperandCode.MODEL),
        OperandType(OperandCode.TENSOR_INT32, (3,), 0.25),
        OperandType(Q8, (3,), 0.25, 255),
        OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (3,), 0.25, -128),
        OperandType(OperandCode.TENSOR_QUANT16_ASYMM, (3,), 0.25, 65535),
        OperandType(CHANNELS, (3, 2)),
    ],
    ids=str,
)
def test_types_that_are_good(type_: OperandType) -> None:
    type_.check("operand 0")


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        (OperandType(F32, (-1,)), "from 0 to"),
        (OperandType(F32, (2**32,)), "from 0 to"),
        (OperandType(F32, (2**16, 2**14)), "4 GiB"),
        (OperandType(F32, (0, 2**16, 2**14)), "4 GiB"),
        (OperandType(OperandCode.INT32, (1,)), "scalar"),
        (OperandType(OperandCode.MODEL, (1,)), "dimensions"),
        (OperandType(F32, (1,), 0.5), "can't have a scale"),
        (OperandType(OperandCode.BOOL, (), 0.5), "can't have a scale"),
        (OperandType(CHANNELS, (1,), 0.5), "can't have a scale"),
        (OperandType(Q8, (1,)), "positive scale"),
        (OperandType(OperandCode.TENSOR_QUANT16_SYMM, (1,)), "positive scale"),
        (OperandType(Q8, (1,), -0.5), "not negative"),
        (OperandType(Q8, (1,), float("inf")), "finite"),
        (OperandType(Q8, (1,), float("nan")), "finite"),
        (OperandType(Q8, (1,), 0.5, -1), r"\[0, 255\]"),
        (OperandType(Q8, (1,), 0.5, 256), r"\[0, 255\]"),
        (OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (1,), 0.5, 128), r"\[-128, 127\]"),
        (OperandType(OperandCode.TENSOR_QUANT16_ASYMM, (1,), 0.5, 65536), r"\[0, 65535\]"),
        (OperandType(OperandCode.TENSOR_QUANT8_SYMM, (1,), 0.5, 1), r"\[0, 0\]"),
        (OperandType(F32, (1,), 0.0, 1), r"\[0, 0\]"),
        (OperandType(OperandCode.TENSOR_INT32, (1,), 0.5, 1), r"\[0, 0\]"),
    ],
    ids=str,
)
def test_types_that_contradict_themselves(type_: OperandType, reason: str) -> None:
    with pytest.raises(NnapiError, match=reason) as caught:
        type_.check("operand 7")
    assert caught.value.code is ResultCode.BAD_DATA
    assert caught.value.reason.startswith("operand 7")


def test_scales_of_channels() -> None:
    OperandType(CHANNELS, (3, 2), channel_quant=ChannelQuant((1.0, 2.0), 1)).check_channels("operand 0")
    OperandType(F32, (3,)).check_channels("operand 0")
    for type_ in (
        OperandType(CHANNELS, (3, 2)),
        OperandType(CHANNELS, (3, 2), channel_quant=ChannelQuant((1.0, 2.0), 0)),
        OperandType(CHANNELS, (3, 2), channel_quant=ChannelQuant((1.0, 2.0), 2)),
        OperandType(CHANNELS, (3, 2), channel_quant=ChannelQuant((1.0, 2.0), -1)),
        OperandType(CHANNELS, (3, 2), channel_quant=ChannelQuant((1.0, 0.0), 1)),
        OperandType(CHANNELS, (3, 2), channel_quant=ChannelQuant((1.0, float("inf")), 1)),
        OperandType(F32, (3,), channel_quant=ChannelQuant((1.0,) * 3, 0)),
    ):
        with pytest.raises(NnapiError, match="operand 0") as caught:
            type_.check_channels("operand 0")
        assert caught.value.code is ResultCode.BAD_DATA


def test_other_dimensions_are_all_that_changes() -> None:
    quant = ChannelQuant((1.0, 2.0), 1)
    type_ = OperandType(CHANNELS, (0, 2), channel_quant=quant).with_dimensions([3, 2])
    assert type_ == OperandType(CHANNELS, (3, 2), channel_quant=quant)
    assert OperandType(Q8, (), 0.5, 3).with_dimensions((4,)) == OperandType(Q8, (4,), 0.5, 3)


def test_how_a_type_is_shown() -> None:
    assert str(OperandType(F32, (2, 3))) == "TENSOR_FLOAT32[2, 3]"
    assert str(OperandType(OperandCode.INT32)) == "INT32"
    assert str(OperandType(Q8, (4,), 0.5, 3)) == "TENSOR_QUANT8_ASYMM[4] scale 0.5 zero point 3"
