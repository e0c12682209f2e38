"""Recurrent operations against LiteRT: every optional group of a cell, several steps and invocations."""

from __future__ import annotations

import pytest
import tflite
from hypothesis import given
from hypothesis import strategies as st
from litert_check import Tensors
from tflite_net import T

KINDS = [getattr(tflite.ActivationFunctionType, name) for name in ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH")]
TANH = tflite.ActivationFunctionType.TANH


def state(*shape: int) -> T:
    return T("FLOAT32", shape, variable=True)


def series(t: Tensors, time_major: bool, time: int, batches: int, size: int) -> T:
    return t.real(time, batches, size) if time_major else t.real(batches, time, size)


def rnn_cell(t: Tensors, batches: int, size: int, units: int) -> list[T]:
    weights = [t.real_constant(units, size), t.real_constant(units, units, low=-0.5, high=0.5), t.real_constant(units)]
    return [*weights, state(batches, units)]


@given(data=st.data())
def test_rnn(data: st.DataObject) -> None:
    t = Tensors(data)
    batches, size, units = t.sizes(3)
    inputs = [t.real(batches, size), *rnn_cell(t, batches, size, units)]
    t.check("RNN", inputs, (), "RNNOptions", FusedActivationFunction=t.pick(KINDS), repeats=3)


@given(data=st.data())
def test_sequence_rnn(data: st.DataObject) -> None:
    t = Tensors(data)
    time, batches, size, units = t.sizes(4)
    time_major = t.chance()
    inputs = [series(t, time_major, time, batches, size), *rnn_cell(t, batches, size, units)]
    options = {"TimeMajor": time_major, "FusedActivationFunction": t.pick(KINDS)}
    t.check("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, (), "SequenceRNNOptions", repeats=2, **options)


@given(data=st.data())
def test_bidirectional_rnn(data: st.DataObject) -> None:
    t = Tensors(data)
    time, batches, size, forward, backward = t.sizes(5)
    time_major, merge = t.chance(), t.chance()
    cells = [*rnn_cell(t, batches, size, forward), *rnn_cell(t, batches, size, backward)]
    inputs = [series(t, time_major, time, batches, size), *cells, None, None, None]
    options = {"TimeMajor": time_major, "MergeOutputs": merge, "FusedActivationFunction": t.pick(KINDS)}
    results = [T()] if merge else [T(), T()]
    t.check("BIDIRECTIONAL_SEQUENCE_RNN", inputs, results, "BidirectionalSequenceRNNOptions", repeats=2, **options)


@given(data=st.data())
def test_svdf(data: st.DataObject) -> None:
    t = Tensors(data)
    batches, size, units, rank, memory = t.sizes(5)
    filters = units * rank
    inputs = [
        t.real(batches, size),
        t.real_constant(filters, size),
        t.real_constant(filters, memory),
        t.real_constant(units) if t.chance() else None,
        state(batches, memory * filters),
    ]
    fused = t.pick(KINDS[:4])
    t.check("SVDF", inputs, (), "SVDFOptions", Rank=rank, FusedActivationFunction=fused, repeats=4)


class Cell:
    """A cell of an LSTM has sizes and optional groups of weights."""

    def __init__(self, t: Tensors, size: int) -> None:
        self._t, self.size = t, size
        self.cifg, self.peephole, self.projection, self.norm = (t.chance() for _ in range(4))
        self.units = t.integer(1, 5)
        self.width = t.integer(1, 5) if self.projection else self.units
        self.projection_bias = self.projection and t.chance()

    def _gates(self, *shape: int, present: bool = True) -> list[T | None]:
        return [
            self._t.real_constant(*shape) if present and not (self.cifg and gate == 0) else None for gate in range(4)
        ]

    def weights(self) -> list[T | None]:
        """The 17 weights and biases."""
        units, width = self.units, self.width
        projection = [
            self._t.real_constant(width, units) if self.projection else None,
            self._t.real_constant(width) if self.projection_bias else None,
        ]
        peephole = self._gates(units, present=self.peephole)[:3]
        return [*self._gates(units, self.size), *self._gates(units, width), *peephole, *self._gates(units), *projection]

    def norms(self) -> list[T | None]:
        """Weights of the layer normalisation, nothing without one."""
        return self._gates(self.units) if self.norm else []

    def states(self, batches: int) -> list[T]:
        """Output state and cell state."""
        return [state(batches, self.width), state(batches, self.units)]


@given(data=st.data())
def test_lstm(data: st.DataObject) -> None:
    t = Tensors(data)
    batches, size = t.sizes(2)
    cell = Cell(t, size)
    inputs = [t.real(batches, size), *cell.weights(), *cell.states(batches), *cell.norms()]
    clips = {"CellClip": t.pick((0.0, 0.5)), "ProjClip": t.pick((0.0, 0.3))}
    t.check("LSTM", inputs, (), "LSTMOptions", repeats=3, FusedActivationFunction=TANH, **clips)


@given(data=st.data())
def test_sequence_lstm(data: st.DataObject) -> None:
    t = Tensors(data)
    time, batches, size = t.sizes(3)
    time_major = t.chance()
    cell = Cell(t, size)
    source = series(t, time_major, time, batches, size)
    inputs = [source, *cell.weights(), *cell.states(batches), *cell.norms()]
    options = {"TimeMajor": time_major, "CellClip": t.pick((0.0, 0.5)), "ProjClip": t.pick((0.0, 0.3))}
    table = "UnidirectionalSequenceLSTMOptions"
    t.check("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (), table, repeats=2, FusedActivationFunction=TANH, **options)


@pytest.mark.parametrize("merge", [False, True])
@given(data=st.data())
def test_bidirectional_lstm(merge: bool, data: st.DataObject) -> None:
    t = Tensors(data)
    time, batches, size = t.sizes(3)
    time_major = merge or t.chance()  # TFLite leaves gaps where it merges batches
    cell = Cell(t, size)  # TFLite checks the backward cell by the sizes of the forward one
    source = series(t, time_major, time, batches, size)
    inputs = [source, *cell.weights(), *cell.weights(), *cell.states(batches), *cell.states(batches), *[None] * 9]
    options = {"TimeMajor": time_major, "MergeOutputs": merge, "CellClip": t.pick((0.0, 0.5))}
    results = [T()] if merge else [T(), T()]
    table = "BidirectionalSequenceLSTMOptions"
    t.check("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, results, table, repeats=2, FusedActivationFunction=TANH, **options)
