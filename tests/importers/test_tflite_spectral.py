"""Complex numbers, against TFLite's kernels."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_net import Net, T, write
from tflite_oracle import check, compare, f32, i32c, out

from nnvk.importers.tflite import TfliteImportError, load

C64 = "COMPLEX64"


@pytest.mark.parametrize(
    ("shape", "lengths"),
    [((4, 8), (8,)), ((4, 8), (2, 4, 8)), ((4, 8), (0, 8)), ((4, 8), (4, -8)), ((8,), (1, 8))],
    ids=str,
)
def test_transforms_need_two_lengths_and_two_axes(shape: tuple[int, ...], lengths: tuple[int, ...]) -> None:
    source, result = f32(*shape), out(C64)
    net = Net([source], [result])
    net.op("RFFT2D", [source, i32c(*lengths)], result, "Rfft2dOptions")
    with pytest.raises(TfliteImportError, match="there must be two lengths from 1 on"):
        load(write(net))


@pytest.mark.parametrize(
    ("shape", "lengths"),
    [
        ((1, 512), (1, 512)),
        ((1, 400), (1, 512)),
        ((1, 512), (1, 256)),
        ((3, 1, 64), (1, 64)),
        ((4, 8), (4, 8)),
        ((2, 3, 5), (4, 8)),
        ((2, 5, 9), (2, 4)),
        ((1, 2), (1, 2)),
    ],
)
def test_rfft2d(shape: tuple[int, ...], lengths: tuple[int, int]) -> None:
    result = out(C64, (*shape[:-2], lengths[0], lengths[1] // 2 + 1))
    check("RFFT2D", [f32(*shape), i32c(*lengths)], result, "Rfft2dOptions", atol=1e-4)


@pytest.mark.parametrize("name", ["COMPLEX_ABS", "REAL", "IMAG"])
def test_what_follows(name: str) -> None:
    """As converters write a spectrogram: with the rows as images of one row, and then without them."""
    source = f32(3, 1, 64)
    spectra, flat, result = T(C64, (3, 1, 33)), T(C64, (3, 33)), T("FLOAT32", (3, 33))
    net = Net([source], [result])
    net.op("RFFT2D", [source, i32c(1, 64)], spectra, "Rfft2dOptions")
    net.op("RESHAPE", [spectra, i32c(3, 33)], flat)
    net.op(name, [flat], result)
    rng = np.random.default_rng(3)
    compare(write(net), [rng.standard_normal((3, 1, 64)).astype(np.float32)], atol=1e-4)


def test_complex_inputs() -> None:
    rng = np.random.default_rng(3)
    values = (rng.standard_normal((3, 5)) + 1j * rng.standard_normal((3, 5))).astype(np.complex64)
    check("COMPLEX_ABS", [T(C64, (3, 5))], out("FLOAT32", (3, 5)), feed=[values])


def test_what_there_is_not() -> None:
    net = Net([f32(1, 8)], [T(C64, (1, 5))])
    middle = T(C64, (1, 5))
    net.op("RFFT2D", [net.inputs[0], i32c(1, 8)], middle, "Rfft2dOptions")
    net.op("MUL", [middle, middle], net.outputs, "MulOptions")
    with pytest.raises(TfliteImportError, match=r"MUL\): there is nothing in NNAPI that does this"):
        compare(write(net), [np.zeros((1, 8), np.float32)])
