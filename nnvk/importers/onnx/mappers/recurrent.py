"""LSTM, GRU and RNN: one operation for each direction. onnxruntime has clipped and coupled gates."""

from __future__ import annotations

from nnvk.importers.emitter import NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.cells import Cell, Sequenced
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode

_CLOSED = 60000.0
"""Added to a gate's sum, it makes the gate 1, and subtracted 0; FLOAT16 has it."""


@operator("LSTM")
def lstm(c: Context) -> list[Tensor]:
    """Map LSTM to UNIDIRECTIONAL_SEQUENCE_LSTM.

    ONNX has the gates in the order input, output, forget, cell; NNAPI's input, forget, cell, output.
    """
    cell = Cell(c, 4, ("Sigmoid", "Tanh", "Tanh"))
    if c.node.integer("input_forget", 0):
        raise Unmapped("NNAPI's input gates aren't what the forget gates leave (input_forget is 1)")

    def layer(direction: int, x: Value) -> Sequenced:
        weights, recurrent = (cell.cut(cell.row(position, direction), 4) for position in (1, 2))
        if cell.lengths is not None:  # beyond them gates are closed, so that cell states stay
            x = cell.lengths.marked(x)
            closed = (c.filled(number, cell.type, (cell.units, 1)) for number in (-_CLOSED, 0.0, _CLOSED, 0.0))
            weights = [joined(c, [*pair], 1) for pair in zip(weights, closed, strict=True)]
        both = cell.biases(direction)
        biases = [c.emit(Op.ADD, both[gate], both[gate + 4], NONE, out=cell.type) for gate in range(4)]
        inside, outside, forget = cell.cut(cell.row(7, direction), 3) if c.has(7) else (None, None, None)
        groups = [[let_in, forget_, block, out] for let_in, out, forget_, block in (weights, recurrent, biases)]
        return c.emit_many(
            Op.UNIDIRECTIONAL_SEQUENCE_LSTM,
            x,
            *groups[0],
            *groups[1],
            *(inside, forget, outside),
            *groups[2],
            None,
            None,
            cell.state(5, direction),
            cell.state(6, direction),
            cell.activations[direction],
            0.0,
            0.0,
            True,
            outs=[cell.type, cell.state_type, cell.state_type],
        )

    return cell.run(layer)


@operator("RNN")
def rnn(c: Context) -> list[Tensor]:
    """Map RNN to UNIDIRECTIONAL_SEQUENCE_RNN."""
    cell = Cell(c, 1, ("Tanh",))

    def layer(direction: int, x: Value) -> Sequenced:
        first, second = cell.biases(direction)
        return c.emit_many(
            Op.UNIDIRECTIONAL_SEQUENCE_RNN,
            x,
            cell.row(1, direction),
            cell.row(2, direction),
            c.emit(Op.ADD, first, second, NONE, out=first.type),
            cell.state(5, direction),
            cell.activations[direction],
            1,
            outs=[cell.type, cell.state_type],
        )

    return cell.run(layer)


@operator("GRU")
def gru(c: Context) -> list[Tensor]:
    """Map GRU to UNIDIRECTIONAL_SEQUENCE_GRU. Both have the gates in the order update, reset, candidate."""
    cell = Cell(c, 3, ("Sigmoid", "Tanh"))
    reset_after = bool(c.node.integer("linear_before_reset", 0))

    def layer(direction: int, x: Value) -> Sequenced:
        both = cell.biases(direction)
        added = 2 if reset_after else 3
        biases = [c.emit(Op.ADD, both[gate], both[gate + 3], NONE, out=cell.type) for gate in range(added)]
        return c.emit_many(
            ExtendedOperationCode.UNIDIRECTIONAL_SEQUENCE_GRU,
            x,
            *cell.cut(cell.row(1, direction), 3),
            *cell.cut(cell.row(2, direction), 3),
            *(*biases, *both[added:3]),
            both[5] if reset_after else None,
            cell.state(5, direction),
            cell.activations[direction],
            reset_after,
            outs=[cell.type, cell.state_type],
        )

    return cell.run(layer)
