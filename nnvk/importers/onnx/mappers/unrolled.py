"""LSTM, GRU and RNN, unrolled: for options that NNAPI's sequences lack, such as lengths, clipped gates and activations.

One matrix product computes the contribution of the inputs to the gates for all time steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnvk.base.sizes import everything
from nnvk.importers.decompositions.arithmetic import chosen, with_number
from nnvk.importers.decompositions.moving import sliced
from nnvk.importers.emitter import NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.mappers.cells import Activation, Cell
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.types.codes import OperationCode

Op = OperationCode
_MOST_TIME_STEPS = 1024

Sequenced = tuple[Value, list[Value]]
"""The results of one direction: all time steps [time, batch, units], and the last states [batch, units]."""


class Gates:
    """The arithmetic of one direction."""

    def __init__(self, cell: Cell, direction: int) -> None:
        if cell.time > _MOST_TIME_STEPS:
            raise Unmapped(f"NNAPI has no such sequence, and {cell.time} time steps are too many to unroll")
        self.cell, self.c, self.direction = cell, cell.c, direction
        self.functions = cell.activations[direction]

    def combined(self, code: OperationCode, first: Value, second: Value) -> Value:
        """ADD, SUB or MUL of two tensors."""
        return self.c.emit(code, first, second, NONE, out=self.cell.type)

    def product(self, rows: Value, weights: Value, bias: Value) -> Value:
        """A FULLY_CONNECTED."""
        return self.c.emit(Op.FULLY_CONNECTED, rows, weights, bias, NONE, out=self.cell.type)

    def inputs(self, bias: Value) -> Callable[[int], Value]:
        """The contribution of a time step's input to its gates [batch, gates * units], with a bias."""
        cell, width = self.cell, self.cell.gates * self.cell.units
        rows = self.c.reshape(cell.x, (cell.time * cell.batch, cell.inputs))
        product = self.product(rows, cell.row(1, self.direction), bias)
        whole = self.c.reshape(product, (cell.time, cell.batch, width))

        def of(place: int) -> Value:
            taken = (range(place, place + 1), range(cell.batch), range(width))
            return self.c.reshape(sliced(self.c, whole, taken), (cell.batch, width))

        return of

    def of_states(self) -> Callable[[Value], Value]:
        """The product of a hidden state and the recurrent weights: [batch, gates * units]."""
        weights = self.cell.row(2, self.direction)
        none = self.c.filled(0.0, self.cell.type, (weights.shape[0],))
        return lambda h: self.product(h, weights, none)

    def columns(self, value: Value, first: int, end: int) -> Value:
        """The gates from one to another."""
        units = self.cell.units
        return sliced(self.c, value, (range(value.shape[0]), range(first * units, end * units)))

    def activated(self, function: Activation, value: Value) -> Value:
        """An activation, of clipped numbers where they are to be."""
        clip = self.cell.clip
        if clip:
            value = with_number(self.c, Op.MAXIMUM, with_number(self.c, Op.MINIMUM, value, clip), -clip)
        return function.of(self.c, value)

    def sequence(self, states: Sequence[Value], time_step: Callable[[int, Sequence[Value]], list[Value]]) -> Sequenced:
        """Run all time steps.

        ``time_step`` computes the next states from its place and the states. The first state is its output. Beyond the
        length of a sequence, its outputs are 0 and its states stay. The states of a sequence without time steps are 0.
        """
        cell, c = self.cell, self.c
        given: dict[int, Value] = {}
        places = range(cell.time)
        for place in reversed(places) if cell.backwards[self.direction] else places:
            new = time_step(place, states)
            inside = cell.inside(place)
            given[place] = new[0] if inside is None else chosen(c, inside, new[0], cell.zeros())
            states = new if inside is None else [chosen(c, inside, *both) for both in zip(new, states, strict=True)]
        some = cell.inside(0)
        ends = [one if some is None else chosen(c, some, one, cell.zeros()) for one in states]
        rows = [c.reshape(given[place], (1, cell.batch, cell.units)) for place in places]
        return rows[0] if len(rows) == 1 else joined(c, rows, 0), ends


def lstm(cell: Cell, direction: int) -> Sequenced:
    """Gates input, output, forget, cell."""
    at = Gates(cell, direction)
    c, both = cell.c, cell.biases(direction)
    inputs = at.inputs(joined(c, [at.combined(Op.ADD, both[gate], both[gate + 4]) for gate in range(4)], 0))
    recurrent = at.of_states()
    peepholes = cell.cut(cell.row(7, direction), 3) if c.has(7) else None
    gate, block, out = at.functions

    def opened(total: Value, place: int, peephole: int, memory: Value) -> Value:
        value = at.columns(total, place, place + 1)
        if peepholes is not None:
            value = at.combined(Op.ADD, value, at.combined(Op.MUL, memory, peepholes[peephole]))
        return at.activated(gate, value)

    def time_step(place: int, states: Sequence[Value]) -> list[Value]:
        h, memory = states
        total = at.combined(Op.ADD, inputs(place), recurrent(h))
        let_in = opened(total, 0, 0, memory)
        kept = opened(total, 2, 2, memory)
        new = at.combined(Op.MUL, let_in, at.activated(block, at.columns(total, 3, 4)))
        memory = at.combined(Op.ADD, at.combined(Op.MUL, kept, memory), new)
        return [at.combined(Op.MUL, opened(total, 1, 1, memory), out.of(c, memory)), memory]

    return at.sequence([cell.state(5, direction), cell.state(6, direction)], time_step)


def rnn(cell: Cell, direction: int) -> Sequenced:
    """One gate."""
    at = Gates(cell, direction)
    first, second = cell.biases(direction)
    inputs = at.inputs(at.combined(Op.ADD, first, second))
    recurrent = at.of_states()

    def time_step(place: int, states: Sequence[Value]) -> list[Value]:
        total = at.combined(Op.ADD, inputs(place), recurrent(states[0]))
        return [at.activated(at.functions[0], total)]

    return at.sequence([cell.state(5, direction)], time_step)


def gru(cell: Cell, direction: int) -> Sequenced:
    """Gates update, reset, hidden."""
    at = Gates(cell, direction)
    c, both = cell.c, cell.biases(direction)
    inputs, recurrent = at.inputs(joined(c, both[:3], 0)), joined(c, both[3:], 0)
    weights = cell.row(2, direction)
    is_after = bool(c.node.integer("linear_before_reset", 0))
    gates, inner = _parts(cell, weights), _parts(cell, recurrent)
    gate, hidden = at.functions

    def time_step(place: int, states: Sequence[Value]) -> list[Value]:
        h, now = states[0], inputs(place)
        update_in, hidden_in = at.columns(now, 0, 2), at.columns(now, 2, 3)
        if is_after:
            product = at.product(h, weights, recurrent)
            both_gates, candidate = at.columns(product, 0, 2), at.columns(product, 2, 3)
        else:
            both_gates, candidate = at.product(h, gates[0], inner[0]), None
        activated = at.activated(gate, at.combined(Op.ADD, update_in, both_gates))
        z, r = at.columns(activated, 0, 1), at.columns(activated, 1, 2)
        if candidate is None:
            candidate = at.product(at.combined(Op.MUL, r, h), gates[1], inner[1])
        else:
            candidate = at.combined(Op.MUL, r, candidate)
        new = at.activated(hidden, at.combined(Op.ADD, hidden_in, candidate))
        # (1 - z) new + z h
        return [at.combined(Op.ADD, new, at.combined(Op.MUL, z, at.combined(Op.SUB, h, new)))]

    return at.sequence([cell.state(5, direction)], time_step)


def _parts(cell: Cell, value: Value) -> tuple[Value, Value]:
    """The rows of the first two gates, and those of the third."""
    units, rest = cell.units, everything(value.shape[1:])
    first, second = range(2 * units), range(2 * units, 3 * units)
    return sliced(cell.c, value, [first, *rest]), sliced(cell.c, value, [second, *rest])
