"""Elementary functions of the shaders over their whole range, against float64."""

import math

import numpy as np
import pytest
from builder import Builder
from samples import compiled, f32

import nnvk
from nnvk import ExtendedOperationCode, OperationCode

INFINITY, NAN = np.inf, np.nan
SPECIAL = np.array([0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -1.0, 1e-38, 1e-44, -1e-44, 3.4e38, -3.4e38], np.float32)


def compute(code, *inputs, parameter=None):
    """One operation on float arrays of one shape, on the GPU."""
    build, type_ = Builder(), f32(*inputs[0].shape)
    sources = [build.operand(type_) for _ in inputs]
    parameters = [] if parameter is None else [build.value(parameter)]
    model = build.finish(sources, [build.operation(code, [*sources, *parameters], type_)])
    return nnvk.run(compiled(model, nnvk.get_device("vulkan-0")), inputs)[0]


def sweep(low, high, count=20011):
    """Evenly spread numbers, numbers of all magnitudes on both sides of 0, and the special ones."""
    rng = np.random.default_rng(5)
    magnitudes = np.exp(rng.uniform(np.log(1e-38), np.log(max(abs(low), abs(high))), count)).astype(np.float32)
    spread = np.linspace(low, high, count).astype(np.float32)
    every = np.concatenate([spread, magnitudes, -magnitudes, SPECIAL])
    return every[(np.isnan(every) | np.isinf(every)) | ((every >= low) & (every <= high))]


EXTENDED = ExtendedOperationCode
FUNCTIONS = {
    EXTENDED.ACOS: (np.arccos, (-1.0, 1.0)),
    EXTENDED.ACOSH: (np.arccosh, (1.0, 3e38)),
    EXTENDED.ASIN: (np.arcsin, (-1.0, 1.0)),
    EXTENDED.ASINH: (np.arcsinh, (-3e38, 3e38)),
    EXTENDED.ATAN: (np.arctan, (-3e38, 3e38)),
    EXTENDED.ATANH: (np.arctanh, (-1.0, 1.0)),
    EXTENDED.CBRT: (np.cbrt, (-3e38, 3e38)),
    EXTENDED.COS: (np.cos, (-1e6, 1e6)),
    EXTENDED.COSH: (np.cosh, (-88.0, 88.0)),
    EXTENDED.MISH: (lambda x: x * np.tanh(np.logaddexp(x, 0)), (-80.0, 3e38)),
    EXTENDED.SINH: (np.sinh, (-88.0, 88.0)),
    EXTENDED.SOFTPLUS: (lambda x: np.logaddexp(x, 0), (-80.0, 3e38)),
    OperationCode.ABS: (np.abs, (-3e38, 3e38)),
    OperationCode.EXP: (np.exp, (-110.0, 88.5)),
    OperationCode.FLOOR: (np.floor, (-1e7, 1e7)),
    OperationCode.LOG: (np.log, (0.0, 3e38)),
    OperationCode.LOGISTIC: (lambda x: 1 / (1 + np.exp(-x)), (-110.0, 110.0)),
    OperationCode.NEG: (np.negative, (-3e38, 3e38)),
    OperationCode.RSQRT: (lambda x: 1 / np.sqrt(x), (1e-30, 3e38)),
    OperationCode.SIN: (np.sin, (-1e6, 1e6)),
    OperationCode.SQRT: (np.sqrt, (0.0, 3e38)),
    OperationCode.TANH: (np.tanh, (-20.0, 20.0)),
}


@pytest.mark.parametrize("code", FUNCTIONS, ids=lambda code: code.name)
def test_function(code):
    function, (low, high) = FUNCTIONS[code]
    source = sweep(low, high)
    with np.errstate(all="ignore"):
        expected = function(source.astype(np.float64)).astype(np.float32)
    agree(compute(code, source), expected, source)


@pytest.mark.parametrize("huge", [8193.5, 1e5, 1e10, 1e20, 3.4e38], ids=str)
def test_sine_of_huge_angles(huge):
    source = np.float32(huge) * np.linspace(0.5, 1.0, 501, dtype=np.float32)
    np.testing.assert_allclose(compute(OperationCode.SIN, source), np.sin(source.astype(np.float64)), rtol=0, atol=3e-7)


@pytest.mark.parametrize("alpha", [1.0, 0.3, -0.5])
def test_elu(alpha):
    source = sweep(-110.0, 110.0)
    wide = source.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = np.maximum(wide, 0) + np.minimum(alpha * np.expm1(np.minimum(wide, 0)), 0)
    agree(compute(OperationCode.ELU, source, parameter=alpha), expected.astype(np.float32), source)


def test_error_function():
    source = sweep(-9.0, 9.0)
    expected = np.array([math.erf(x) for x in source.tolist()])
    actual = compute(ExtendedOperationCode.ERF, source)
    of_subnormals = 2 / math.sqrt(math.pi) * float(np.finfo(np.float32).tiny)  # which a device may take for zero
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=of_subnormals)


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu(approximate):
    source = np.concatenate([sweep(-14.0, 14.0), np.array([99.0, -99.0, 101.0, -101.0, 1e20, -1e20], np.float32)])
    wide = source.astype(np.float64)
    with np.errstate(all="ignore"):
        if approximate:
            weight = (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))) / 2
        else:
            weight = np.array([math.erfc(-x * math.sqrt(0.5)) for x in wide.tolist()]) / 2
        expected = np.where(np.isneginf(wide), -0.0, wide * weight)
    actual = compute(ExtendedOperationCode.GELU, source, parameter=approximate)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_pow():
    rng = np.random.default_rng(7)
    count = 60007
    base = np.exp(rng.uniform(-80, 80, count)).astype(np.float32)
    exponent = (rng.uniform(-86, 86, count) / np.log(base.astype(np.float64))).astype(np.float32)
    base[: count // 3] = 1 + rng.uniform(-1e-3, 1e-3, count // 3).astype(np.float32)  # near 1 the most is lost
    exponent[: count // 3] = rng.uniform(-8e4, 8e4, count // 3)
    signs = rng.random(count) < 0.3
    base[signs], exponent[signs] = -base[signs], np.rint(exponent[signs])
    special = np.array([*SPECIAL, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e9], np.float32)
    base = np.concatenate([base, np.repeat(special, special.size)])
    exponent = np.concatenate([exponent, np.tile(special, special.size)])
    with np.errstate(all="ignore"):
        expected = np.power(base.astype(np.float64), exponent.astype(np.float64)).astype(np.float32)
    agree(compute(OperationCode.POW, base, exponent), expected, base, exponent)


def test_powers_that_floats_hold_are_exact():
    """All odd bases whose powers have 24 bits at most, times powers of two, of both signs; and powers of two."""
    pairs = []
    for exponent in range(2, 16):
        largest = int((2**24) ** (1 / exponent)) + 1
        bases = [number for number in range(3, largest + 1, 2) if number**exponent < 2**24]
        shifts = [shift for shift in (-25, -7, -1, 0, 1, 2, 10, 40) if abs(shift * exponent) < 100]
        pairs += [(number * 2.0**shift, exponent) for number in bases for shift in shifts]
    pairs += [(-base, exponent) for base, exponent in pairs]
    pairs += [(2.0**a, b) for a in range(-126, 128) for b in range(-126, 128) if -126 <= a * b <= 127]
    base, exponent = np.array(pairs, np.float64).T
    expected = base**exponent
    single = np.abs(expected) < np.finfo(np.float32).max
    base, exponent, expected = (array[single].astype(np.float32) for array in (base, exponent, expected))
    assert expected.size > 20_000 and (12, 4) in pairs
    np.testing.assert_array_equal(compute(OperationCode.POW, base, exponent), expected)


def agree(actual, expected, *sources):
    """To 5 units in the last place, as Android's tests ask; a device may flush numbers that are not normal to 0."""
    with np.errstate(all="ignore"):
        close = np.abs(actual.astype(np.float64) - expected) <= 1.2e-38 + 5 * 1.1920929e-7 * np.abs(expected)
    tiny = np.any([(np.abs(source) < 1.2e-38) & (source != 0) for source in sources], axis=0)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    wrong = np.flatnonzero(~(close | same | tiny))
    rows = [([source[k] for source in sources], float(actual[k]), float(expected[k])) for k in wrong[:8]]
    assert not wrong.size, f"{wrong.size} of {actual.size} differ: (inputs, actual, expected) {rows}"
