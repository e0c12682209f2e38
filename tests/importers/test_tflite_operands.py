"""Tensors of a file as NNAPI's operands: types, scales and zero points, and the elements of constants."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from nnvk import NnapiError, OperandCode, OperandType
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.finished import is_alike, port
from nnvk.importers.tflite.operands import constant, has_offset, operand_type
from nnvk.importers.tflite.schema import Tensor
from nnvk.importers.tflite.sparse import Level, Sparsity
from nnvk.types.operand import ChannelQuant

FIRST_ROW = Sparsity((0, 1), (), (Level(2), Level(0, (np.array([0, 1, 1]), np.array([2])))))
"""One element of a matrix [2, 3], at [0, 2]."""


def tensor(type_: str = "FLOAT32", shape: tuple[int, ...] = (2, 3), data: Any = None, **fields: Any) -> Tensor:
    given = {
        **{"index": 0, "name": "x", "type": type_, "shape": shape, "is_static": True, "signature": shape},
        **{"channel_dim": 0, "is_variable": False, "sparsity": None},
        **{"data": None if data is None else np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)},
        **fields,
    }
    return Tensor(
        **given
        | {"scales": np.float32(fields.get("scales", [])), "zero_points": np.int64(fields.get("zero_points", []))}
    )


CODES = {
    "FLOAT32": OperandCode.TENSOR_FLOAT32,
    "FLOAT16": OperandCode.TENSOR_FLOAT16,
    "INT32": OperandCode.TENSOR_INT32,
    "INT64": OperandCode.TENSOR_INT32,
    "UINT8": OperandCode.TENSOR_QUANT8_ASYMM,
    "INT8": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    "INT4": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    "INT16": OperandCode.TENSOR_QUANT16_SYMM,
    "BOOL": OperandCode.TENSOR_BOOL8,
}
LEVELS = ("UINT8", "INT8", "INT4", "INT16")


@pytest.mark.parametrize("type_", CODES)
def test_types(type_: str) -> None:
    """Levels without a scale stand for themselves."""
    scale = 1.0 if type_ in LEVELS else 0.0
    assert operand_type(tensor(type_)) == OperandType(CODES[type_], (2, 3), scale)
    assert operand_type(tensor(type_, ())) == OperandType(CODES[type_], (1,), scale)


@pytest.mark.parametrize("type_", CODES)
def test_one_scale(type_: str) -> None:
    """Levels have one, and a bias; other numbers have none, whatever the file says."""
    scale = 0.5 if type_ in (*LEVELS, "INT32") else 0.0
    assert operand_type(tensor(type_, scales=[0.5], zero_points=[0])) == OperandType(CODES[type_], (2, 3), scale)


@pytest.mark.parametrize("type_", LEVELS)
def test_a_scale_of_0_is_none(type_: str) -> None:
    assert operand_type(tensor(type_, scales=[0.0])).scale == 1.0


@pytest.mark.parametrize(("type_", "low", "high"), [("UINT8", 0, 255), ("INT8", -128, 127)])
def test_zero_points(type_: str, low: int, high: int) -> None:
    for zero_point in (low, high):
        assert operand_type(tensor(type_, scales=[0.5], zero_points=[zero_point])).zero_point == zero_point
    for zero_point in (low - 1, high + 1):
        with pytest.raises(NnapiError, match=f"tensor 0 'x'.*zero point {zero_point} "):
            operand_type(tensor(type_, scales=[0.5], zero_points=[zero_point]))


@pytest.mark.parametrize("type_", [*LEVELS, "INT32"])
@pytest.mark.parametrize("scale", [-0.5, float("inf"), float("nan")])
def test_scales_that_are_none(scale: float, type_: str) -> None:
    with pytest.raises(Unmapped, match=f"^tensor 0 'x' must have a finite scale from 0 up, got {scale}$"):
        operand_type(tensor(type_, scales=[scale]))


@pytest.mark.parametrize("type_", ["FLOAT32", "FLOAT16", "INT64", "BOOL"])
def test_scales_that_do_not_count(type_: str) -> None:
    assert operand_type(tensor(type_, scales=[-0.5])).scale == 0.0


@pytest.mark.parametrize("scales", [[], [1.0, 2.0]])
def test_a_bias_with_a_scale_for_each_channel_has_none(scales: list[float]) -> None:
    assert operand_type(tensor("INT32", scales=scales)) == OperandType(OperandCode.TENSOR_INT32, (2, 3))


@pytest.mark.parametrize("type_", ["INT8", "INT4"])
@pytest.mark.parametrize("dim", [0, 1])
def test_scales_of_channels(type_: str, dim: int) -> None:
    scales = [0.5, 0.25, 1.0][: (2, 3)[dim]]
    found = operand_type(tensor(type_, scales=scales, channel_dim=dim, zero_points=[0] * len(scales)))
    wanted = ChannelQuant(tuple(scales), dim)
    assert found == OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (2, 3), channel_quant=wanted)


REFUSED: dict[str, tuple[Tensor, str]] = {
    "a type": (tensor("STRING"), "is of type STRING, which NNAPI does not have"),
    "a sparse input": (
        tensor(sparsity=FIRST_ROW),
        "is sparse and no constant of whole bytes, which NNAPI does not have",
    ),
    "sparse levels of 4 bits": (
        tensor("INT4", data=np.zeros(3, np.int8), sparsity=FIRST_ROW),
        "is sparse and no constant of whole bytes, which NNAPI does not have",
    ),
    "a complex constant": (
        tensor("COMPLEX64", (1,), np.zeros(1, np.complex64)),
        "is a constant of type COMPLEX64, which NNAPI does not have",
    ),
    **{
        f"scales of channels of {type_}": (
            tensor(type_, scales=[0.5, 0.25]),
            f"is {type_} with a scale per channel, NNAPI has that for INT8 only",
        )
        for type_ in ("UINT8", "INT16")
    },
    "zero points of channels": (
        tensor("INT8", scales=[0.5, 0.25], zero_points=[0, 1]),
        "has a scale per channel and zero points, NNAPI has that symmetric only",
    ),
    "a channel below 0": (
        tensor("INT8", scales=[0.5, 0.25], channel_dim=-2),
        "of shape [2, 3] has 2 scales along dimension -2",
    ),
    "a channel behind the last dimension": (
        tensor("INT8", scales=[0.5, 0.25], channel_dim=2),
        "of shape [2, 3] has 2 scales along dimension 2",
    ),
    "another number of channels": (
        tensor("INT8", scales=[0.5, 0.25], channel_dim=1),
        "of shape [2, 3] has 2 scales along dimension 1",
    ),
    **{
        f"a channel's scale of {scale}": (
            tensor("INT8", scales=[0.5, scale]),
            "must have positive, finite scales",
        )
        for scale in (0.0, -0.5, float("inf"), float("nan"))
    },
    **{
        f"an offset of INT16 that is {what}": (
            tensor("INT16", scales=[scale], zero_points=[3], **fields),
            "is of INT16 with a zero point, but no result, which NNAPI does not have",
        )
        for what, scale, fields in (
            ("variable", 0.5, {"is_variable": True}),
            ("constant", 0.5, {"data": np.zeros(6, np.int16)}),
            ("without a scale", 0.0, {}),
        )
    },
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    given, reason = REFUSED[what]
    with pytest.raises(Unmapped, match=f"^tensor 0 'x' {re.escape(reason)}$"):
        operand_type(given)


@pytest.mark.parametrize(
    ("type_", "scales", "zero_points", "is_one"),
    [
        ("INT16", [0.5], [3], True),
        ("INT16", [0.5], [0], False),
        ("INT16", [0.5], [], False),
        ("INT16", [], [3], False),
        ("INT16", [0.5, 0.5], [3, 3], False),
        ("INT8", [0.5], [3], False),
    ],
)
def test_levels_of_16_bits_with_an_offset(
    type_: str, scales: list[float], zero_points: list[int], is_one: bool
) -> None:
    given = tensor(type_, scales=scales, zero_points=zero_points)
    assert has_offset(given) is is_one
    if is_one:
        assert operand_type(given) == OperandType(OperandCode.TENSOR_INT32, (2, 3))


def test_complex_numbers_have_a_dimension_more() -> None:
    assert operand_type(tensor("COMPLEX64")) == OperandType(OperandCode.TENSOR_FLOAT32, (2, 3, 2))
    assert operand_type(tensor("COMPLEX64", ())) == OperandType(OperandCode.TENSOR_FLOAT32, (1, 2))


# --- constants -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "dtype"),
    [
        *(("FLOAT32", np.float32), ("FLOAT16", np.float16), ("INT32", np.int32), ("INT16", np.int16)),
        *(("INT8", np.int8), ("UINT8", np.uint8)),
    ],
)
def test_constants_are_views(type_: str, dtype: type) -> None:
    elements = np.arange(6, dtype=dtype).reshape(2, 3)
    given = tensor(type_, data=elements)
    found = constant(given)
    assert found.dtype == dtype and found.tolist() == elements.tolist()
    assert np.shares_memory(found, given.data)
    assert constant(tensor(type_, (), elements[:1, :1])).shape == (1,)


def test_constants_that_are_not_aligned_are_copied() -> None:
    data = np.frombuffer(b"\0" + np.arange(6, dtype=np.float32).tobytes(), np.uint8)[1:]
    given = tensor(data=np.zeros(6, np.float32))
    object.__setattr__(given, "data", data)
    found = constant(given)
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found.flags.aligned and not np.shares_memory(found, data)


def test_booleans_are_0_or_not() -> None:
    assert constant(tensor("BOOL", (3,), np.uint8([0, 1, 2]))).tolist() == [False, True, True]


@pytest.mark.parametrize("shape", [(4,), (3,), (1, 3)])
def test_levels_of_4_bits(shape: tuple[int, ...]) -> None:
    """The first of two in a byte is its low half."""
    found = constant(tensor("INT4", shape, np.uint8([0x8F, 0x72])))
    assert (found.dtype, found.shape) == (np.int8, shape)
    assert found.reshape(-1).tolist() == [-1, -8, 2, 7][: found.size]


@pytest.mark.parametrize(
    ("numbers", "fits"), [([2**31 - 1, -(2**31)], True), ([2**31, 0], False), ([0, -(2**31) - 1], False), ([], True)]
)
def test_whole_numbers_of_64_bits(numbers: list[int], fits: bool) -> None:
    given = tensor("INT64", (len(numbers),), np.array(numbers, np.int64))
    if fits:
        found = constant(given)
        assert (found.dtype, found.tolist()) == (np.int32, numbers)
        return
    with pytest.raises(Unmapped) as caught:
        constant(given)
    assert str(caught.value) == "tensor 0 'x' of type INT64 has values beyond 32 bits, which NNAPI does not have"


def test_sparse_constants() -> None:
    given = tensor(data=np.float32([7]), sparsity=FIRST_ROW)
    assert constant(given).tolist() == [[0, 0, 7], [0, 0, 0]]
    given = tensor(data=np.uint8([0, 0, 224, 64, 9]), sparsity=FIRST_ROW)
    assert constant(given).tolist() == [[0, 0, 7], [0, 0, 0]], "bytes that are no element do not count"


# --- edges ---------------------------------------------------------------------------------------------------


def value(type_: OperandType, *shape: int) -> Value:
    return Value(type_.with_dimensions(shape))


F32 = OperandType(OperandCode.TENSOR_FLOAT32)


@pytest.mark.parametrize(
    ("given", "shape", "in_words", "found"),
    [
        (tensor(), (2, 3), False, (2, 3)),
        (tensor(shape=()), (1,), False, ()),
        (tensor(shape=(), is_static=False), (1,), False, (1,)),
        (tensor(is_static=False), (2, 3), False, (2, 3)),
        (tensor(is_static=False), (4, 3), False, (4, 3)),
        (tensor(shape=(), is_static=False), (4, 3), False, (4, 3)),
        (tensor(shape=(), is_static=False), (0, 3), False, (-1, 3)),
        (tensor("COMPLEX64"), (2, 3, 2), False, (2, 3)),
        (tensor("INT64"), (2, 3, 2), True, (2, 3)),
    ],
    ids=str,
)
def test_ports(given: Tensor, shape: tuple[int, ...], in_words: bool, found: tuple[int, ...]) -> None:
    made = port(given, value(F32, *shape), in_words)
    assert (made.name, made.file_type, made.shape, made.in_words) == ("x", given.type, found, in_words)
    assert (made.signature, made.type.dimensions) == (given.signature, shape)


def test_the_operand_of_a_port_has_four_dimensions() -> None:
    made = port(tensor(shape=(2, 3, 1, 2, 5)), value(F32, 2, 3, 1, 2, 5))
    assert (made.shape, made.type.dimensions) == ((2, 3, 1, 2, 5), (6, 1, 2, 5))


Q8 = OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, scale=0.5, zero_point=3)
BIAS = OperandType(OperandCode.TENSOR_INT32, scale=0.5)


@pytest.mark.parametrize(
    ("before", "after", "is_one"),
    [
        (value(F32, 2), value(F32, 2), True),
        (value(F32, 2), value(F32, 3), False),
        (value(F32, 2), value(BIAS, 2), False),
        (value(Q8, 2), value(Q8, 2), True),
        (value(Q8, 2), value(OperandType(Q8.code, scale=0.25, zero_point=3), 2), False),
        (value(Q8, 2), value(OperandType(Q8.code, scale=0.5, zero_point=4), 2), False),
        (value(BIAS, 2), value(OperandType(BIAS.code, scale=0.25), 2), True),
    ],
    ids=["same", "shape", "type", "levels", "scale", "zero point", "whole numbers"],
)
def test_values_of_a_variable(before: Value, after: Value, is_one: bool) -> None:
    assert is_alike(before, after) is is_one
