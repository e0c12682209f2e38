"""Decompositions that importers share, computed from constants at import, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from emitted import elements, emitter

from nnvk.importers.decompositions import arithmetic, moving
from nnvk.importers.decompositions.block_quantized import packed, packed_later, words_of
from nnvk.importers.decompositions.cumulative import cumulative
from nnvk.importers.decompositions.fourier import to_real, transform
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import BOOL8, F32, I32, Emitter
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.types import constant
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.operand import OperandType

F = np.float32
WHOLE = np.array([-7, -3, -2, -1, 0, 1, 2, 3, 7])
REAL = np.array([-7.5, -2.5, -1.5, -1.25, -0.5, -0.3, 0.0, 0.3, 0.5, 0.75, 1.5, 2.5, 3.5, 7.25], F)
SPECIAL = np.array([np.inf, -np.inf, np.nan], F)


@pytest.fixture
def c() -> Emitter:
    return emitter()


def known(c: Emitter, array: Any) -> Value:
    """A constant."""
    array = np.asarray(array)
    types = {"f": F32, "i": I32, "b": BOOL8}
    return c.constant(array, types[array.dtype.kind])


def free(c: Emitter, *shape: int, type_: OperandType = F32) -> Value:
    return c.graph.input(type_.with_dimensions(shape))


def array_of(c: Emitter, value: Value) -> np.ndarray:
    (found,) = elements(c, value)
    return found


# --- arithmetic ------------------------------------------------------------------------------------------------------


def truncated(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.trunc(first / second).astype(first.dtype)


PAIRS: dict[str, tuple[Callable[..., Value], Callable[..., np.ndarray], str]] = {
    "truncated quotient": (arithmetic.truncated_quotient, truncated, "i"),
    "floor quotient": (arithmetic.floor_quotient, lambda one, other: np.floor(one / other), "if"),
    "floor remainder": (arithmetic.floor_remainder, np.mod, "if"),
    "truncated remainder": (arithmetic.truncated_remainder, np.fmod, "if"),
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, (_, _, kinds) in PAIRS.items() for kind in kinds])
def test_pairs(c: Emitter, name: str, kind: str) -> None:
    function, formula, _ = PAIRS[name]
    numbers = WHOLE if kind == "i" else REAL
    first, second = numbers.reshape(-1, 1), numbers[numbers != 0].reshape(1, -1)
    found = function(c, known(c, first), known(c, second))
    assert found.code is (I32 if kind == "i" else F32).code
    np.testing.assert_allclose(array_of(c, found), formula(first, second), rtol=1e-5, atol=1e-5)


def test_remainders_of_infinite_divisors(c: Emitter) -> None:
    """The dividend if both have one sign, otherwise the divisor; an infinite dividend has none."""
    first, second = np.array([[2.5], [-2.5], [0.0], [np.inf]], F), np.array([[np.inf, -np.inf, 2.0]], F)
    found = array_of(c, arithmetic.floor_remainder(c, known(c, first), known(c, second)))
    wanted = [[2.5, -np.inf, 0.5], [np.inf, -2.5, 1.5], [0, 0, 0], [np.nan] * 3]
    np.testing.assert_allclose(found, np.array(wanted, F))


SINGLE: dict[str, tuple[Callable[[Emitter, Value], Value], Callable[[np.ndarray], np.ndarray]]] = {
    "ceiling": (arithmetic.ceiling, np.ceil),
    "half even": (arithmetic.round_half_even, np.rint),
    "half away": (arithmetic.round_half_away, lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5)),
    "sign": (arithmetic.sign, np.sign),
    "exact gelu": (
        lambda c, x: arithmetic.gelu(c, x, approximate=False),
        lambda x: np.array([one * (1 + math.erf(one / math.sqrt(2))) / 2 for one in x.tolist()]),
    ),
    "approximate gelu": (
        lambda c, x: arithmetic.gelu(c, x, approximate=True),
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
}


@pytest.mark.parametrize("name", SINGLE)
def test_single_numbers(c: Emitter, name: str) -> None:
    function, formula = SINGLE[name]
    np.testing.assert_allclose(array_of(c, function(c, known(c, REAL))), formula(REAL.astype(np.float64)), atol=2e-6)


def test_numbers_next_to_a_half(c: Emitter) -> None:
    """Where size + 0.5 would be rounded up."""
    numbers = np.array([0.49999997, -0.49999997, 8388609.0, -8388609.0, 0.5, -0.5], F)
    found = array_of(c, arithmetic.round_half_away(c, known(c, numbers)))
    np.testing.assert_array_equal(found, [0, 0, 8388609, -8388609, 1, -1])


@pytest.mark.parametrize("keeps_nan", [None, True, False])
def test_signs(c: Emitter, keeps_nan: bool | None) -> None:
    options = {} if keeps_nan is None else {"keeps_nan": keeps_nan}
    found = array_of(c, arithmetic.sign(c, known(c, np.concatenate([SPECIAL, F([-0.0])])), **options))
    np.testing.assert_array_equal(found, [1, -1, 0 if keeps_nan is False else np.nan, 0])
    np.testing.assert_array_equal(arithmetic.sign(c, known(c, WHOLE.reshape(3, 3))).array, np.sign(WHOLE).reshape(3, 3))


@pytest.mark.parametrize("dtype", [F, np.int32, np.bool_])
def test_choices(c: Emitter, dtype: Any) -> None:
    """All three broadcast."""
    condition, one, other = np.array([[True], [False]]), np.array([[1, 0, 1]]), np.array([0])
    found = arithmetic.chosen(c, known(c, condition), known(c, one.astype(dtype)), known(c, other.astype(dtype)))
    np.testing.assert_array_equal(array_of(c, found), np.where(condition, one, other).astype(dtype))


def test_shapes_that_do_not_broadcast(c: Emitter) -> None:
    assert arithmetic.broadcast_shape(free(c, 2, 1), free(c, 3)) == (2, 3)
    with pytest.raises(Unmapped) as raised:
        arithmetic.broadcast_shape(free(c, 2, 3), free(c, 2), free(c, 1))
    assert str(raised.value) == "shapes [2, 3] and [2] and [1] don't broadcast"


# --- elements in other places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F, np.int32])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2), (0, 2, 1)], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 4), (1, 3, 4)], ids=str)
def test_transposed(c: Emitter, shape: tuple[int, ...], order: tuple[int, ...], dtype: Any) -> None:
    array = np.arange(math.prod(shape), dtype=dtype).reshape(shape)
    np.testing.assert_array_equal(array_of(c, moving.transposed(c, known(c, array), order)), array.transpose(order))


def test_orders_that_are_none(c: Emitter) -> None:
    for order in ([0, 0], [0], [0, 2], [0, 1, 2]):
        with pytest.raises(Unmapped) as raised:
            moving.transposed(c, free(c, 2, 3), order)
        assert str(raised.value) == f"the permutation must name each of 2 axes, got {order}"


@pytest.mark.parametrize("dtype", [F, np.int32])
@pytest.mark.parametrize(
    "taken",
    [
        [range(5), range(7)],
        [range(1, 4), range(2, 7)],
        [range(4, -1, -1), range(7)],
        [range(1, 5, 2), range(2, 7, 3)],
        [range(3, 0, -2), range(6, -1, -3)],
        [range(5), range(6, 2, -1)],
        [range(2, -1, -1), range(1, 2)],
    ],
    ids=str,
)
def test_strided(c: Emitter, taken: Sequence[range], dtype: Any) -> None:
    array = np.arange(35, dtype=dtype).reshape(5, 7)
    found = moving.strided(c, known(c, array), taken)
    np.testing.assert_array_equal(array_of(c, found), array[np.ix_(*taken)])


def test_all_elements_are_the_tensor_itself(c: Emitter) -> None:
    x = free(c, 5, 7)
    assert moving.sliced(c, x, [range(5), range(7)]) is x
    assert moving.strided(c, x, [range(5), range(7)]) is x
    assert moving.sliced(c, x, [range(5), range(6)]).shape == (5, 6)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gathered(c: Emitter, axis: int) -> None:
    array, places = np.arange(24, dtype=F).reshape(2, 3, 4), np.array([[1, 0], [0, 1]])
    found = moving.gathered(c, known(c, array), axis, known(c, places))
    np.testing.assert_array_equal(array_of(c, found), np.take(array, places, axis))
    found = moving.elements_at(c, known(c, array), axis, places)
    np.testing.assert_array_equal(array_of(c, found), np.take(array, places, axis))
    flat = moving.flat_picked(c, known(c, array), places * 23)
    np.testing.assert_array_equal(flat.array, places * 23)


@pytest.mark.parametrize("axis", [-3, -1, 0, 2])
def test_axes(axis: int) -> None:
    assert moving.axis_of(axis, 3) == axis % 3
    for none in (-4, 3):
        with pytest.raises(Unmapped) as raised:
            moving.axis_of(none, 3, "axis 'k'")
        assert str(raised.value) == f"axis 'k' must be in [-3, 3), got {none}"


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("sizes", [(2, 4, 6), (1, 3), (2, 2), (3,)], ids=str)
@pytest.mark.parametrize("is_known", [True, False])
def test_joined_integers(c: Emitter, is_known: bool, sizes: tuple[int, ...], axis: int) -> None:
    """Pieces are of the largest size that divides all."""
    shapes = [(size, 5) if axis == 0 else (5, size) for size in sizes]
    values = [
        known(c, np.full(shape, at)) if is_known else free(c, *shape, type_=I32) for at, shape in enumerate(shapes)
    ]
    found = moving.joined_integers(c, values, axis)
    assert found.shape == ((sum(sizes), 5) if axis == 0 else (5, sum(sizes)))
    assert found.is_constant == is_known
    if is_known:
        np.testing.assert_array_equal(array_of(c, found), np.concatenate([value.array for value in values], axis))


def test_tensors_that_can_not_be_joined(c: Emitter) -> None:
    values = [free(c, 2, 3, type_=I32), free(c, 3, 2, type_=I32)]
    for axis in (0, 1):
        with pytest.raises(Unmapped) as raised:
            moving.joined_integers(c, values, axis)
        assert str(raised.value) == f"shapes must agree but for axis {axis}, got [[2, 3], [3, 2]]"
    with pytest.raises(Unmapped) as raised:
        moving.packed(c, [free(c, 2, 3), free(c, 2, 3), free(c, 3, 2)], 0)
    assert str(raised.value) == "shapes must agree, got [[2, 3], [2, 3], [3, 2]]"
    assert moving.packed(c, [free(c, 2, 3), free(c, 2, 3)], 1).shape == (2, 2, 3)


def test_padded_integers(c: Emitter) -> None:
    array, paddings = np.arange(6).reshape(2, 3), np.array([[1, 0], [2, 3]])
    found = moving.padded_integers(c, known(c, array), paddings, -7)
    np.testing.assert_array_equal(array_of(c, found), np.pad(array, paddings, constant_values=-7))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_unpacked(c: Emitter, axis: int) -> None:
    for shape in ((2, 3, 4), (1, 1, 1)):
        array = np.arange(math.prod(shape), dtype=F).reshape(shape)
        found = moving.unpacked(c, known(c, array), axis)
        wanted = [np.take(array, at, axis) for at in range(shape[axis])]
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one.array, other)


@pytest.mark.parametrize("dtype", [F, np.int32])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_largest(c: Emitter, k: int, dtype: Any) -> None:
    """The first of equal elements comes first."""
    rows = np.array([[3, 1, 3, 2, 1], [0, 0, 5, 5, 0]], dtype)
    best, places = moving.largest(c, known(c, rows), k)
    order = np.argsort(-rows, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places.array, order)
    np.testing.assert_array_equal(best.array, np.take_along_axis(rows, order, 1))


# --- along axes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F, np.int32])
@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 2], [0, 1, 2], []], ids=str)
@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (Op.REDUCE_SUM, np.sum),
        (Op.REDUCE_PROD, np.prod),
        (Op.REDUCE_MAX, np.max),
        (Op.REDUCE_MIN, np.min),
        (Op.MEAN, np.mean),
    ],
)
def test_reductions(c: Emitter, code: Op, rule: Any, axes: list[int], dtype: Any) -> None:
    array = np.random.default_rng(0).integers(-3, 4, (3, 5, 4)).astype(dtype)
    wanted = rule(array.astype(np.float64), axis=tuple(axes), keepdims=True) if axes else array
    if code is Op.REDUCE_PROD and dtype is np.int32:
        wanted = np.prod(array, axis=tuple(axes), keepdims=True, dtype=np.int32) if axes else array
    elif dtype is np.int32:
        wanted = np.trunc(wanted)
    np.testing.assert_allclose(array_of(c, folded(c, code, known(c, array), axes)), wanted, rtol=1e-5)


def test_reductions_of_truths(c: Emitter) -> None:
    flags = np.array([[True, False], [True, True]])
    assert folded(c, Op.REDUCE_MAX, known(c, flags), [1]).array.tolist() == [[True], [True]]
    assert folded(c, Op.REDUCE_MIN, known(c, flags), [1]).array.tolist() == [[False], [True]]
    with pytest.raises(Unmapped) as raised:
        folded(c, Op.REDUCE_SUM, known(c, flags), [1])
    assert str(raised.value) == "NNAPI has no REDUCE_SUM of booleans"


@pytest.mark.parametrize("dtype", [F, np.int32])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_cumulative(c: Emitter, size: int, axis: int, exclusive: bool, reverse: bool, dtype: Any) -> None:
    shape = [2, 3, 2]
    shape[axis] = size
    numbers = np.random.default_rng(0).integers(1, 4, shape).astype(dtype)
    turned = np.flip(numbers, axis) if reverse else numbers
    wanted = np.cumsum(turned, axis)
    if exclusive:
        first = np.zeros_like(np.take(wanted, [0], axis))
        wanted = np.concatenate([first, np.take(wanted, range(size - 1), axis)], axis)
    wanted = np.flip(wanted, axis) if reverse else wanted
    found = cumulative(c, known(c, numbers), axis, exclusive=exclusive, reverse=reverse)
    np.testing.assert_array_equal(array_of(c, found), wanted)


def test_only_numbers_are_summed(c: Emitter) -> None:
    half = free(c, 2, type_=OperandType(OperandCode.TENSOR_FLOAT16))
    assert cumulative(c, half, 0, exclusive=False, reverse=False).code is half.code
    with pytest.raises(Unmapped, match="NNAPI sums no "):
        cumulative(c, free(c, 2, type_=BOOL8), 0, exclusive=False, reverse=False)


# --- Fourier transforms ----------------------------------------------------------------------------------------------


def complex_of(array: np.ndarray) -> np.ndarray:
    return array[..., 0] + 1j * array[..., 1]


@pytest.mark.parametrize("is_real", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("length", [1, 4, 5, 6, 8])
@pytest.mark.parametrize("size", [5, 6])
def test_transforms(c: Emitter, size: int, length: int, inverse: bool, is_real: bool) -> None:
    """Signals are cut or padded to the length."""
    source = np.random.default_rng(0).standard_normal((2, size, 3, 1 if is_real else 2)).astype(F)
    signal = source[..., 0] if is_real else complex_of(source)
    rule = np.fft.ifft if inverse else np.fft.fft
    for outs in {1, length // 2 + 1, length}:
        found = array_of(c, transform(c, known(c, source), length, outs, inverse=inverse))
        assert found.shape == (2, outs, 3, 2)
        np.testing.assert_allclose(complex_of(found), rule(signal, length, axis=1)[:, :outs], atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 5, 6, 8, 9])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_transforms_to_real_numbers(c: Emitter, size: int, length: int) -> None:
    source = np.random.default_rng(0).standard_normal((2, size, 3, 2)).astype(F)
    found = array_of(c, to_real(c, known(c, source), length))
    assert found.shape == (2, length, 3, 1)
    np.testing.assert_allclose(found[..., 0], np.fft.irfft(complex_of(source), length, axis=1), atol=1e-5)


def test_waves_that_vanish_are_exact(c: Emitter) -> None:
    """A real, even signal has no imaginary parts at all."""
    found = array_of(c, transform(c, known(c, np.eye(4, 1, dtype=F).reshape(1, 4, 1, 1)), 4, 4))
    np.testing.assert_array_equal(found[0, :, 0], [[1, 0]] * 4)
    found = array_of(c, transform(c, known(c, np.eye(4, 1, -1, dtype=F).reshape(1, 4, 1, 1)), 4, 4))
    np.testing.assert_array_equal(found[0, :, 0], [[1, 0], [0, -1], [-1, 0], [0, 1]])


# --- weights of 4 bits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("levels", "count"), [(8, 8), (5, 8), (9, 16), (16, 16)])
def test_words_of_levels(levels: int, count: int) -> None:
    """The first level is in the lowest bits; what is missing is 0."""
    rows = np.random.default_rng(0).integers(0, 16, (3, levels)).astype(np.uint8)
    wide = np.pad(rows, [(0, 0), (0, count - levels)]).astype(np.uint32).reshape(3, count // 8, 8)
    wanted = (wide << np.arange(0, 32, 4, dtype=np.uint32)).sum(2).astype(np.uint32).view(np.int32)
    np.testing.assert_array_equal(packed(rows, count), wanted)
    later = packed_later(3, count, lambda: rows)
    assert later.shape == (3, count // 8)
    np.testing.assert_array_equal(constant.elements(later), wanted)


@pytest.mark.parametrize("count", [4, 5, 7, 8])
def test_words_of_bytes(count: int) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (3, count)).astype(np.uint8)
    wide = np.pad(rows, [(0, 0), (0, -count % 4)])
    np.testing.assert_array_equal(words_of(rows), np.ascontiguousarray(wide).view("<i4"))
    assert words_of(None) is None
