"""Fixed-point functions."""

import math

import numpy as np
import pytest

from nnvk.ops import fixed_point

ALL = np.arange(-(2**15), 2**15)
SOME = np.unique(np.concatenate((ALL[::97], ALL[:3], ALL[-3:], np.arange(-40, 41))))


class Scalar:
    """gemmlowp's int16 functions, one number at a time, in the words of its source."""

    @staticmethod
    def product(a, b):
        if a == b == -32768:
            return 32767
        total = a * b
        total += 1 << 14 if total >= 0 else 1 - (1 << 14)
        return int(math.copysign(abs(total) >> 15, total))

    @staticmethod
    def multiply_by_pot(x, exponent):
        if exponent > 0:
            threshold = (1 << (15 - exponent)) - 1
            return 32767 if x > threshold else -32768 if x < -threshold else x << exponent
        mask = (1 << -exponent) - 1
        return (x >> -exponent) + ((x & mask) > (mask >> 1) + (x < 0))

    @classmethod
    def constant(cls, int32):
        return cls.multiply_by_pot(int32, -16)

    @classmethod
    def exp(cls, a, integer_bits):
        if a == 0:
            return 32767
        fraction_bits = 15 - integer_bits
        quarter = 1 << (fraction_bits - 2)
        below = (a & (quarter - 1)) - quarter
        x = cls.multiply_by_pot(below, integer_bits) + (1 << 12)
        x2 = cls.product(x, x)
        x3, x4 = cls.product(x2, x), cls.product(x2, x2)
        tail = cls.product(cls.multiply_by_pot(x4, -2) + x3, cls.constant(715827883)) + x2
        term = cls.constant(1895147668)
        result = min(term + cls.product(term, x + cls.multiply_by_pot(tail, -1)), 32767)
        factors = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
        for exponent, factor in enumerate(factors, -2):
            if integer_bits > exponent and (below - a) & (1 << (fraction_bits + exponent)):
                result = cls.product(result, cls.constant(factor))
        return 0 if integer_bits > 5 and a < -32 << fraction_bits else result

    @classmethod
    def reciprocal(cls, a):
        half = (a + 32767 + 1) // 2
        x = cls.constant(1515870810) + cls.product(half, cls.constant(-1010580540))
        for _ in range(3):
            x += cls.multiply_by_pot(cls.product(x, (1 << 13) - cls.product(half, x)), 2)
        return x

    @classmethod
    def logistic(cls, a, integer_bits):
        positive = cls.multiply_by_pot(cls.reciprocal(cls.exp(-abs(a), integer_bits)), 1)
        return 16384 if a == 0 else positive if a > 0 else 32767 - positive

    @classmethod
    def tanh(cls, a, integer_bits):
        magnitude = cls.multiply_by_pot(cls.reciprocal(cls.exp(-abs(a), integer_bits + 1)) - (1 << 13), 2)
        return 0 if a == 0 else magnitude if a > 0 else -magnitude


@pytest.mark.parametrize("integer_bits", range(7))
@pytest.mark.parametrize("name", ["logistic", "tanh"])
def test_bit_for_bit(name, integer_bits):
    expected = [getattr(Scalar, name)(int(a), integer_bits) for a in SOME]
    assert getattr(fixed_point, name)(SOME, integer_bits).tolist() == expected


@pytest.mark.parametrize("integer_bits", range(7))
def test_close_to_the_functions(integer_bits):
    x = ALL / 2 ** (15 - integer_bits)
    np.testing.assert_allclose(fixed_point.logistic(ALL, integer_bits) / 2**15, 1 / (1 + np.exp(-x)), atol=3e-4)
    np.testing.assert_allclose(fixed_point.tanh(ALL, integer_bits) / 2**15, np.tanh(x), atol=4e-4)
    negative = ALL[ALL <= 0]
    exact = np.exp(negative / 2 ** (15 - integer_bits))
    np.testing.assert_allclose(fixed_point.exp_of_negative(negative, integer_bits) / 2**15, exact, atol=1e-4)


def test_symmetry():
    positive = ALL[ALL > 0]
    assert np.array_equal(fixed_point.tanh(-positive, 3), -fixed_point.tanh(positive, 3))
    assert np.all(fixed_point.logistic(-positive, 3) + fixed_point.logistic(positive, 3) == 32767)


def test_products_and_shifts_saturate():
    assert fixed_point.multiply(np.array([-32768, 32767, -32768]), np.array([-32768, 32767, 32767])).tolist() == [
        32767,
        32766,
        -32767,
    ]
    assert fixed_point.rescale(np.array([20000, -20000, 100]), 4, 3).tolist() == [32767, -32768, 200]
    assert fixed_point.rescale(np.array([24, -24, 7, -8]), 0, 4).tolist() == [2, -2, 0, -1]


def test_inverse_square_root():
    x = np.unique(np.concatenate((np.arange(2000), np.geomspace(2000, 2**31 - 1, 3000).astype(np.int64))))
    mantissa, shift = fixed_point.inverse_square_root(x)
    assert mantissa.min() > 0 and mantissa.max() <= 2**31 - 1 and shift.max() <= 0
    np.testing.assert_allclose(mantissa / 2**31 * 2.0**shift, 1 / np.sqrt(np.maximum(x, 1)), rtol=3e-6)
