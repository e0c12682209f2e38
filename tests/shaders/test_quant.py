"""``shaders/include/quant.glsl`` against the reference's fixed-point arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnvk.ops.quant import multiply_by_quantized_multiplier, round_half_away, rounding_divide_by_pot

Evaluate = Callable[..., np.ndarray]
QUANT = "quant.glsl"
EDGES = [0, 1, 2, 3, 63, 64, 65, 127, 128, 255, 65025, 2**20, 2**24 + 1, 2**30 - 1, 2**30, 2**31 - 2, 2**31 - 1]


def integers() -> np.ndarray:
    """Numbers of all magnitudes, in vec4s."""
    rng = np.random.default_rng(2)
    magnitudes = (2 ** rng.uniform(0, 31, 4000)).astype(np.int64)
    some = np.concatenate([EDGES, np.arange(-600, 600), magnitudes]) * rng.choice([1, -1], 600 * 2 + len(EDGES) + 4000)
    return np.concatenate([some, [-edge for edge in EDGES], [-(2**31)]])[: 4 * (some.size // 4)].astype(np.int32)


@pytest.mark.parametrize("form", ["int", "ivec4"])
@pytest.mark.parametrize("exponent", [0, 1, 7, 31])
def test_rounding_divide_by_pot(evaluate: Evaluate, form: str, exponent: int) -> None:
    x = integers()
    actual = evaluate(QUANT, f"rounding_divide_by_pot(src[i], {form}({exponent}))", x, form, form)
    np.testing.assert_array_equal(actual.reshape(-1), rounding_divide_by_pot(x, exponent))


@pytest.mark.parametrize("form", ["int", "ivec4"])
@pytest.mark.parametrize("mantissa", [2**30, 1518500250, 2**31 - 1])
@pytest.mark.parametrize("shift", [-31, -8, 0])
def test_multiplier_below_one(evaluate: Evaluate, form: str, mantissa: int, shift: int) -> None:
    x = integers()
    expression = f"multiply_by_quantized_multiplier(src[i], {form}({mantissa}), {form}({shift}))"
    actual = evaluate(QUANT, expression, x, form, form)
    np.testing.assert_array_equal(actual.reshape(-1), multiply_by_quantized_multiplier(x, mantissa, shift))


@pytest.mark.parametrize("form", ["int", "ivec4"])
@pytest.mark.parametrize("shift", [1, 14, 22])
def test_multiplier_above_one_saturates(evaluate: Evaluate, form: str, shift: int) -> None:
    """Results that leave eight bits need not be right, but must stay on their side, zero point included."""
    x, mantissa = integers(), 1518500250
    expression = f"multiply_by_quantized_multiplier(src[i], {form}({mantissa}), {form}({shift})) + 255"
    actual = evaluate(QUANT, expression, x, form, form).reshape(-1) - 255
    exact = np.array([int(value) * mantissa * 2**shift / 2**31 for value in x])
    small = np.abs(exact) < 2**20
    np.testing.assert_array_less(np.abs(actual[small] - exact[small]), 1.001)
    assert (np.sign(actual[~small]) == np.sign(exact[~small])).all()
    assert (np.abs(actual[~small].astype(np.int64)) > 2**19).all()


@pytest.mark.parametrize("form", ["float", "vec4"])
def test_round_half_away(evaluate: Evaluate, form: str) -> None:
    halves = np.arange(-1000, 1000, dtype=np.float32) / 4
    below, above = np.nextafter(halves, np.float32(-1e9)), np.nextafter(halves, np.float32(1e9))
    x = np.concatenate([halves, below, above, [2.0**23 + 1, -(2.0**23) - 1, 1e20, 0.49999997]]).astype(np.float32)
    actual = evaluate(QUANT, "round_half_away(src[i])", x, form, form).reshape(-1)
    exact = round_half_away(x.astype(np.float64))
    np.testing.assert_array_equal(actual, exact)


def test_bytes_go_through_words_unharmed(evaluate: Evaluate) -> None:
    words = np.random.default_rng(3).integers(0, 2**32, 4000, np.uint32)
    unsigned, signed = words.view(np.uint8), words.view(np.int8)
    unpacked = evaluate(QUANT, "unpack_bytes(src[i], 0u)", words, "uint", "ivec4")
    np.testing.assert_array_equal(unpacked.reshape(-1), unsigned)
    unpacked = evaluate(QUANT, "unpack_bytes(src[i], 0x80808080u)", words, "uint", "ivec4")
    np.testing.assert_array_equal(unpacked.reshape(-1), signed.astype(int) + 128)
    unpacked = evaluate(QUANT, "unpack_signed_bytes(src[i])", words, "uint", "ivec4")
    np.testing.assert_array_equal(unpacked.reshape(-1), signed)
    for mask in ("0u", "0x80808080u"):
        packed = evaluate(QUANT, f"pack_bytes(unpack_bytes(src[i], {mask}), {mask})", words, "uint", "uint")
        np.testing.assert_array_equal(packed, words)


@pytest.mark.parametrize("shift", range(4))
def test_bytes_at_any_place(evaluate: Evaluate, shift: int) -> None:
    words = np.random.default_rng(4).integers(0, 2**32, 1001, np.uint32)
    every = words.view(np.uint8)
    single = evaluate(QUANT, f"LOAD_BYTE(src, 0u, 4u * i + {shift}u, 0u)", words, "uint", "int")
    np.testing.assert_array_equal(single, every[shift::4])


def test_halves_are_rounded_to_nearest(evaluate: Evaluate) -> None:
    rng = np.random.default_rng(5)
    every = np.arange(2**16, dtype=np.uint32).astype(np.uint16).view(np.float16).astype(np.float32)
    any_bits = rng.integers(0, 2**32, 20000, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        between = (every + np.roll(every, 1)) / 2  # ties
        x = np.concatenate([every, between, np.nextafter(between, np.float32(0)), any_bits, [65519.99, 65520, -65536]])
        x = x[: x.size // 4 * 4].astype(np.float32)
    bits = evaluate(QUANT, "ivec4(half_bits(src[i]))", x, "vec4", "ivec4").reshape(-1).astype(np.uint16)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(bits[number], expected.view(np.uint16)[number])
    assert np.isnan(bits.view(np.float16)[~number]).all()


def test_halves_and_shorts_go_through_words_unharmed(evaluate: Evaluate) -> None:
    words = np.random.default_rng(6).integers(0, 2**32, 4000, np.uint32)
    for mask in ("0u", "0x80008000u"):
        expression = f"int(pack_shorts(unpack_shorts(uvec2(src[i]), {mask}), {mask}).x)"
        np.testing.assert_array_equal(evaluate(QUANT, expression, words, "uint", "int").view(np.uint32), words)
    unpacked = evaluate(QUANT, "unpack_float16(uvec2(src[i]))", words, "uint", "vec4")
    number = ~np.isnan(words.view(np.float16).astype(np.float32)).reshape(-1, 2)
    expected = words.view(np.float16).astype(np.float32).reshape(-1, 2)
    np.testing.assert_array_equal(unpacked[:, :2][number], expected[number])


@pytest.mark.parametrize("divisor", [3.0, 0.1, 0.0173, 1e-20, 7e19])
def test_quotients_are_the_nearest(evaluate: Evaluate, divisor: float) -> None:
    b = np.float32(divisor)
    x = (np.arange(-2000, 2000, dtype=np.float32) / 4 * b).astype(np.float32)
    actual = evaluate(QUANT, f"exact_quotient(src[i], {float(b)!r})", x, "vec4", "vec4").reshape(-1)
    np.testing.assert_array_equal(actual, x / b)


def test_quotients_of_any_numbers_are_the_nearest(evaluate: Evaluate) -> None:
    rng = np.random.default_rng(7)
    size = 100_000, 2
    pairs = rng.uniform(1, 2, size) * 2.0 ** rng.integers(-40, 40, size) * rng.choice([-1, 1], size)
    pairs = np.concatenate([pairs, rng.integers(-99, 99, size), [(np.inf, 3), (3, np.inf), (0, 0), (1, 0)]])
    src = pairs.astype(np.float32)
    actual = evaluate(QUANT, "exact_quotient(src[i].xyzw, src[i].yxwz)", src, "vec4", "vec4").reshape(-1, 2)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(actual, src / src[:, ::-1])
