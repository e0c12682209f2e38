"""The emitter: conversions of quantisations, constants, broadcasts and reshapes, and booleans as numbers."""

from __future__ import annotations

import numpy as np
import pytest
from recorded_budget import RecordedBudget

from nnvk import OperandCode, OperandType
from nnvk.importers.emitter import BOOL8, F32, I32, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Graph, Value
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import ExtendedOperationCode as Extended
from nnvk.types.operand import ChannelQuant

F16 = OperandType(OperandCode.TENSOR_FLOAT16)
Q8 = OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, scale=0.5, zero_point=3)
Q16 = OperandType(OperandCode.TENSOR_QUANT16_SYMM, scale=0.25)


def floats(c: Emitter, *shape: int) -> Value:
    return c.graph.input(F32.with_dimensions(shape))


@pytest.fixture
def c() -> Emitter:
    return Emitter(Graph(RecordedBudget(), relaxed=False))


OTHER_SCALE = OperandType(Q8.code, scale=0.25, zero_point=3)
OTHER_ZERO = OperandType(Q8.code, scale=0.5, zero_point=4)
NEARLY = OperandType(Q8.code, scale=0.5 * (1 + 5e-7), zero_point=3)
UNSIGNED = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, scale=0.5, zero_point=131)


@pytest.mark.parametrize(
    ("source", "wanted", "operations"),
    [
        (Q8, F32, "DEQUANTIZE"),
        (F16, F32, "CAST"),
        (F32, F32, ""),
        (I32, F32, ""),
        (Q8, I32, ""),
        (Q8, F16, ""),
        (Q8, BOOL8, ""),
        (Q8, Q8, ""),
        (Q8, NEARLY, ""),
        (Q8, OTHER_SCALE, "DEQUANTIZE QUANTIZE"),
        (Q8, OTHER_ZERO, "DEQUANTIZE QUANTIZE"),
        (Q8, UNSIGNED, "DEQUANTIZE QUANTIZE"),
        (Q8, Q16, "DEQUANTIZE QUANTIZE"),
        (F32, Q8, "QUANTIZE"),
        (F16, Q8, "QUANTIZE"),
        (I32, Q8, ""),
        (BOOL8, Q8, ""),
    ],
    ids=lambda one: "none" if one == "" else one if isinstance(one, str) else f"{one.code.name}-{one.scale:g}",
)
def test_quantisations(source: OperandType, wanted: OperandType, operations: str, c: Emitter) -> None:
    value = c.graph.input(source.with_dimensions((2,)))
    found = c.quantized(value, wanted)
    assert [operation.code.name for operation in c.graph._operations] == operations.split()
    assert (found is value) is not bool(operations)
    assert found.code is (wanted.code if operations else source.code)


@pytest.mark.parametrize("type_", [Q8, UNSIGNED, Q16, F32, F16, I32])
def test_real_numbers(type_: OperandType, c: Emitter) -> None:
    value = c.graph.input(type_.with_dimensions((2,)))
    real = c.real(value)
    assert (real is value) is (type_ in (F32, F16, I32))
    assert c.real(value) is real, "it is derived once"
    levels = c.constant(np.array([4, 7]), Q8)
    assert c.real(levels).array.tolist() == [0.5, 2.0]
    assert c.like(levels, c.graph.input(F32.with_dimensions((2,)))).code is F32.code
    assert c.like(levels, value) is levels if type_ in (Q8, UNSIGNED, Q16) else True


def test_halves_are_widened(c: Emitter) -> None:
    half = c.graph.constant(F16.with_dimensions((2,)), lambda: np.array([0.5, 2]))
    wide = c.widened(half)
    assert (wide.array.tolist(), wide.code, c.widened(half) is wide) == ([0.5, 2.0], F32.code, True)
    assert c.widened(c.graph.input(F16.with_dimensions((2,)))).code is F32.code


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [([2**31], f"{2**31} to {2**31}"), ([0, -(2**31) - 1], f"{-(2**31) - 1} to 0"), ([2**31 - 1, -(2**31)], "")],
)
def test_whole_numbers_fit_into_32_bits(numbers: list[int], shown: str, c: Emitter) -> None:
    if not shown:
        assert c.constant(np.array(numbers), I32).array.tolist() == numbers
        return
    with pytest.raises(Unmapped, match=f"whole numbers must fit into 32 bits, got {shown}"):
        c.constant(np.array(numbers), I32)


def test_constants_of_the_emitter(c: Emitter) -> None:
    assert c.constant(2, F32) is c.constant(2.0, F32)
    assert c.constant(2, F32).shape == (1,)
    assert c.constant(np.full((1, 1), 2), F32).shape == (1, 1)
    assert c.constant(np.array([[1, 2]]), F32).array.tolist() == [[1, 2]]
    assert c.filled(3, Q8, (2, 2)).array.tolist() == [[3, 3], [3, 3]]


@pytest.mark.parametrize(
    ("shape", "full", "operations"),
    [
        ((2, 3), (2, 3), ""),
        ((3,), (1, 3), ""),
        ((1, 3), (1, 1, 3), ""),
        ((3,), (2, 3), "RESHAPE TILE"),
        ((2, 1), (2, 3), "TILE"),
        ((1, 1), (2, 3), "TILE"),
        ((1,), (1, 1), ""),
        ((2,), (2, 1), None),
        ((3, 2), (2, 3), None),
        ((2, 3), (3,), None),
        ((2, 3), (2, 4), None),
    ],
    ids=str,
)
def test_broadcasts(shape: tuple[int, ...], full: tuple[int, ...], operations: str | None, c: Emitter) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    known = c.graph.constant(F32.with_dimensions(shape), lambda: array)
    for value in (floats(c, *shape), known):
        if operations is None:
            with pytest.raises(Unmapped) as caught:
                c.broadcast(value, full)
            assert str(caught.value) == f"a tensor of shape {list(shape)} can't be broadcast to {list(full)}"
        else:
            assert c.broadcast(value, full).shape == full
    if operations is not None:
        assert [operation.code.name for operation in c.graph._operations] == operations.split()
        np.testing.assert_array_equal(c.broadcast(known, full).array, np.broadcast_to(array, full))


def test_booleans_are_broadcast_by_logic(c: Emitter) -> None:
    c.broadcast(c.graph.input(BOOL8.with_dimensions((1, 3))), (2, 3))
    assert [operation.code.name for operation in c.graph._operations] == ["LOGICAL_OR"]


def test_booleans_are_moved_as_numbers(c: Emitter) -> None:
    value = c.graph.input(BOOL8.with_dimensions((2, 3)))
    (result,) = c.add(Op.TRANSPOSE, [value, np.array([1, 0])], [BOOL8])
    assert (result.code, result.shape) == (BOOL8.code, (3, 2))
    assert [operation.code.name for operation in c.graph._operations] == ["SELECT", "TRANSPOSE", "NOT_EQUAL"]


@pytest.mark.parametrize(("type_", "zero"), [(F32, 0.0), (I32, 0), (Q8, 3)])
def test_numbers_as_booleans(type_: OperandType, zero: float, c: Emitter) -> None:
    """A level is compared with the zero point."""
    numbers = c.graph.constant(type_.with_dimensions((3,)), lambda: np.array([zero, zero + 1, zero - 1]))
    assert c.as_bool(numbers).array.tolist() == [False, True, True]


CHANNELS = OperandType(
    OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (2, 3, 2), channel_quant=ChannelQuant((0.5, 0.25), 0)
)


@pytest.mark.parametrize(
    ("dim", "shape", "is_allowed"), [(0, (2, 6), True), (0, (2, 2, 3), True), (0, (12,), False), (2, (2, 6), False)]
)
def test_scales_of_channels_stay_with_the_first_dimension(
    dim: int, shape: tuple[int, ...], is_allowed: bool, c: Emitter
) -> None:
    type_ = OperandType(CHANNELS.code, (2, 3, 2), channel_quant=ChannelQuant((0.5, 0.25), dim))
    value = c.graph.constant(type_, lambda: np.zeros((2, 3, 2)))
    if is_allowed:
        assert c.reshape(value, shape).shape == shape
        return
    with pytest.raises(Unmapped) as caught:
        c.reshape(value, shape)
    assert str(caught.value) == f"a tensor with scales per channel can't be reshaped from [2, 3, 2] to {list(shape)}"


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_the_axes_around_one(axis: int, c: Emitter) -> None:
    shape = (2, 3, 4, 5)
    wanted = np.prod(shape[:axis], dtype=int), shape[axis], np.prod(shape[axis + 1 :], dtype=int)
    assert c.around(floats(c, *shape), axis).shape == wanted


def test_parts_have_the_shapes_that_are_given_where_others_are_not_known(c: Emitter) -> None:
    starts = c.graph.input(I32.with_dimensions((2,)))
    sizes = np.array([1, 1])
    (value,) = c.emit_many(Op.SLICE, floats(c, 3, 3), starts, sizes, outs=[F32.with_dimensions((1, 1))])
    assert value.shape == (1, 1)
    assert c.emit_many(Extended.ADD_INT64, *[c.constant(1, I32)] * 4, outs=[I32, I32])[0].shape == (1,)
