"""Quantised LSTM cells and lookups by hash against LiteRT."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tflite
from hypothesis import given
from hypothesis import strategies as st
from litert_check import Tensors
from tflite_net import Net, T, write
from tflite_oracle import compare

TANH = tflite.ActivationFunctionType.TANH
HIDDEN = 1 / 128
"""Scale of the state that is an output, which lies between -1 and 1."""


def int16(t: Tensors, size: int, scale: float, low: int = -20000) -> T:
    return T("INT16", data=t.rng.integers(low, 20000, size), scale=scale)


def bias(t: Tensors, size: int) -> T:
    return T("INT32", data=t.rng.integers(-500, 501, size), scale=1e-4)


def matrix(t: Tensors, *shape: int, scale: float) -> T:
    return T("INT8", data=t.rng.integers(-127, 128, shape), scale=scale)


@given(data=st.data())
def test_8bit_lstm(data: st.DataObject) -> None:
    """Every optional group of the cell. TFLite rounds sums once, Android twice: states may be off, and results."""
    t = Tensors(data)
    batches, size, units = t.sizes(3)
    cifg, peephole, projected, norm = (t.chance() for _ in range(4))
    width = t.integer(1, 5) if projected else units
    state_scale, state_zero = t.pick((HIDDEN, 0.0113)), t.integer(-20, 20)

    # The norm of sums that hardly differ would make much of what the rounding does to them, a large projection too.
    scales = (0.02, 0.05) if norm else (0.002, 0.008, 0.02)

    def weights(*shape: int) -> T:
        return matrix(t, *shape, scale=t.pick(scales))

    def gates(make: Callable[[], T], given: bool = True) -> list[T | None]:
        return [make() if given and not (cifg and gate == 0) else None for gate in range(4)]

    source = T("INT8", (batches, size), scale=t.pick((0.004, 0.02)), zero_point=t.zero("INT8"))
    inputs = [
        t.input(source, t.levels("INT8", (batches, size))),
        *gates(lambda: weights(units, size)),
        *gates(lambda: weights(units, width)),
        *gates(lambda: int16(t, units, 1e-5), peephole)[:3],
        *gates(lambda: bias(t, units)),
        matrix(t, width, units, scale=0.002) if projected else None,
        bias(t, width) if projected else None,
        T("INT8", (batches, width), scale=state_scale, zero_point=state_zero, variable=True),
        T("INT16", (batches, units), scale=t.pick((1 / 2048, 1 / 4096)), variable=True),
        *gates(lambda: int16(t, units, 3e-5, 1000), norm),
    ]
    hidden = (t.pick((HIDDEN, 0.006)), t.integer(-9, 9)) if projected else (state_scale, state_zero)
    intermediates = [T("INT16", (), scale=2**-12) for _ in range(4)]
    intermediates.append(T("INT8", (), scale=hidden[0], zero_point=hidden[1]))
    result = T("INT8", scale=state_scale, zero_point=state_zero)
    options = {"FusedActivationFunction": TANH, "CellClip": t.pick((0.0, 2.0)), "ProjClip": t.pick((0.0, 0.5))}
    t.check(
        "LSTM", inputs, result, "LSTMOptions", intermediates=intermediates, steps=5 if norm else 2, repeats=2, **options
    )


@given(data=st.data())
def test_16bit_lstm(data: st.DataObject) -> None:
    """The kernel of one matrix for all gates, bit by bit.

    TFLite rounds sums once, Android twice where it shifts them to the right, which no weights of these scales need.
    """
    t = Tensors(data)
    batches, size, units = t.sizes(3)
    scale = t.pick((0.016, 0.02, 0.03, 0.05, 0.4))
    shape = (4 * units, size + units)
    weights = T("UINT8", data=t.levels("UINT8", shape), scale=scale, zero_point=t.integer(1, 255))
    biases = T("INT32", data=t.rng.integers(-2000, 2001, 4 * units), scale=scale / 128)
    activations = {"scale": 1 / 128, "zero_point": 128}
    source, previous = (T("UINT8", (batches, length), **activations) for length in (size, units))
    cell = T("INT16", (batches, units), scale=16 / 32768)
    results = [
        T("UINT8", **activations),
        T("INT16", scale=16 / 32768),
        T("UINT8", **activations),
        T("INT16", scale=8 / 32768),
    ]
    graph = Net([source, previous, cell], results[:2])
    options = {"KernelType": tflite.LSTMKernelType.BASIC, "FusedActivationFunction": TANH}
    graph.op("LSTM", [source, previous, weights, biases, cell], results, "LSTMOptions", **options)
    feed = [t.levels("UINT8", (batches, length)) for length in (size, units)]
    feed.append(t.rng.integers(-32768, 32768, (batches, units)).astype(np.int16))
    compare(write(graph), feed, steps=0)


@given(data=st.data())
def test_hashtable_lookup(data: st.DataObject) -> None:
    t = Tensors(data)
    rows = t.integer(1, 6)
    keys = T("INT32", data=np.unique(t.rng.integers(-9, 10, rows)))
    rows = len(keys.data)
    table = t.real_constant(rows, *t.sizes(t.integer(1, 2)))
    t.check("HASHTABLE_LOOKUP", [t.integers(t.integer(1, 7)), keys, table], [T(), T("UINT8")])


@given(data=st.data())
def test_lsh_projection(data: st.DataObject) -> None:
    t = Tensors(data)
    items, functions = t.sizes(2)
    bits = t.integer(1, 8)
    source = t.integers(items, *t.sizes(t.integer(1, 2))) if t.chance() else t.real(items, t.integer(1, 5))
    weights = [t.real_constant(items, low=0.1)] if t.chance() else []
    kind = t.pick((tflite.LSHProjectionType.SPARSE, tflite.LSHProjectionType.DENSE))
    hashes = t.real_constant(functions, bits)
    t.check("LSH_PROJECTION", [hashes, source, *weights], T("INT32"), "LSHProjectionOptions", Type=kind)
