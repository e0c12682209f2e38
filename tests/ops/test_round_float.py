"""ROUND_FLOAT against the conversions of ml_dtypes, for all numbers of FLOAT16 and for others around every tie."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError
from nnvk.ops.extension.round_float import Overflow
from nnvk.types.extension import ExtendedOperationCode

ml_dtypes = pytest.importorskip("ml_dtypes")

ROUND_FLOAT = ExtendedOperationCode.ROUND_FLOAT
FORMATS = {
    "bfloat16": Overflow.INFINITY,
    "float8_e4m3fn": Overflow.NAN,
    "float8_e4m3fnuz": Overflow.NAN,
    "float8_e5m2": Overflow.INFINITY,
    "float8_e5m2fnuz": Overflow.NAN,
    "float4_e2m1fn": Overflow.SATURATE,
}


def numbers(format_):
    every = np.arange(1 << 16, dtype=np.uint16)
    kept = (every if format_ == "bfloat16" else every[:256]).astype(np.uint16)
    if format_ == "float4_e2m1fn":
        kept = kept[:16]
    width = np.dtype(format_).itemsize
    own = kept.astype(f"u{width}").view(format_).astype(np.float32)
    own = np.sort(own[np.isfinite(own)])
    ties = ((own[1:].astype(np.float64) + own[:-1]) / 2).astype(np.float32)
    beside = np.concatenate([np.nextafter(ties, np.float32(sign)) for sign in (-np.inf, np.inf)])
    rest = np.array([np.inf, -np.inf, np.nan, 1e-45, -1e-39, 3.4e38, 0.0], np.float32)
    return np.concatenate([own, ties, beside, every.view(np.float16).astype(np.float32), rest])


@pytest.mark.parametrize("format_", FORMATS)
def test_like_ml_dtypes(ops, format_):
    info = ml_dtypes.finfo(format_)
    x = numbers(format_)
    if format_ == "float4_e2m1fn":
        x = x[~np.isnan(x)]
    with np.errstate(all="ignore"):
        expected = x.astype(format_).astype(np.float32)
    overflow = FORMATS[format_]
    (result,) = ops.run(
        ROUND_FLOAT, x, int(info.nmant), int(np.log2(float(info.smallest_normal))), float(info.max), int(overflow)
    )
    np.testing.assert_array_equal(result, expected)
    (result,) = ops.run(ROUND_FLOAT, x, int(info.nmant), int(np.log2(float(info.smallest_normal))), float(info.max), 0)
    finite = np.abs(expected) <= float(info.max)
    np.testing.assert_array_equal(result[finite], expected[finite])
    beyond = ~finite & ~np.isnan(x)
    np.testing.assert_array_equal(result[beyond], np.copysign(np.float32(info.max), x[beyond]))


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ((0, -6, 448.0), "mantissa_bits must be in .1, 23., got 0"),
        ((23, -6, 448.0), "mantissa_bits must be in .1, 23., got 23"),
        ((7, -120, 448.0), "least_exponent must be -126, or -119 to 127, got -120"),
        ((7, -127, 448.0), "least_exponent must be -126, or -119 to 127, got -127"),
        ((3, -6, -1.0), "largest must be positive and finite, got -1.0"),
        ((3, -6, 448.0, 3), "overflow must be 0 to 2, got 3"),
    ],
)
def test_formats_that_there_are_not(ops, parameters, said):
    with pytest.raises(NnapiError, match=said):
        ops.run(ROUND_FLOAT, np.zeros(3, np.float32), *parameters)
