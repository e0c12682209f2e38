"""DYNAMIC_QUANTIZE on the GPU: the reference's bits in one dispatch and in two, around ties, for special numbers."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.check.model_rows import Row, execute, parse, reference

F = np.float32


def check(vulkan, x):
    row = Row(parse(f"DYNAMIC_QUANTIZE f32[{','.join(map(str, x.shape))}] -> f32 f32 f32").model, [x])
    given = [np.zeros(x.shape, F), np.zeros(1, F), np.zeros(1, F)]
    execute(vulkan, row, given)
    for got, expected in zip(given, reference(row), strict=True):
        np.testing.assert_array_equal(got, expected)
    return given


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5, 8), (2, 13, 17, 23), (1, 28, 28, 64), (300_001,), (400_000,)])
def test_like_the_reference(vulkan, shape):
    numbers = np.random.default_rng(len(shape) + shape[-1]).normal(1, 3, shape)
    levels, scale, zero_point = check(vulkan, numbers.astype(F))
    assert 0 <= zero_point <= 255 and np.abs(levels * scale - numbers).max() <= 0.5001 * scale


@pytest.mark.parametrize("count", [510, 5100, 60_180])
def test_ties(vulkan, count):
    """Halves between levels, of both signs, go to the even one."""
    numbers = np.resize(np.arange(-255, 255) / 2, count).astype(F)
    levels, scale, zero_point = check(vulkan, np.append(numbers, F(127.5)))
    assert (scale, zero_point) == (1, 128)
    np.testing.assert_array_equal(levels[:-1], np.maximum(np.rint(numbers), -128))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([0, 0, 0, -0.0], (1, 0)),
        ([2, 4, 510, 3], (2, 0)),
        ([-2, -4, -510, -3], (2, 255)),
        ([3e38, -3e38, 1, 2], (np.inf, None)),
        ([1, np.nan, 2, 3], (np.nan, None)),
        ([1, np.inf, 2, 3], (np.inf, 0)),
    ],
    ids=str,
)
def test_ranges(vulkan, numbers, expected):
    _, scale, zero_point = check(vulkan, np.array(numbers, F))
    np.testing.assert_array_equal(scale[0], F(expected[0]))
    assert expected[1] is None or zero_point[0] == expected[1]
