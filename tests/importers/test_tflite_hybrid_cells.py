"""Recurrent cells with 8-bit weights against TFLite's hybrid kernels, which round activations in every step."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
import pytest
import tflite
from tflite_cells import BATCH, LSTM_OPTIONS, SIZE, TIME, UNITS, lstm_inputs, state
from tflite_net import Net, T, write
from tflite_oracle import check, f32, f32c, q8c

from nnvk.api import OperationCode as Op
from nnvk.importers.tflite import TfliteImportError, load
from nnvk.types.extension import ExtendedOperationCode as Extended

TANH = tflite.ActivationFunctionType.TANH
LSTM_WEIGHTS = (*range(1, 12), 16)
"""Inputs of the LSTM that are of 8 bits in hybrid models; biases and layer norms are not."""
asymmetric = pytest.mark.parametrize("asymmetric", [False, True], ids=["symmetric", "asymmetric"])
time_major = pytest.mark.parametrize("time_major", [False, True], ids=["batch-major", "time-major"])


def hybrid(inputs: list[T | None], positions: Container[int]) -> list[T | None]:
    """The inputs, with 8-bit weights in these positions."""
    return [
        tensor if tensor is None or position not in positions else q8c(*tensor.shape, scale=0.008)
        for position, tensor in enumerate(inputs)
    ]


def rnn_inputs() -> list[T]:
    """Weights, recurrent weights, bias and state."""
    return [f32c(UNITS, SIZE), f32c(UNITS, UNITS), f32c(UNITS), state(BATCH, UNITS)]


def sequence(time_major: bool, time: int = TIME) -> T:
    return f32(*((time, BATCH) if time_major else (BATCH, time)), SIZE)


@asymmetric
def test_rnn(asymmetric: bool) -> None:
    inputs = hybrid([f32(BATCH, SIZE), *rnn_inputs()], (1, 2))
    options = {"FusedActivationFunction": TANH, "AsymmetricQuantizeInputs": asymmetric}
    check("RNN", inputs, (), "RNNOptions", **options, repeats=3)


@asymmetric
@time_major
def test_sequence_rnn(time_major: bool, asymmetric: bool) -> None:
    inputs = hybrid([sequence(time_major), *rnn_inputs()], (1, 2))
    options = {"FusedActivationFunction": TANH, "TimeMajor": time_major, "AsymmetricQuantizeInputs": asymmetric}
    check("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, (), "SequenceRNNOptions", **options, repeats=2)


@asymmetric
@pytest.mark.parametrize("linking", ["none", "crossed"])
@pytest.mark.parametrize("merge", [False, True])
def test_bidirectional_rnn(merge: bool, linking: str, asymmetric: bool) -> None:
    """The test leaves out two faults of TFLite.

    TFLite computes all time steps of a time-major sequence once for each time step. It reads the auxiliary input of
    parallel linking in a wrong place.
    """
    source = sequence(time_major=False)
    aux = [f32(*source.shape), f32c(UNITS, SIZE), f32c(UNITS, SIZE)] if linking == "crossed" else [None] * 3
    inputs = hybrid([source, *rnn_inputs(), *rnn_inputs(), *aux], (1, 2, 5, 6, 10, 11))
    options = {"FusedActivationFunction": TANH, "MergeOutputs": merge, "AsymmetricQuantizeInputs": asymmetric}
    results = [T()] if merge else [T(), T()]
    check("BIDIRECTIONAL_SEQUENCE_RNN", inputs, results, "BidirectionalSequenceRNNOptions", **options, repeats=2)


@pytest.mark.parametrize("linking", ["parallel", "crossed"])
def test_bidirectional_rnn_of_one_time_major_step(linking: str) -> None:
    source = sequence(time_major=True, time=1)
    aux = [None] * 2 if linking == "parallel" else [f32c(UNITS, SIZE), f32c(UNITS, SIZE)]
    inputs = hybrid([source, *rnn_inputs(), *rnn_inputs(), f32(*source.shape), *aux], (1, 2, 5, 6, 10, 11))
    options = {"FusedActivationFunction": TANH, "TimeMajor": True}
    check("BIDIRECTIONAL_SEQUENCE_RNN", inputs, [T(), T()], "BidirectionalSequenceRNNOptions", **options, repeats=3)


@asymmetric
@pytest.mark.parametrize("rank", [1, 2])
def test_svdf(rank: int, asymmetric: bool) -> None:
    filters = UNITS * rank
    inputs = [f32(BATCH, SIZE), f32c(filters, SIZE), f32c(filters, 7), f32c(UNITS), state(BATCH, 7 * filters)]
    options = {"Rank": rank, "AsymmetricQuantizeInputs": asymmetric}
    check("SVDF", hybrid(inputs, (1, 2)), (), "SVDFOptions", **options, repeats=4)


CELLS = ["", "c", "p", "j", "cpj", "n", "cn", "cpjn"]
cells = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell or "plain")


@asymmetric
@cells
def test_lstm(cell: str, asymmetric: bool) -> None:
    inputs = hybrid(lstm_inputs(f32(BATCH, SIZE), cell), LSTM_WEIGHTS)
    options = {**LSTM_OPTIONS, "AsymmetricQuantizeInputs": asymmetric}
    check("LSTM", inputs, (), "LSTMOptions", **options, repeats=3)


@asymmetric
@cells
@time_major
def test_sequence_lstm(time_major: bool, cell: str, asymmetric: bool) -> None:
    inputs = hybrid(lstm_inputs(sequence(time_major), cell), LSTM_WEIGHTS)
    options = {**LSTM_OPTIONS, "TimeMajor": time_major, "AsymmetricQuantizeInputs": asymmetric}
    check("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (), "UnidirectionalSequenceLSTMOptions", **options, repeats=2)


@asymmetric
@pytest.mark.parametrize("linking", ["none", "parallel", "crossed"])
@pytest.mark.parametrize("cell", ["", "cpj"], ids=["plain", "cpj"])
@pytest.mark.parametrize("merge", [False, True])
def test_bidirectional_lstm(merge: bool, cell: str, linking: str, asymmetric: bool) -> None:
    """Merged, it is time-major: of others TFLite reads memory that it has not written."""
    source = sequence(time_major=merge)
    forward, backward = lstm_inputs(source, cell), lstm_inputs(source, cell)
    aux: list[T | None] = [None] * 9
    if linking != "none":
        aux[0] = f32(*source.shape)
    if linking == "crossed":
        aux[1:] = [None if "c" in cell and gate == 0 else f32c(UNITS, SIZE) for _ in range(2) for gate in range(4)]
    positions = {*LSTM_WEIGHTS, *(position + 17 for position in LSTM_WEIGHTS), *range(40, 48)}
    inputs = hybrid([*forward[:18], *backward[1:18], *forward[18:20], *backward[18:20], *aux], positions)
    options = {**LSTM_OPTIONS, "MergeOutputs": merge, "TimeMajor": merge, "AsymmetricQuantizeInputs": asymmetric}
    results = [T()] if merge else [T(), T()]
    check("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, results, "BidirectionalSequenceLSTMOptions", **options, repeats=2)


@asymmetric
def test_lstm_of_zeros(asymmetric: bool) -> None:
    """Nothing is divided by a range of 0."""
    options = {**LSTM_OPTIONS, "AsymmetricQuantizeInputs": asymmetric, "feed": [np.zeros((BATCH, SIZE), np.float32)]}
    check("LSTM", hybrid(lstm_inputs(f32(BATCH, SIZE), "j"), LSTM_WEIGHTS), (), "LSTMOptions", **options, repeats=2)


def sequence_file(time: int) -> bytes:
    """A file of a hybrid LSTM."""
    inputs = hybrid(lstm_inputs(sequence(False, time)), LSTM_WEIGHTS)
    net = Net([inputs[0]], [T()])
    net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, net.outputs, "UnidirectionalSequenceLSTMOptions", **LSTM_OPTIONS)
    return write(net)


def test_steps_are_operations_where_they_are_rounded() -> None:
    counts = []
    for round_hybrid in (True, False):
        model = load(sequence_file(TIME), round_hybrid=round_hybrid).model
        codes = [operation.code for operation in model.frozen.operations]
        counts.append(
            (codes.count(Op.LSTM), codes.count(Op.UNIDIRECTIONAL_SEQUENCE_LSTM), codes.count(Extended.ROUND_ROWS))
        )
    assert counts == [(TIME, 0, 1 + TIME), (0, 1, 0)]


def test_long_sequences_are_imported_without_rounding_only() -> None:
    data = sequence_file(1025)
    with pytest.raises(TfliteImportError, match=r"1025 time steps are too many to write out.* round_hybrid=False"):
        load(data)
    assert len(load(data, round_hybrid=False).model.frozen.operations) == 1


@pytest.mark.parametrize("shape", [(BATCH, TIME + 1, SIZE), (BATCH, SIZE)], ids=["steps", "rank"])
def test_an_auxiliary_input_of_other_steps_is_refused(shape: tuple[int, ...]) -> None:
    source = sequence(time_major=False)
    aux = [f32(*shape), f32c(UNITS, SIZE), f32c(UNITS, SIZE)]
    inputs = hybrid([source, *rnn_inputs(), *rnn_inputs(), *aux], (1, 2, 5, 6, 10, 11))
    net = Net([source, aux[0]], [T(), T()])
    net.op("BIDIRECTIONAL_SEQUENCE_RNN", inputs, net.outputs, "BidirectionalSequenceRNNOptions", TimeMajor=False)
    with pytest.raises(TfliteImportError, match="inputs must have rank 3, and the same time steps and batches, got"):
        load(write(net))


def test_weights_of_an_auxiliary_input_that_is_missing_are_refused() -> None:
    source = sequence(time_major=False)
    inputs = hybrid([source, *rnn_inputs(), *rnn_inputs(), None, f32c(UNITS, SIZE), f32c(UNITS, SIZE)], (1, 2, 5, 6))
    net = Net([source], [T(), T()])
    net.op("BIDIRECTIONAL_SEQUENCE_RNN", inputs, net.outputs, "BidirectionalSequenceRNNOptions", TimeMajor=False)
    with pytest.raises(TfliteImportError, match="weights for an auxiliary input, and no such input"):
        load(write(net))
