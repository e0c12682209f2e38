"""LSTM, GRU and RNN: NNAPI's sequences where it has them; others are unrolled, one time step after another."""

from __future__ import annotations

from nnvk.importers.decompositions.moving import sliced
from nnvk.importers.emitter import NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers import unrolled
from nnvk.importers.onnx.mappers.cells import Cell
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import FuseCode, OperationCode

Op = OperationCode
_TANH = 4
"""The activation of NNAPI's recurrent operations; 1 is RELU, 6 the sigmoid."""
_ACTIVATIONS = {"Relu": FuseCode.RELU, "Sigmoid": 6, "Tanh": _TANH}


def _last(c: Context, sequence: Value) -> Value:
    time, batch, units = sequence.shape
    taken = (range(time - 1, time), range(batch), range(units))
    return c.reshape(sliced(c, sequence, taken), (batch, units))


@operator("LSTM")
def lstm(c: Context) -> list[Tensor]:
    """Map LSTM: UNIDIRECTIONAL_SEQUENCE_LSTM for each direction if it has the activations and sequences have one
    length.
    """
    cell = Cell(c, 4, ("Sigmoid", "Tanh", "Tanh"))
    if c.node.integer("input_forget", 0):
        raise Unmapped("NNAPI's input gates aren't what the forget gates leave (input_forget is 1)")
    sequences, hidden, cells = [], [], []
    for direction in range(len(cell.backwards)):
        if cell.has(direction, "Sigmoid", "Tanh", "Tanh"):
            sequence, ends = _sequence(cell, direction)
        else:
            sequence, ends = unrolled.lstm(cell, direction)
        sequences.append(sequence)
        hidden.append(ends[0])
        cells.append(ends[1])
    return cell.given(sequences, (hidden, cells))


def _sequence(cell: Cell, direction: int) -> unrolled.Sequenced:
    """ONNX has the gates in the order input, output, forget, cell; NNAPI's input, forget, cell, output."""
    c, backwards, shape = cell.c, cell.backwards[direction], (cell.batch, cell.units)
    weights, recurrent = (cell.cut(cell.row(position, direction), 4) for position in (1, 2))
    both = cell.biases(direction)
    biases = [c.emit(Op.ADD, both[gate], both[gate + 4], NONE, out=cell.type) for gate in range(4)]
    inside, outside, forget = cell.cut(cell.row(7, direction), 3) if c.has(7) else (None, None, None)
    groups = [[let_in, forget_, block, out] for let_in, out, forget_, block in (weights, recurrent, biases)]
    results = c.emit_many(
        Op.UNIDIRECTIONAL_SEQUENCE_LSTM,
        cell.turned(cell.x, backwards),
        *groups[0],
        *groups[1],
        *(inside, forget, outside),
        *groups[2],
        None,
        None,
        cell.state(5, direction),
        cell.state(6, direction),
        _TANH,
        0.0,
        0.0,
        True,
        outs=[cell.type, cell.type.with_dimensions(shape), cell.type.with_dimensions(shape)],
    )
    return cell.turned(results[0], backwards), results[1:3]


@operator("RNN")
def rnn(c: Context) -> list[Tensor]:
    """Map RNN: UNIDIRECTIONAL_SEQUENCE_RNN per direction if it has the activation and sequences have one length."""
    cell = Cell(c, 1, ("Tanh",))
    sequences, hidden = [], []
    for direction, backwards in enumerate(cell.backwards):
        code = _ACTIVATIONS.get(cell.activations[direction][0].name)
        if code is None or not cell.has(direction, cell.activations[direction][0].name):
            sequence, ends = unrolled.rnn(cell, direction)
            sequences.append(sequence)
            hidden.append(ends[0])
            continue
        first, second = cell.biases(direction)
        result = c.emit(
            Op.UNIDIRECTIONAL_SEQUENCE_RNN,
            cell.turned(cell.x, backwards),
            cell.row(1, direction),
            cell.row(2, direction),
            c.emit(Op.ADD, first, second, NONE, out=first.type),
            cell.state(5, direction),
            int(code),
            1,
            out=cell.type,
        )
        hidden.append(_last(c, result))
        sequences.append(cell.turned(result, backwards))
    return cell.given(sequences, (hidden,))


@operator("GRU")
def gru(c: Context) -> list[Tensor]:
    """Map GRU by unrolling, because NNAPI has none."""
    cell = Cell(c, 3, ("Sigmoid", "Tanh"))
    made = [unrolled.gru(cell, direction) for direction in range(len(cell.backwards))]
    return cell.given([sequence for sequence, _ in made], ([ends[0] for _, ends in made],))
