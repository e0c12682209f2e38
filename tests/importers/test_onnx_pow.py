"""Pow of ONNX against onnxruntime: powers that are exact, of real and of whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_turn import devices
from onnx_net import model, op
from onnx_oracle import actual, check

from nnvk.importers.onnx import OnnxImportError, load


@pytest.mark.parametrize("exponents", [np.float32, np.int32, np.int64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("constant", [False, True], ids=["input", "constant"])
def test_real_powers_that_are_exact(exponents: Any, constant: bool) -> None:
    base = np.array([12, -12, 3, 7, -3.5, 2, -2, 1e3, 0.5, 3453], np.float32)
    _check(base, np.array([4, 3, 5, 4, 4, -9, -9, 2, 30, 2], exponents), constant, tolerance=0)


def _check(base: np.ndarray, exponent: np.ndarray, constant: bool, **options: Any) -> None:
    inputs = {"base": (base.dtype, base.shape)}
    if not constant:
        inputs["exponent"] = (exponent.dtype, exponent.shape)
    net = model([op("Pow", "base exponent", "y")], inputs, ["y"], {"exponent": exponent} if constant else None)
    check(net, {"base": base} if constant else {"base": base, "exponent": exponent}, **options)


@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=lambda dtype: dtype.__name__)
def test_powers_of_whole_numbers(dtype: Any) -> None:
    """Constant powers from 1 to 3 are products, and others are onnxruntime's."""
    for exponent in (1, 2, 3):
        _check(np.arange(-5, 5, dtype=dtype).reshape(2, 5), np.array(exponent, dtype), True)
    for exponent in (np.array(4, dtype), np.array(2.5, np.float32), np.array([2, 3], dtype)):
        net = model([op("Pow", "base exponent", "y")], {"base": (dtype, (2, 2))}, ["y"], {"exponent": exponent})
        with pytest.raises(OnnxImportError, match=f"NNAPI raises no {dtype.__name__} to a power"):
            load(net.SerializeToString())


def test_powers_of_infinities_and_zeros() -> None:
    special = np.array([-np.inf, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3, np.inf], np.float32)
    base, exponent = np.repeat(special, special.size), np.tile(special, special.size)
    net = model([op("Pow", "base exponent", "y")], dict.fromkeys(("base", "exponent"), (np.float32, base.shape)), ["y"])
    with np.errstate(all="ignore"):
        wanted = np.power(base.astype(np.float64), exponent).astype(np.float32)
    for device in devices():
        (got,) = actual(load(net.SerializeToString()), {"base": base, "exponent": exponent}, device)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))
