"""Models of one operator of StableHLO, and their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tflite_net import Net, T, write
from tflite_oracle import actual

from nnvk.importers.tflite import load

rng = np.random.default_rng(3)
Array = np.ndarray


def reals(*shape: int) -> Array:
    return (rng.random(shape) * 4 - 2).astype(np.float32)


def integers(*shape: int) -> Array:
    return rng.integers(-9, 10, shape).astype(np.int32)


def longs(numbers: Sequence[int]) -> Array:
    return np.array(numbers, np.int64)


def tensor_of(array: Array) -> T:
    return T({"f": "FLOAT32", "i": "INT32", "b": "BOOL"}[array.dtype.kind], array.shape)


def function(name: str, type_: str = "FLOAT32", **options: Any) -> Net:
    """A subgraph of one operator on two numbers."""
    first, second = T(type_, ()), T(type_, ())
    net = Net([first, second], [T("BOOL" if options else type_, ())])
    net.op(name, net.inputs, net.outputs[0], "StablehloCompareOptions" if options else None, **options)
    return net


def model(
    name: str, inputs: Sequence[T], result: T | list[T], table: str | None = None, *nets: Net, **options: Any
) -> bytes:
    results = [result] if isinstance(result, T) else result
    net = Net([one for one in inputs if one.is_free], results)
    net.op(name, inputs, results, table, **options)
    return write(net, *nets)


def agree(data: bytes, feed: Sequence[Array], *wanted: Array, atol: float = 1e-6) -> None:
    """Outputs of the reference device for the imported file."""
    for got, want in zip(actual(load(data), feed)[0], wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=atol)
