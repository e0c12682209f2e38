"""Logic on the bits of integers, against LiteRT, and random numbers, of which LiteRT has others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from tflite_net import Net, T, write
from tflite_oracle import actual, boolean, check, f32, i32, i32c, out, scalar

from nnvk.importers.tflite import TfliteImportError, load

NUMBERS = np.array([0, 1, -1, 2**31 - 1, -(2**31), 0x55555555, -0x12345678], np.int32)


def test_xor() -> None:
    feed = [NUMBERS, NUMBERS[::-1].copy()]
    check("BITWISE_XOR", [i32(7), i32(7)], out("INT32"), "BitwiseXorOptions", atol=0, feed=feed)
    feed = [NUMBERS.reshape(7, 1), NUMBERS.reshape(1, 7)]
    check("BITWISE_XOR", [i32(7, 1), i32(1, 7)], out("INT32"), "BitwiseXorOptions", atol=0, feed=feed)


def test_right_shift() -> None:
    feed = [NUMBERS, np.array([0, 1, 5, 30, 31, 16, 7], np.int32)]
    check("RIGHT_SHIFT", [i32(7), i32(7)], out("INT32"), "RightShiftOptions", atol=0, feed=feed)


@pytest.mark.parametrize("to", ["INT32", "FLOAT32"])
def test_bitcast(to: str) -> None:
    reals = np.array([1.5, -2.0, 0.0, np.inf, 3e38], np.float32)
    source, feed = (f32(5), reals) if to == "INT32" else (i32(5), reals.view(np.int32))
    check("BITCAST", [source], out(to), "BitcastOptions", atol=0, feed=[feed])


def drawn(name: str, inputs: list[T], kind: str, feed: list[np.ndarray], **seeds: int) -> np.ndarray:
    """The numbers, plus zeros where the operator itself has no input of the model."""
    own = [one for one in inputs if one.data is None]
    drawn, zeros, result = out(kind), f32(40, 50), out(kind)
    net = Net(own or [zeros], [drawn if own else result])
    net.op(name, inputs, drawn, "RandomOptions", **seeds)
    if not own:
        net.op("ADD", [drawn, zeros], result, "AddOptions")
    (found,) = actual(load(write(net)), feed or [np.zeros((40, 50), np.float32)])[0]
    return found


@pytest.mark.parametrize(
    ("name", "distribution"),
    [("RANDOM_UNIFORM", stats.uniform(0, 1)), ("RANDOM_STANDARD_NORMAL", stats.norm(0, 1))],
)
def test_random_numbers(name: str, distribution: Any) -> None:
    found = drawn(name, [i32c(40, 50)], "FLOAT32", [], Seed=5, Seed2=-7)
    assert found.shape == (40, 50)
    assert stats.kstest(found.reshape(-1), distribution.cdf).pvalue > 0.01
    assert np.array_equal(found, drawn(name, [i32c(40, 50)], "FLOAT32", [], Seed=5, Seed2=-7))
    assert not np.array_equal(found, drawn(name, [i32c(40, 50)], "FLOAT32", [], Seed=5, Seed2=-8))


def test_multinomial() -> None:
    shares = np.array([[0.1, 0.2, 0.7]], np.float32)
    found = drawn("MULTINOMIAL", [f32(1, 3), scalar(4000)], "INT32", [np.log(shares)], Seed=1, Seed2=2)
    np.testing.assert_allclose(np.bincount(found[0], minlength=3) / 4000, shares[0], atol=0.03)


def test_bits_of_other_types() -> None:
    source, result = T("INT16", (3,), scale=1.0), T("INT16", None, scale=1.0)
    net = Net([source, other := T("INT16", (3,), scale=1.0)], [result])
    net.op("BITWISE_XOR", [source, other], result, "BitwiseXorOptions")
    with pytest.raises(TfliteImportError, match="must be INT32"):
        load(write(net))


ELEMENTWISE = [(name, make) for name in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM") for make in (f32, i32)]


@pytest.mark.parametrize(("name", "make"), [*ELEMENTWISE, ("AND", i32), ("AND", boolean)])
def test_stablehlo(name: str, make: Any) -> None:
    kind = {f32: "FLOAT32", i32: "INT32", boolean: "BOOL"}[make]
    check(f"STABLEHLO_{name}", [make(3, 5), make(3, 5)], out(kind), atol=0)


def test_stablehlo_shift_left() -> None:
    feed = [NUMBERS, np.array([0, 1, 5, 30, 31, 16, 7], np.int32)]
    check("STABLEHLO_SHIFT_LEFT", [i32(7), i32(7)], out("INT32"), atol=0, feed=feed)


def test_stablehlo_of_other_types() -> None:
    net = Net([one := boolean(3), other := boolean(3)], [result := out("BOOL")])
    net.op("STABLEHLO_ADD", [one, other], result)
    with pytest.raises(TfliteImportError, match="must be TENSOR_FLOAT32 or TENSOR_INT32 of one shape"):
        load(write(net))
