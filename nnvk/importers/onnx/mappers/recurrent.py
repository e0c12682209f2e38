"""LSTM, GRU and RNN: NNAPI's sequences where it has them; a GRU is unrolled, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnvk.importers.emitter import NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph import Value
from nnvk.importers.idioms.elementwise import each, joint
from nnvk.importers.idioms.moving import sliced, transposed
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import FuseCode, OperationCode
from nnvk.types.operand import OperandType

Op = OperationCode
_MOST_STEPS = 1024
_TANH = 4
"""The activation of NNAPI's recurrent operations; 1 is RELU, 6 the sigmoid."""
_ACTIVATIONS = {"Relu": FuseCode.RELU, "Sigmoid": 6, "Tanh": _TANH}


class _Cell:
    """What the three operators have in common: directions, layouts, states."""

    def __init__(self, c: Context, gates: int) -> None:
        self.c = c
        x = c.real_number(0)
        if len(x.shape) != 3:
            raise Unmapped(f"the input must have rank 3, got shape {list(x.shape)}")
        self.is_batch_first = bool(c.node.integer("layout", 0))
        self.x = transposed(c, x, (1, 0, 2)) if self.is_batch_first else x
        self.time, self.batch, self.inputs = self.x.shape
        direction = c.node.text("direction", "forward")
        if direction not in ("forward", "reverse", "bidirectional"):
            raise Unmapped(f"attribute 'direction' must be forward, reverse or bidirectional, got '{direction}'")
        self.backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        self.units = c.tensor(2).shape[-1]
        rows = gates * self.units
        self._check(1, (len(self.backwards), rows, self.inputs))
        self._check(2, (len(self.backwards), rows, self.units))
        if c.has(3):
            self._check(3, (len(self.backwards), 2 * rows))
        if c.has(4) and any(length != self.time for length in c.ints(4, "the sequences' lengths")):
            raise Unmapped("NNAPI's sequences are all of one length (input 4)")
        if c.node.has("clip"):
            raise Unmapped("NNAPI clips no gates (attribute 'clip')")
        self.gates = gates

    def _check(self, position: int, shape: tuple[int, ...]) -> None:
        if self.c.tensor(position).shape != shape:
            raise Unmapped(f"input {position} must have shape {list(shape)}, got {list(self.c.tensor(position).shape)}")

    def row(self, position: int, direction: int) -> Value:
        """One direction of an input."""
        value = self.c.real_number(position)
        taken = [range(direction, direction + 1), *(range(size) for size in value.shape[1:])]
        return self.c.reshape(sliced(self.c, value, taken), value.shape[1:])

    def cut(self, value: Value, count: int) -> list[Value]:
        """Parts of one size along the first axis."""
        size = value.shape[0] // count
        rest = [range(one) for one in value.shape[1:]]
        return [sliced(self.c, value, [range(place * size, (place + 1) * size), *rest]) for place in range(count)]

    def state(self, position: int, direction: int) -> Value:
        """An initial state [batch, units], zeros where it is left out."""
        if not self.c.has(position):
            return self.c.filled(0.0, OperandType(self.x.code), (self.batch, self.units))
        value = self.c.real_number(position)
        if self.is_batch_first:
            value = transposed(self.c, value, (1, 0, 2))
        taken = [range(direction, direction + 1), *(range(size) for size in value.shape[1:])]
        return self.c.reshape(sliced(self.c, value, taken), (self.batch, self.units))

    def biases(self, direction: int) -> list[Value]:
        """Those of the gates and then those of the recurrent gates."""
        if not self.c.has(3):
            zero = self.c.filled(0.0, OperandType(self.x.code), (self.units,))
            return [zero] * (2 * self.gates)
        return self.cut(self.row(3, direction), 2 * self.gates)

    def turned(self, value: Value, backwards: bool) -> Value:
        """A sequence in the other direction."""
        return self.c.keep(Op.REVERSE, value, np.array([0])) if backwards and value.shape[0] > 1 else value

    def activations(self, count: int, default: Sequence[str]) -> list[list[str]]:
        """The names of activations of each direction."""
        given = self.c.node.texts("activations") or list(default) * len(self.backwards)
        if len(given) != count * len(self.backwards):
            raise Unmapped(f"there must be {count} activations for each direction, got {given}")
        return [given[place * count : (place + 1) * count] for place in range(len(self.backwards))]

    def given(self, sequences: list[Value], states: Sequence[list[Value]]) -> list[Tensor]:
        """The outputs: [time, directions, batch, units], and each last state as [directions, batch, units]."""
        c, count = self.c, len(self.backwards)
        rows = [c.reshape(one, (self.time, 1, self.batch, self.units)) for one in sequences]
        whole = joined(c, rows, 1) if count > 1 else rows[0]
        ends = []
        for state in states:
            last = [c.reshape(one, (1, self.batch, self.units)) for one in state]
            ends.append(joined(c, last, 0) if count > 1 else last[0])
        if self.is_batch_first:
            whole = transposed(c, whole, (2, 0, 1, 3))
            ends = [transposed(c, one, (1, 0, 2)) for one in ends]
        return [c.give(one) for one in (whole, *ends)]


def _last(c: Context, sequence: Value) -> Value:
    time, batch, units = sequence.shape
    taken = (range(time - 1, time), range(batch), range(units))
    return c.reshape(sliced(c, sequence, taken), (batch, units))


@operator("LSTM")
def lstm(c: Context) -> list[Tensor]:
    """UNIDIRECTIONAL_SEQUENCE_LSTM for each direction. ONNX has the gates in the order input, output, forget, cell."""
    cell = _Cell(c, 4)
    for names in cell.activations(3, ("Sigmoid", "Tanh", "Tanh")):
        if names != ["Sigmoid", "Tanh", "Tanh"]:
            raise Unmapped(f"NNAPI's LSTM has the activations Sigmoid, Tanh, Tanh, got {', '.join(names)}")
    if c.node.integer("input_forget", 0):
        raise Unmapped("NNAPI has no LSTM of this coupling (attribute 'input_forget')")
    sequences, hidden, cells = [], [], []
    for direction, backwards in enumerate(cell.backwards):
        weights, recurrent = (cell.cut(cell.row(position, direction), 4) for position in (1, 2))
        both = cell.biases(direction)
        biases = [joint(c, Op.ADD, both[gate], both[gate + 4], NONE, out=both[gate].type) for gate in range(4)]
        peepholes: list[Value | None] = [None] * 3
        if c.has(7):
            inside, outside, forget = cell.cut(cell.row(7, direction), 3)
            peepholes = [inside, forget, outside]
        order = (0, 2, 3, 1)
        type_ = OperandType(cell.x.code)
        shape = (cell.batch, cell.units)
        results = c.emit_many(
            Op.UNIDIRECTIONAL_SEQUENCE_LSTM,
            cell.turned(cell.x, backwards),
            *(weights[gate] for gate in order),
            *(recurrent[gate] for gate in order),
            *peepholes,
            *(biases[gate] for gate in order),
            None,
            None,
            cell.state(5, direction),
            cell.state(6, direction),
            _TANH,
            0.0,
            0.0,
            True,
            outs=[type_, type_.with_dimensions(shape), type_.with_dimensions(shape)],
        )
        sequences.append(cell.turned(results[0], backwards))
        hidden.append(results[1])
        cells.append(results[2])
    return cell.given(sequences, (hidden, cells))


@operator("RNN")
def rnn(c: Context) -> list[Tensor]:
    """UNIDIRECTIONAL_SEQUENCE_RNN for each direction."""
    cell = _Cell(c, 1)
    sequences, hidden = [], []
    for direction, (backwards, names) in enumerate(zip(cell.backwards, cell.activations(1, ("Tanh",)), strict=True)):
        if names[0] not in _ACTIVATIONS:
            raise Unmapped(f"NNAPI's RNN has the activations {', '.join(_ACTIVATIONS)}, got {names[0]}")
        first, second = cell.biases(direction)
        result = c.emit(
            Op.UNIDIRECTIONAL_SEQUENCE_RNN,
            cell.turned(cell.x, backwards),
            cell.row(1, direction),
            cell.row(2, direction),
            joint(c, Op.ADD, first, second, NONE, out=first.type),
            cell.state(5, direction),
            int(_ACTIVATIONS[names[0]]),
            1,
            out=OperandType(cell.x.code),
        )
        hidden.append(_last(c, result))
        sequences.append(cell.turned(result, backwards))
    return cell.given(sequences, (hidden,))


@operator("GRU")
def gru(c: Context) -> list[Tensor]:
    """Gates update, reset, hidden. What the inputs contribute is one product for all steps."""
    cell = _Cell(c, 3)
    if cell.time > _MOST_STEPS:
        raise Unmapped(f"NNAPI has no GRU, and {cell.time} steps are too many to unroll")
    for names in cell.activations(2, ("Sigmoid", "Tanh")):
        if names != ["Sigmoid", "Tanh"]:
            raise Unmapped(f"the activations must be Sigmoid, Tanh here, got {', '.join(names)}")
    sequences, hidden = [], []
    for direction, backwards in enumerate(cell.backwards):
        steps = _gru_steps(cell, direction, cell.turned(cell.x, backwards))
        hidden.append(steps[-1])
        rows = [c.reshape(step, (1, *step.shape)) for step in steps]
        whole = rows[0] if len(rows) == 1 else joined(c, rows, 0)
        sequences.append(cell.turned(whole, backwards))
    return cell.given(sequences, (hidden,))


def _gru_steps(cell: _Cell, direction: int, x: Value) -> list[Value]:
    c, units = cell.c, cell.units
    type_ = OperandType(x.code)
    both = cell.biases(direction)
    own, recurrent = joined(c, both[:3], 0), joined(c, both[3:], 0)
    rows = c.reshape(x, (cell.time * cell.batch, cell.inputs))
    inputs = c.emit(Op.FULLY_CONNECTED, rows, cell.row(1, direction), own, NONE, out=type_)
    inputs = c.reshape(inputs, (cell.time, cell.batch, 3 * units))
    weights = cell.row(2, direction)
    is_after = bool(c.node.integer("linear_before_reset", 0))
    h = cell.state(5, direction)
    steps = []
    gates, inner = _parts(c, weights, units), _parts(c, recurrent, units)
    for step in range(cell.time):
        taken = (range(step, step + 1), range(cell.batch), range(3 * units))
        now = c.reshape(sliced(c, inputs, taken), (cell.batch, 3 * units))
        update_in, hidden_in = _columns(c, now, (0, 2 * units)), _columns(c, now, (2 * units, 3 * units))
        if is_after:
            product = c.emit(Op.FULLY_CONNECTED, h, weights, recurrent, NONE, out=type_)
            both_gates, candidate = _columns(c, product, (0, 2 * units)), _columns(c, product, (2 * units, 3 * units))
        else:
            both_gates = c.emit(Op.FULLY_CONNECTED, h, gates[0], inner[0], NONE, out=type_)
            candidate = None
        bent = each(c, Op.LOGISTIC, joint(c, Op.ADD, update_in, both_gates, NONE, out=type_))
        z, r = _columns(c, bent, (0, units)), _columns(c, bent, (units, 2 * units))
        if candidate is None:
            reset = joint(c, Op.MUL, r, h, NONE, out=type_)
            candidate = c.emit(Op.FULLY_CONNECTED, reset, gates[1], inner[1], NONE, out=type_)
        else:
            candidate = joint(c, Op.MUL, r, candidate, NONE, out=type_)
        new = each(c, Op.TANH, joint(c, Op.ADD, hidden_in, candidate, NONE, out=type_))
        # (1 - z) new + z h
        less = joint(c, Op.SUB, h, new, NONE, out=type_)
        h = joint(c, Op.ADD, new, joint(c, Op.MUL, z, less, NONE, out=type_), NONE, out=type_)
        steps.append(h)
    return steps


def _columns(c: Context, value: Value, ends: tuple[int, int]) -> Value:
    return sliced(c, value, (range(value.shape[0]), range(*ends)))


def _parts(c: Context, value: Value, units: int) -> tuple[Value, Value]:
    """The rows of the first two gates, and those of the third."""
    rest = [range(size) for size in value.shape[1:]]
    return sliced(c, value, [range(2 * units), *rest]), sliced(c, value, [range(2 * units, 3 * units), *rest])
