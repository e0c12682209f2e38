"""MEAN and the REDUCE family."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

rng = np.random.default_rng(13)

AXES = [
    pytest.param((3, 5, 7), (0,), (5, 7), id="first"),
    pytest.param((3, 5, 7), (-1,), (3, 5), id="last_negative"),
    pytest.param((3, 5, 7), (2, 0, 0, -1), (5,), id="repeated"),
    pytest.param((2, 3, 1, 5), (1, 2), (2, 5), id="middle_of_rank_4"),
    pytest.param((3, 5), (0, 1), (1,), id="all"),
    pytest.param((3, 5), (), (3, 5), id="none"),
]


def ints(*numbers):
    return np.array(numbers, np.int32)


def groups(source, axes):
    """The elements that fold into each element of the output, in the output's order."""
    folded = {axis % source.ndim for axis in axes}
    kept = [range(size) if axis not in folded else [slice(None)] for axis, size in enumerate(source.shape)]
    return [source[position].ravel().tolist() for position in itertools.product(*kept)]


def product(values):
    return math.prod(values)


FOLDS = {
    OperationCode.REDUCE_MAX: max,
    OperationCode.REDUCE_MIN: min,
    OperationCode.REDUCE_SUM: math.fsum,
    OperationCode.REDUCE_PROD: product,
    OperationCode.MEAN: lambda values: math.fsum(values) / len(values),
}


@pytest.mark.parametrize(("shape", "axes", "expected"), AXES)
@pytest.mark.parametrize("keep", [False, True], ids=["drop", "keep"])
@pytest.mark.parametrize("code", FOLDS, ids=lambda code: code.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_floats(ops, code, shape, axes, expected, keep, dtype):
    source = rng.standard_normal(shape).astype(dtype)
    (result,) = ops.run(code, source, ints(*axes), int(keep) if code is OperationCode.MEAN else keep)
    if keep:
        expected = tuple(1 if axis in {a % len(shape) for a in axes} else size for axis, size in enumerate(shape))
    assert result.shape == expected
    oracle = [FOLDS[code](group) for group in groups(source, axes)]
    assert np.allclose(result.ravel(), oracle, rtol=2e-6 if dtype is np.float32 else 1e-3, atol=1e-6)


@pytest.mark.parametrize(("shape", "axes", "expected"), AXES)
@pytest.mark.parametrize(("code", "fold"), [(OperationCode.REDUCE_ALL, all), (OperationCode.REDUCE_ANY, any)])
def test_truths(ops, code, fold, shape, axes, expected):
    source = rng.random(shape) < 0.7
    (result,) = ops.run(code, source, ints(*axes), False)
    assert result.shape == expected
    assert result.ravel().tolist() == [fold(group) for group in groups(source, axes)]


@pytest.mark.parametrize(("shape", "axes", "expected"), AXES)
@pytest.mark.parametrize("zero_point", [0, 128, 255])
def test_mean_of_steps_drops_the_fraction(ops, shape, axes, expected, zero_point):
    """As C divides whole numbers, in Android's CPU code: towards 0, which need not be the zero point."""
    source = rng.integers(0, 256, shape, dtype=np.uint8)
    (result,) = ops.run(OperationCode.MEAN, (source, 0.5, zero_point), ints(*axes), 0)
    assert result.ravel().tolist() == [sum(group) // len(group) for group in groups(source, axes)]
    signed = (source.astype(int) - 128).astype(np.int8)
    (result,) = ops.run(OperationCode.MEAN, (signed, 0.5, zero_point - 128), ints(*axes), 0)
    assert result.shape == expected
    assert result.ravel().tolist() == [math.trunc(Fraction(sum(group), len(group))) for group in groups(signed, axes)]


def test_mean_of_steps_as_androids_cpu(ops):
    source = np.array([[[162, 164], [163, 171]], [[165, 168], [170, 222]]], np.uint8)
    (result,) = ops.run(OperationCode.MEAN, (source, 0.8, 5), ints(0), 0)
    assert result.tolist() == [[163, 166], [166, 196]]


@pytest.mark.parametrize(("shape", "axes", "expected"), AXES)
@pytest.mark.parametrize("zero_point", [0, 128, 255])
def test_rounded_mean_rounds_about_the_zero_point_signed_or_not(ops, shape, axes, expected, zero_point):
    source = rng.integers(0, 256, shape, dtype=np.uint8)
    (result,) = ops.run(ExtendedOperationCode.ROUNDED_MEAN, (source, 0.5, zero_point), ints(*axes), 0)
    for got, group in zip(result.ravel().tolist(), groups(source, axes), strict=True):
        assert abs(got - Fraction(sum(group), len(group))) <= Fraction(3, 4)  # two roundings
    signed = (source.astype(int) - 128).astype(np.int8)
    (shifted,) = ops.run(ExtendedOperationCode.ROUNDED_MEAN, (signed, 0.5, zero_point - 128), ints(*axes), 0)
    assert (shifted.astype(int) + 128).tolist() == result.tolist()


@pytest.mark.parametrize("code", [OperationCode.REDUCE_MAX, OperationCode.REDUCE_MIN], ids=lambda code: code.name)
def test_quantised_extremes_are_steps(ops, code):
    source = rng.integers(-128, 128, (3, 7), dtype=np.int8)
    (result,) = ops.run(code, (source, 0.5, 3), ints(1), True)
    assert result.tolist() == [[FOLDS[code](row)] for row in source.tolist()]


@pytest.mark.parametrize("code", [OperationCode.MEAN, OperationCode.REDUCE_SUM], ids=lambda code: code.name)
def test_float16_is_summed_in_more_precision(ops, code):
    source = np.full((4099,), 0.1, np.float16)
    (result,) = ops.run(code, source, ints(0), 0 if code is OperationCode.MEAN else False)
    exact = float(np.float16(0.1)) * (1 if code is OperationCode.MEAN else source.size)
    assert result[0] == np.float16(exact)


def test_float16_sum_overflows_to_infinity(ops):
    (result,) = ops.run(OperationCode.REDUCE_SUM, np.full(3, 60000, np.float16), ints(0), False)
    assert np.isposinf(result[0])


def test_nothing_sums_to_zero_and_multiplies_to_one(ops):
    empty = np.zeros((3, 0), np.float32)
    assert ops.run(OperationCode.REDUCE_SUM, empty, ints(1), False)[0].tolist() == [0, 0, 0]
    assert ops.run(OperationCode.REDUCE_PROD, empty, ints(1), False)[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("code", "source", "axes", "message"),
    [
        pytest.param(OperationCode.MEAN, (3, 5), ints(2), r"axes must be in \[-2, 2\), got 2", id="axis"),
        pytest.param(
            OperationCode.REDUCE_MAX, (3, 5), np.zeros((1, 1), np.int32), "axes must have rank 1", id="axes_rank"
        ),
        pytest.param(OperationCode.REDUCE_SUM, (1,) * 5, ints(0), "input must have rank 1 to 4", id="rank_5"),
        pytest.param(
            OperationCode.REDUCE_MIN,
            (3, 0),
            ints(1),
            r"input must not be empty along axes \[1\], got \[3, 0\]",
            id="empty",
        ),
    ],
)
def test_errors(ops, code, source, axes, message):
    with pytest.raises(NnapiError, match=f"{code.name}: {message}") as error:
        ops.infer(code, np.zeros(source, np.float32), axes, 0 if code is OperationCode.MEAN else False)
    assert error.value.code is ResultCode.BAD_DATA
