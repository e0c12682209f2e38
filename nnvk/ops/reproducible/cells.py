"""The arithmetic of recurrent cells: products are added up along K, and statistics by eight lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnvk.ops import lstm, rnn, sequence_lstm, svdf
from nnvk.ops.call import Call
from nnvk.ops.extension import gru
from nnvk.ops.recurrent import ACTIVATIONS, NORM_EPSILON, Arithmetic
from nnvk.ops.reproducible import functions
from nnvk.ops.reproducible.products import rows_times
from nnvk.ops.reproducible.reductions import ordered_sum
from nnvk.types.codes import FuseCode, OperationCode
from nnvk.types.extension import AnyCode, ExtendedOperationCode

_LANES = 8
"""The partial sums of the layer normalisation of an LSTM."""


def _dense(rows: np.ndarray, weights: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    start = np.float32(0) if bias is None else bias
    return rows_times(rows.reshape(-1, rows.shape[-1]), weights.T, start).reshape(*rows.shape[:-1], len(weights))


def _mean(x: np.ndarray) -> np.ndarray:
    """The means of rows: a lane adds up every eighth element, and the lanes are added up as a tree."""
    count = x.shape[1]
    padded = np.pad(x, ((0, 0), (0, -count % _LANES))).reshape(len(x), -1, _LANES)
    lanes = ordered_sum(padded.swapaxes(0, 1))
    while lanes.shape[1] > 1:
        left, right = np.split(lanes, 2, axis=1)
        lanes = left + right
    return functions.quotient(lanes, np.float32(count))


def _normalise(x: np.ndarray) -> np.ndarray:
    centred = x - _mean(x)
    return functions.quotient(centred, functions.square_root(_mean(centred * centred) + NORM_EPSILON))


def _activation(number: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: functions.activated(x, number)


_ARITHMETIC = Arithmetic(
    dense=_dense,
    total=lambda terms: ordered_sum(np.moveaxis(terms, -1, 0)),
    activations={
        **{number: _activation(number) for number in ACTIVATIONS if number in list(FuseCode)},
        **{4: functions.tanh, 6: functions.logistic},
    },
    normalise=_normalise,
)


def _by(run: Callable[[Call, Arithmetic], list[np.ndarray]]) -> Callable[[Call], list[np.ndarray]]:
    return lambda call: run(call, _ARITHMETIC)


_CELLS: dict[AnyCode, Callable[[Call, Arithmetic], list[np.ndarray]]] = {
    OperationCode.LSTM: lstm.time_step,
    OperationCode.UNIDIRECTIONAL_SEQUENCE_LSTM: sequence_lstm.one_direction,
    OperationCode.BIDIRECTIONAL_SEQUENCE_LSTM: sequence_lstm.both_directions,
    OperationCode.RNN: rnn.time_step,
    OperationCode.UNIDIRECTIONAL_SEQUENCE_RNN: rnn.one_direction,
    OperationCode.BIDIRECTIONAL_SEQUENCE_RNN: rnn.both_directions,
    OperationCode.SVDF: svdf.svdf,
    ExtendedOperationCode.UNIDIRECTIONAL_SEQUENCE_GRU: gru.gru,
}
CELLS = {code: _by(run) for code, run in _CELLS.items()}
"""The references of recurrent operations."""
