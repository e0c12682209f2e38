"""Complex numbers, against TFLite's kernels."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_net import Net, T, write
from tflite_oracle import check, compare, f32, i32c, out, scalar

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


FOLLOWING: dict[str, tuple[list[T], str | None, dict[str, object], tuple[int, ...]]] = {
    "SQUEEZE": ([], "SqueezeOptions", {"SqueezeDims": [2]}, (1, 1, 33)),
    "RESHAPE": ([i32c(-1, 33)], None, {}, (1, 33)),
    "EXPAND_DIMS": ([scalar(-1)], None, {}, (1, 1, 1, 33, 1)),
    "TRANSPOSE": ([i32c(3, 0, 2, 1)], None, {}, (33, 1, 1, 1)),
}


@pytest.mark.parametrize("last", ["COMPLEX_ABS", "CAST"])
@pytest.mark.parametrize("name", FOLLOWING)
def test_shapes_that_the_file_leaves_open(name: str, last: str) -> None:
    """As speech models have them: any number of frames, and the file says 1."""
    inputs, table, options, shape = FOLLOWING[name]
    signature = tuple(-1 if size == 1 else size for size in shape)
    source = T(shape=(1, 1, 1, 64), signature=(-1, -1, 1, 64), name="x")
    spectra, moved = T(C64, (1, 1, 1, 33), signature=(-1, -1, 1, 33)), T(C64, shape, signature=signature)
    net = Net([source], [T(shape=shape, signature=signature)])
    net.op("RFFT2D", [source, i32c(1, 64)], spectra, "Rfft2dOptions")
    net.op(name, [spectra, *inputs], moved, table, **options)
    net.op(last, [moved], net.outputs)
    rng = np.random.default_rng(4)
    feeds = [rng.standard_normal((2, 5, 1, 64)).astype(np.float32)]
    compare(write(net), feeds, atol=1e-4, shapes={"x": (2, 5, 1, 64)})


def drawn(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    return (4 * (rng.standard_normal(shape) + 1j * rng.standard_normal(shape))).astype(np.complex64)


@pytest.mark.parametrize("type_", ["FLOAT32", "INT32", "INT64", C64])
def test_casts_take_the_real_parts(type_: str) -> None:
    check("CAST", [T(C64, (3, 5))], out(type_, (3, 5)), feed=[drawn(3, 5)])


@pytest.mark.parametrize("shapes", [((2, 3, 5), (2, 3, 5)), ((2, 1, 5), (3, 1)), ((7,), (1,))], ids=str)
def test_products(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """With their shapes broadcast."""
    feeds = [drawn(*shape) for shape in shapes]
    result = out(C64, np.broadcast_shapes(*shapes))
    check("MUL", [T(C64, shape) for shape in shapes], result, "MulOptions", feed=feeds, atol=1e-4)


def test_products_that_are_none() -> None:
    with pytest.raises(
        TfliteImportError, match="complex numbers are multiplied by complex numbers, without an activation"
    ):
        check("MUL", [T(C64, (2,)), f32(2)], out(C64, (2,)), "MulOptions")
    with pytest.raises(TfliteImportError, match="without an activation"):
        check("MUL", [T(C64, (2,)), T(C64, (2,))], out(C64, (2,)), "MulOptions", FusedActivationFunction=1)
    with pytest.raises(TfliteImportError, match="don't broadcast"):
        check("MUL", [T(C64, (2,)), T(C64, (3,))], out(C64, (3,)), "MulOptions")


def test_what_there_is_not() -> None:
    net = Net([f32(1, 8)], [T(C64, (1, 5))])
    middle = T(C64, (1, 5))
    net.op("RFFT2D", [net.inputs[0], i32c(1, 8)], middle, "Rfft2dOptions")
    net.op("NEG", [middle], net.outputs)
    with pytest.raises(TfliteImportError, match=r"NEG\): there is nothing in NNAPI that does this"):
        compare(write(net), [np.zeros((1, 8), np.float32)])
