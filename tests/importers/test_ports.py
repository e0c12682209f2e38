"""Inputs and outputs of imported models: how arrays go in and out, and what is said of those that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnvk import NnapiError, OperandCode, OperandType
from nnvk.api import Model
from nnvk.importers.ports import ImportedModel, Port, State

F32, I32 = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_INT32
Q8 = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED


def port(code: OperandCode = F32, file_type: str = "FLOAT32", shape: tuple[int, ...] = (2, 3), **more: Any) -> Port:
    dimensions = more.pop("dimensions", shape)
    type_ = OperandType(code, dimensions, more.pop("scale", 0.0), more.pop("zero_point", 0))
    return Port(name="x", type=type_, file_type=file_type, shape=shape, **more)


@pytest.mark.parametrize(
    ("given", "is_plain"),
    [
        (port(), True),
        (port(I32, "INT64"), False),
        (port(I32, "INT64", dimensions=(2, 3, 2), in_words=True), False),
        (port(shape=(2, -1), dimensions=(2, 0)), False),
        (port(I32, "INT32", in_words=True), False),
    ],
)
def test_plain(given: Port, is_plain: bool) -> None:
    assert given.is_plain == is_plain


@pytest.mark.parametrize(
    ("signature", "symbols", "pattern", "sizes"),
    [
        ((), (), "2x3", ""),
        ((2, 3), (), "2x3", ""),
        ((-1, 3), (), "?x3", "?x3, taken as 2x3"),
        ((-1, -1), ("batch", ""), "batchx?", "batchx?, taken as 2x3"),
        ((2, -1), ("", "length"), "2xlength", "2xlength, taken as 2x3"),
    ],
)
def test_open_sizes(signature: tuple[int, ...], symbols: tuple[str, ...], pattern: str, sizes: str) -> None:
    given = port(signature=signature, symbols=symbols)
    assert (given.pattern, given.open_sizes, given.is_open) == (pattern, sizes, bool(sizes))


@pytest.mark.parametrize(
    ("scale", "zero_point", "text"),
    [(0.5, 0, "0.5 * q"), (0.25, 3, "0.25 * (q - 3)"), (0.0039215688, -128, "0.00392157 * (q + 128)")],
)
def test_quantised(scale: float, zero_point: int, text: str) -> None:
    given = port(Q8, "INT8", scale=scale, zero_point=zero_point)
    assert (given.is_quantised, given.zero_point, given.real_number) == (True, zero_point, text)
    assert given.scale == pytest.approx(scale)
    levels = np.array([[-128, -1, 0], [1, 3, 127]], np.int8)
    real = given.dequantize(levels)
    assert real.dtype == np.float32
    np.testing.assert_allclose(real, (levels.astype(np.float64) - zero_point) * scale, rtol=1e-6)
    np.testing.assert_array_equal(given.quantize(real), levels)
    np.testing.assert_array_equal(given.quantize([1e9, -1e9]), np.int8([127, -128]))
    assert given.quantize([0.49 * scale, 0.51 * scale]).tolist() == [min(127, zero_point), min(127, zero_point + 1)]


def test_not_quantised() -> None:
    given = port(I32, "INT64")
    assert (given.is_quantised, given.scale, given.real_number) == (False, 0.0, "")
    assert given.quantize([1.0, 2.0]).dtype == np.int64
    array = np.ones(3, np.int64)
    assert given.dequantize(array) is array


def test_arrays_go_in_as_the_operand_has_them() -> None:
    given = port(I32, "INT64", shape=(2, 3), dimensions=(3, 2))
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    encoded = given.encode(array)
    assert (encoded.dtype, encoded.shape, encoded.flags.c_contiguous) == (np.int32, (3, 2), True)
    np.testing.assert_array_equal(encoded.reshape(-1), np.arange(6))
    np.testing.assert_array_equal(given.encode(array.reshape(3, 2)), encoded)
    assert given.encode(np.asfortranarray(array)).tolist() == encoded.tolist()


@pytest.mark.parametrize(
    ("given", "array", "said"),
    [
        (port(), np.zeros((2, 3)), "'x' must be an array of float32, got float64"),
        (port(), np.zeros((3, 2), np.float32), r"'x' must have shape \[2, 3\], got \[3, 2\]$"),
        (port(signature=(-1, 3)), np.zeros((4, 3), np.float32), r"got \[4, 3\]; --shape or load"),
        (port(I32, "INT64"), np.full((2, 3), 1 << 31), "'x' must have values of 32 bits, got 2147483648 to 2147483648"),
        (port(I32, "INT64"), np.array([[0, 1, 2], [3, 4, -(1 << 31) - 1]]), "must have values of 32 bits"),
    ],
)
def test_arrays_that_do_not_go_in(given: Port, array: np.ndarray, said: str) -> None:
    with pytest.raises(NnapiError, match=said):
        given.encode(array)


def test_the_largest_whole_numbers_go_in() -> None:
    array = np.array([[-(1 << 31), (1 << 31) - 1, 0]])
    np.testing.assert_array_equal(port(I32, "INT64", shape=(1, 3)).encode(array), array)


def test_arrays_come_out_as_the_file_has_them() -> None:
    given = port(I32, "INT64", shape=(2, 3), dimensions=(6,))
    decoded = given.decode(np.arange(6, dtype=np.int32))
    assert (decoded.dtype, decoded.shape) == (np.int64, (2, 3))
    words = port(I32, "INT64", shape=(2,), dimensions=(2, 2), in_words=True)
    decoded = words.decode(np.array([[5, 0], [-1, -1]], np.int32))
    assert (decoded.dtype, decoded.tolist()) == (np.int64, [5, -1])
    open_ = port(shape=(-1, 3), dimensions=(0, 3))
    assert open_.decode(np.zeros((4, 3), np.float32)).shape == (4, 3)


@pytest.mark.parametrize(
    "array",
    [np.zeros((4, 3)), np.zeros((4, 2), np.float32), np.zeros((4, 3, 1), np.float32), np.zeros(3, np.float32)],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_that_do_not_come_out(array: np.ndarray) -> None:
    with pytest.raises(NnapiError, match="'x' must hold"):
        port(shape=(-1, 3), dimensions=(0, 3)).decode(array)


def test_how_many_arrays_a_model_takes() -> None:
    state = State(port(), port(), np.zeros((2, 3), np.float32))
    made = ImportedModel(Model(), (port(), port()), (port(),), (state,))
    array = np.ones((2, 3), np.float32)
    assert len(made.encode([array, array])) == 3
    assert len(made.encode([array, array], [array])) == 3
    outputs, states = made.decode([array, 2 * array])
    assert (len(outputs), states[0].max()) == (1, 2)
    for inputs, state, said in (
        ([array], None, "expected 2 inputs, got 1"),
        ([array] * 3, None, "expected 2 inputs, got 3"),
        ([array] * 2, [], "expected 1 states, got 0"),
        ([array] * 2, [array] * 2, "expected 1 states, got 2"),
    ):
        with pytest.raises(NnapiError, match=said):
            made.encode(inputs, state)
    for count in (1, 3):
        with pytest.raises(NnapiError, match=f"expected 2 outputs, got {count}"):
            made.decode([array] * count)


def test_states_are_equal_whatever_they_begin_with() -> None:
    states = [State(port(), port(), np.full((2, 3), number, np.float32)) for number in (0, 1)]
    assert states[0] == states[1]
    assert states[0] != State(port(), port(shape=(3, 2)), states[0].initial)
    assert "initial" not in repr(states[0])


def test_what_is_shown_of_a_port_and_a_model() -> None:
    """Neither the metadata nor the tables of a model, which may be long."""
    shown = repr(port())
    assert "name='x'" in shown and "metadata" not in shown
    made = ImportedModel(Model(), (port(),), (port(),))
    assert (made.states, made.description, made.sources, made.tensors, made.signatures) == ((), "", (), {}, {})
    assert "sources" not in repr(made) and "tensors" not in repr(made)
