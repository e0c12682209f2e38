"""``shaders/include/requantise.glsl`` against the reference's fixed-point arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnvk.driver.vulkan.lowering.gemm.epilogue import BYTE_ERROR, BYTE_SHIFTS, byte_multipliers
from nnvk.ops.quant import multiply_by_quantized_multiplier, multiply_once_by_quantized_multiplier

Evaluate = Callable[..., np.ndarray]
REQUANTISE = "requantise.glsl"
LARGEST = (1 << 29) - 1
MANTISSAS = (2**30, 2**30 + 1, 3 << 29, 1518500250, 1234567891, 2**31 - 65536, 2**31 - 129, 2**31 - 1)
HALF_PRODUCTS, SATURATES = 52, 64
"""The numbers of the specialisation constants."""
EVERY_SHIFT = range(BYTE_SHIFTS[0], BYTE_SHIFTS[1] + 1)


def near_the_changes(mantissa: int, shift: int) -> np.ndarray:
    """The numbers on both sides of each change of a result of -300 to 300, and some others of all magnitudes."""
    changes = (np.arange(-300, 301) + 0.5) * (2.0 ** (31 - shift) / mantissa)
    near = np.floor(changes)[:, np.newaxis] + np.arange(-2, 4)
    rng = np.random.default_rng([mantissa, 31 - shift])
    others = (2 ** rng.uniform(0, 29, 3000)).astype(np.int64) * rng.choice([1, -1], 3000)
    every = np.concatenate([near.reshape(-1), others, [0, LARGEST, -LARGEST], np.arange(-99, 100)])
    return np.clip(every, -LARGEST, LARGEST).astype(np.int32)


RANGES = [(0, 0, 255), (255, 0, 255), (121, 0, 255), (3, 3, 129), (128, 90, 91), (7, 9, 9), (128, 128, 128)]


@pytest.mark.crossed
@pytest.mark.parametrize("once", [False, True], ids=["twice", "once"])
@pytest.mark.parametrize("saturates", [False, True], ids=["clamped", "saturates"])
@pytest.mark.parametrize(("zero", "low", "high"), RANGES)
def test_multiply_to_bytes(evaluate: Evaluate, zero: int, low: int, high: int, saturates: bool, once: bool) -> None:
    """Every result changes where the reference's does, for all shifts that there may be."""
    cases, due = [], []
    for mantissa in MANTISSAS:
        for shift in EVERY_SHIFT:
            x = near_the_changes(mantissa, shift)
            floats = byte_multipliers(
                np.array(mantissa), np.array(shift), zero, (low, high), saturates=saturates, once=once
            )
            words = np.array([mantissa, *floats.view(np.int32)], np.int32)
            both = np.zeros((x.size, 2, 4), np.int32)  # vec4s of src
            both[:, 0, 0], both[:, 0, 1:], both[:, 1, 0] = x, words[:3], words[3]
            cases.append(both.reshape(-1, 4))
            multiply = multiply_once_by_quantized_multiplier if once else multiply_by_quantized_multiplier
            due.append(np.clip(multiply(x, mantissa, shift) + zero, low, high))
    numbers = "ivec4(src[i & ~1u].x), vec4(src[i & ~1u].x)"
    floats_of = (f"intBitsToFloat(ivec4({word}))" for word in ("src[i & ~1u].z", "src[i & ~1u].w", "src[i | 1u].x"))
    by = f"ByteMultiplier(ivec4(src[i & ~1u].y), {', '.join(floats_of)})"
    nonnegative = str(zero <= low).lower()
    product = f"{{}}({numbers}, {by}, {low}, {high}, {nonnegative}, {str(once).lower()})"
    sources, constants = np.concatenate(cases), {SATURATES: saturates}
    low_bytes = product.format("multiply_to_low_bytes")
    packed = f"ivec4(pack_low_bytes({low_bytes}, 0u), pack_low_bytes({low_bytes}, 0x80808080u), 0, 0)"
    expression = f"(i & 1u) == 0u ? {product.format('multiply_to_bytes')} : {packed}"
    actual = evaluate(REQUANTISE, expression, sources, "ivec4", "ivec4", constants=constants)
    results = np.concatenate(due)
    np.testing.assert_array_equal(actual[::2], np.repeat(results[:, np.newaxis], 4, axis=1))
    words = results.astype(np.uint32) * np.uint32(0x01010101)
    np.testing.assert_array_equal(actual[1::2, 0].view(np.uint32), words)
    np.testing.assert_array_equal(actual[1::2, 1].view(np.uint32), words ^ np.uint32(0x80808080))


def test_the_error_of_floats_is_below_what_multiply_to_bytes_assumes() -> None:
    """Wherever a device rounds each operation to: the bounds are those of the comment there."""
    error = 257 * 3 * 2.0**-23 + 2.0**-16 + 2 * 2.0**-15
    assert error < BYTE_ERROR
    for shift in EVERY_SHIFT:
        assert 2.0**30 + (BYTE_ERROR + error) * 2.0 ** (31 - shift) < 2.0**31
        assert 2 ** (31 - shift) % 2**32 == 0


@pytest.mark.parametrize(("zero", "low", "high"), RANGES)
def test_bytes_are_beyond_what_roundings_can_be_or_right(evaluate: Evaluate, zero: int, low: int, high: int) -> None:
    """The right bytes never are, and others are unless the scaled sum is about halfway between both bytes."""
    cases, is_close = [], []
    for mantissa in MANTISSAS:
        for shift in (-31, -22, *EVERY_SHIFT, -1, 0, 1, 3):
            x = near_the_changes(mantissa, shift)
            due = np.clip(multiply_by_quantized_multiplier(x, mantissa, shift) + zero, low, high)
            exact = np.clip(x.astype(np.float64) * mantissa * 2.0 ** (shift - 31) + zero, low, high)
            most = 0.5 + 2 * BYTE_ERROR + (2.0 ** (shift - 1) if shift < 0 else 0.0)
            for change in (0, 1, -1, 77):
                result = np.clip(due + change, 0, 255)
                cases.append(np.stack([x, np.full_like(x, mantissa), np.full_like(x, shift), result], 1))
                is_close.append(np.where(result == due, 1, np.where(abs(result - exact) > most, 0, -1)))
    bounds = f"byte_bounds(ivec4(src[i].y), ivec4(src[i].z), {zero}, {low}, {high})"
    expression = f"int(is_beyond({bounds}, vec4(src[i].x), ivec4(src[i].w)))"
    actual = evaluate(REQUANTISE, expression, np.concatenate(cases), "ivec4", "int")
    known = np.concatenate(is_close)
    assert not actual[known == 1].any()
    assert actual[known == 0].all()


@pytest.mark.parametrize("place", range(4))
def test_each_byte_of_a_word_may_be_beyond(evaluate: Evaluate, place: int) -> None:
    mantissa, shift = MANTISSAS[3], -6
    x = np.arange(-3000, 3000, 7)
    due = np.clip(multiply_by_quantized_multiplier(x, mantissa, shift) + 100, 0, 255)
    bounds = f"byte_bounds(ivec4({mantissa}), ivec4({shift}), 100, 0, 255)"
    wrong = f"ivec4(equal(ivec4({place}), ivec4(0, 1, 2, 3))) * 2 * src[i].z"
    expression = f"int(is_beyond({bounds}, vec4(src[i].x), ivec4(src[i].y) + {wrong}))"
    cases = np.concatenate([np.stack([x, due, np.full(x.size, sign), x], 1) for sign in (0, 1, -1)])
    actual = evaluate(REQUANTISE, expression, cases, "ivec4", "int")
    np.testing.assert_array_equal(actual, cases[:, 2] != 0)


@pytest.mark.parametrize("small", [False, True])
def test_one_rounding(evaluate: Evaluate, small: bool) -> None:
    cases = []
    for mantissa in MANTISSAS:
        for shift in range(-29, 1) if small else (*range(-31, 1), 1, 4):
            x = near_the_changes(mantissa, shift)
            if shift > 0:
                x = x >> shift + 1
            cases.append(np.stack([x, np.full_like(x, mantissa), np.full_like(x, shift), x], 1))
    src = np.concatenate(cases)
    by = "small_multiplier_once(ivec4(src[i].y), ivec4(src[i].z))"
    slow = "multiply_once_by_quantized_multiplier(ivec4(src[i].x), ivec4(src[i].y), ivec4(src[i].z))"
    expression = f"multiply_small(ivec4(src[i].x), {by}, false)" if small else slow
    actual = evaluate(REQUANTISE, expression, src, "ivec4", "ivec4")
    due = multiply_once_by_quantized_multiplier(src[:, 0], src[:, 1].astype(np.int64), src[:, 2])
    np.testing.assert_array_equal(actual[:, 0], due)


@pytest.mark.parametrize("half_products", [0, 1])
def test_high_product(evaluate: Evaluate, half_products: int) -> None:
    rng = np.random.default_rng(5)
    edges = np.array([*range(-3, 4), 0x7FFF, 0x8000, -0x7FFF, -0x8000, -0x8001, 0xFFFF, 0x10000, LARGEST, -LARGEST - 1])
    x = np.concatenate([np.repeat(edges, 40), rng.integers(-LARGEST - 1, LARGEST + 1, 20000)])
    mantissas = rng.integers(2**30, 2**31, x.size)
    mantissas[: edges.size * 40 : 4], mantissas[1 : edges.size * 40 : 4] = 2**31 - 1, 2**30 + 0xFFFF
    cases = np.stack([x, mantissas, x, x], 1)
    expression = "high_product(ivec4(src[i].x), ivec4(src[i].y))"
    constants = {HALF_PRODUCTS: half_products}
    actual = evaluate(REQUANTISE, expression, cases, "ivec4", "ivec4", constants=constants)
    np.testing.assert_array_equal(actual[:, 0], x * mantissas >> 30)
