"""``shaders/include/requantise.glsl`` against the reference's fixed-point arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnvk.ops.quant import multiply_by_quantized_multiplier

Evaluate = Callable[..., np.ndarray]
REQUANTISE = "requantise.glsl"
LARGEST = (1 << 29) - 1
MANTISSAS = (2**30, 2**30 + 1, 3 << 29, 1518500250, 1234567891, 2**31 - 65536, 2**31 - 129, 2**31 - 1)
HALF_PRODUCTS = 52
"""The number of the specialisation constant."""


def near_the_changes(mantissa: int, shift: int) -> np.ndarray:
    """The numbers on both sides of each change of a result of -300 to 300, and some others of all magnitudes."""
    changes = (np.arange(-300, 301) + 0.5) * (2.0 ** (31 - shift) / mantissa)
    near = np.floor(changes)[:, np.newaxis] + np.arange(-2, 4)
    rng = np.random.default_rng([mantissa, -shift])
    others = (2 ** rng.uniform(0, 29, 3000)).astype(np.int64) * rng.choice([1, -1], 3000)
    every = np.concatenate([near.reshape(-1), others, [0, LARGEST, -LARGEST], np.arange(-99, 100)])
    return np.clip(every, -LARGEST, LARGEST).astype(np.int32)


RANGES = [(0, 0, 255), (255, 0, 255), (121, 0, 255), (3, 3, 129), (128, 90, 91)]


@pytest.mark.parametrize(("zero", "low", "high"), RANGES)
def test_multiply_to_bytes(evaluate: Evaluate, zero: int, low: int, high: int) -> None:
    """Every result changes where the reference's does, for all shifts that there may be."""
    cases = []
    for mantissa in MANTISSAS:
        for shift in range(-10, -1):
            x = near_the_changes(mantissa, shift)
            cases.append(np.stack([x, *(np.full_like(x, each) for each in (mantissa, shift, zero))], 1))
    multiplier = "byte_multiplier(ivec4(src[i].y), ivec4(src[i].z), src[i].w, {})"
    due = [
        np.clip(multiply_by_quantized_multiplier(case[:, 0], int(case[0, 1]), int(case[0, 2])) + zero, low, high)
        for case in cases
    ]
    for nonnegative in ("false", "true") if zero <= low else ("false",):
        by = multiplier.format(nonnegative)
        expression = f"multiply_to_bytes(ivec4(src[i].x), {by}, {low}, {high}, {nonnegative})"
        actual = evaluate(REQUANTISE, expression, np.concatenate(cases), "ivec4", "ivec4")
        np.testing.assert_array_equal(actual[:, 0], np.concatenate(due))


def test_the_error_of_floats_is_below_what_multiply_to_bytes_assumes() -> None:
    """Wherever a device rounds each operation to: the bounds are those of the comment there."""
    assumed = 1 / 4096
    error = 257 * 3 * 2.0**-23 + 2 * 2.0**-15
    assert error < assumed
    for shift in range(-10, -1):
        assert 2.0**30 + (assumed + error) * 2.0 ** (31 - shift) < 2.0**31
        assert 2 ** (31 - shift) % 2**32 == 0


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
