"""Recurrent operations, with all that is optional in them."""

from __future__ import annotations

from collections.abc import Callable

from generators.draw import Arg, Case, Draw, boolean, i32, omitted, real
from generators.table import generator
from nnvk.ops.signature import F32, I32, Q8, Q8_SYMM, Q8S, Q16_SYMM
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import OperandType, Shape

Weights = Callable[..., Arg]

_ACTIVATIONS = (0, 1, 3, 4, 6)


def sequence(d: Draw, time_major: bool, time: int, batches: int, size: int) -> Shape:
    """The shape of a sequence."""
    return (time, batches, size) if time_major else (batches, time, size)


# --- RNN and SVDF --------------------------------------------------------------------------------------------


def _rnn_weights(d: Draw, t: OperandCode, size: int, units: int) -> list[Arg]:
    return [d.weights(t, units, size), d.weights(t, units, units), d.weights(t, units)]


def _rnn_cell(d: Draw, t: OperandCode, batches: int, size: int, units: int) -> list[Arg]:
    return [*_rnn_weights(d, t, size, units), d.tensor(t, (batches, units))]


@generator(Op.RNN)
def _rnn(d: Draw, code: Op, t: OperandCode) -> Case:
    batches, size, units = d.sizes(3)
    weights = _rnn_weights(d, t, size, units)
    state = d.tensor(t, d.loose(batches, units))
    inputs = (d.tensor(t, (batches, size)), *weights, state, i32(d.pick(_ACTIVATIONS)))
    return Case(code, inputs, (OperandType(t),) * 2)


@generator(Op.UNIDIRECTIONAL_SEQUENCE_RNN)
def _sequence_rnn(d: Draw, code: Op, t: OperandCode) -> Case:
    time, batches, size, units = d.sizes(4)
    time_major = d.chance()
    source = d.tensor(t, sequence(d, time_major, time, batches, size))
    options = i32(d.pick(_ACTIVATIONS)), i32(time_major)
    outputs = (OperandType(t),) * d.integer(1, 2)
    return Case(code, (source, *_rnn_cell(d, t, batches, size, units), *options), outputs)


@generator(Op.BIDIRECTIONAL_SEQUENCE_RNN)
def _bidirectional_rnn(d: Draw, code: Op, t: OperandCode) -> Case:
    time, batches, size, forward, backward, aux_size = d.sizes(6)
    time_major, merge = d.chance(), d.chance()
    linking = d.pick(("none", "parallel", "crossed"))
    source = d.tensor(t, sequence(d, time_major, time, batches, size))
    aux = [omitted(t)] * 3
    if linking != "none":
        aux[0] = d.tensor(t, sequence(d, time_major, time, batches, aux_size))
    if linking == "crossed":
        aux[1:] = d.weights(t, forward, aux_size), d.weights(t, backward, aux_size)
    cells = _rnn_cell(d, t, batches, size, forward)
    cells += _rnn_cell(d, t, batches, aux_size if linking == "parallel" else size, backward)
    options = i32(d.pick(_ACTIVATIONS)), boolean(time_major), boolean(merge)
    count = (1 if merge else 2) + d.pick((0, 2))
    return Case(code, (source, *cells, *aux, *options), (OperandType(t),) * count)


@generator(ExtendedOperationCode.UNIDIRECTIONAL_SEQUENCE_GRU)
def _gru(d: Draw, code: ExtendedOperationCode, t: OperandCode) -> Case:
    time, batches, size, units = d.sizes(4)
    reset_after = d.chance()
    cell = [d.weights(t, units, width) for width in (size, units) for _ in range(3)]
    cell += [d.weights(t, units) for _ in range(3)]
    cell.append(d.weights(t, units) if reset_after and d.chance() else omitted(t))
    source, state = d.tensor(t, (time, batches, size)), d.tensor(t, (batches, units))
    options = i32(d.pick(_ACTIVATIONS)), boolean(reset_after)
    return Case(code, (source, *cell, state, *options), (OperandType(t),) * d.integer(1, 2))


@generator(Op.SVDF)
def _svdf(d: Draw, code: Op, t: OperandCode) -> Case:
    batches, size, units, rank, memory = d.sizes(5, 4)
    filters = units * rank
    bias = d.weights(t, units) if d.chance() else omitted(t)
    inputs = (
        d.tensor(t, (batches, size)),
        d.weights(t, filters, size),
        d.weights(t, filters, memory),
        bias,
        d.tensor(t, d.loose(batches, filters * memory)),
        i32(rank),
        i32(d.integer(0, 3)),
    )
    return Case(code, inputs, (OperandType(t),) * 2)


@generator(ExtendedOperationCode.QUANTIZED_SVDF)
def _quantized_svdf(d: Draw, code: ExtendedOperationCode, t: OperandCode) -> Case:
    batches, size, units, rank, memory = d.sizes(5, 4)
    filters = units * rank
    state, time = OperandType(Q16_SYMM, (), 2.0**-11), OperandType(Q16_SYMM, (), 2.0**-15)
    bias = d.new(OperandType(I32, (units,), 1e-4), -100, 100, is_parameter=True) if d.chance() else omitted(I32)
    inputs = (
        d.new(OperandType(t, (batches, size), 2.0**-7, d.integer(-9, 9))),
        d.new(OperandType(t, (filters, size), 2.0**-7), is_parameter=True),
        d.new(time.with_dimensions((filters, memory)), is_parameter=True),
        bias,
        d.new(state.with_dimensions(d.loose(batches, filters * memory))),
        i32(rank),
    )
    return Case(code, inputs, (state, OperandType(t, (), 2.0 ** d.integer(-6, 0), d.integer(-20, 20))))


# --- LSTM ----------------------------------------------------------------------------------------------------


class _Cell:
    """Sizes of an LSTM cell, and the optional groups that it has."""

    def __init__(self, d: Draw, size: int) -> None:
        self.size, (self.units,) = size, d.sizes(1, 4)
        self.cifg, self.peephole, self.projection, self.norm = (d.chance() for _ in range(4))
        self.outputs = d.sizes(1, 4)[0] if self.projection else self.units
        self.projection_bias = self.projection and d.chance()

    def weights(self, matrix: Weights, peephole: Weights, bias: Weights, nothing: Arg) -> list[Arg]:
        """The 17 weights and biases."""
        gates = [not self.cifg, True, True, True]
        rows: list[Arg] = [matrix(self.units, self.size) if gate else nothing for gate in gates]
        rows += [matrix(self.units, self.outputs) if gate else nothing for gate in gates]
        rows += [peephole(self.units) if self.peephole and gate else nothing for gate in (gates[0], True, True)]
        rows += [bias(self.units) if gate else nothing for gate in gates]
        rows.append(matrix(self.outputs, self.units) if self.projection else nothing)
        rows.append(bias(self.outputs) if self.projection_bias else nothing)
        return rows

    def norms(self, weights: Weights, nothing: Arg) -> list[Arg]:
        """Weights of the layer normalisation."""
        return [weights(self.units) if self.norm and gate else nothing for gate in (not self.cifg, True, True, True)]


def _float_cell(d: Draw, t: OperandCode, size: int) -> tuple[_Cell, list[Arg], list[Arg]]:
    cell = _Cell(d, size)

    def matrix(*shape: int) -> Arg:
        return d.weights(t, *shape)

    return cell, cell.weights(matrix, matrix, matrix, omitted(t)), cell.norms(matrix, omitted(t))


def _states(d: Draw, t: OperandCode, batches: int, cell: _Cell, *, loose: bool) -> list[Arg]:
    shapes = [(batches, cell.outputs), (batches, cell.units)]
    return [d.tensor(t, d.loose(*shape) if loose else shape) for shape in shapes]


def _clips(d: Draw, t: OperandCode) -> list[Arg]:
    clips = [real(t, d.pick((0.0, 0.5, 3.0))) for _ in range(2)]
    return [i32(d.pick((0, 1, 4, 6))), *clips]


@generator(Op.LSTM)
def _lstm(d: Draw, code: Op, t: OperandCode) -> Case:
    batches, size = d.sizes(2)
    cell, weights, norms = _float_cell(d, t, size)
    inputs = [d.tensor(t, (batches, size)), *weights, *_states(d, t, batches, cell, loose=True), *_clips(d, t)]
    return Case(code, (*inputs, *(norms if cell.norm or d.chance() else ())), (OperandType(t),) * 4)


@generator(Op.UNIDIRECTIONAL_SEQUENCE_LSTM)
def _sequence_lstm(d: Draw, code: Op, t: OperandCode) -> Case:
    time, batches, size = d.sizes(3, 4)
    time_major = d.chance()
    cell, weights, norms = _float_cell(d, t, size)
    source = d.tensor(t, sequence(d, time_major, time, batches, size))
    states = _states(d, t, batches, cell, loose=False)
    inputs = [source, *weights, *states, *_clips(d, t), boolean(time_major)]
    outputs = (OperandType(t),) * d.pick((1, 3))
    return Case(code, (*inputs, *(norms if cell.norm or d.chance() else ())), outputs)


@generator(Op.BIDIRECTIONAL_SEQUENCE_LSTM)
def _bidirectional_lstm(d: Draw, code: Op, t: OperandCode) -> Case:
    time, batches, size, aux_size = d.sizes(4, 4)
    time_major, merge = d.chance(), d.chance()
    linking = d.pick(("none", "parallel", "crossed"))
    sizes = size, aux_size if linking == "parallel" else size
    cells = [_float_cell(d, t, each) for each in sizes]
    source = d.tensor(t, sequence(d, time_major, time, batches, size))
    aux = [omitted(t)] * 9
    if linking != "none":
        aux[0] = d.tensor(t, sequence(d, time_major, time, batches, aux_size))
    if linking == "crossed":
        aux[1:] = [
            omitted(t) if gate == 0 and cell.cifg else d.weights(t, cell.units, aux_size)
            for cell, *_ in cells
            for gate in range(4)
        ]
    inputs = [source, *cells[0][1], *cells[1][1]]
    for cell, *_ in cells:
        inputs += _states(d, t, batches, cell, loose=True)
    inputs += [*aux, *_clips(d, t), boolean(merge), boolean(time_major)]
    if any(cell.norm for cell, *_ in cells) or d.chance():
        inputs += [*cells[0][2], *cells[1][2]]
    return Case(code, tuple(inputs), (OperandType(t),) * ((1 if merge else 2) + d.pick((0, 4))))


# --- quantised -----------------------------------------------------------------------------------------------


@generator(Op.QUANTIZED_LSTM)
def _quantized_lstm(d: Draw, code: Op, t: OperandCode) -> Case:
    batches, size = d.sizes(2, 4)
    cell = _Cell(d, size)
    cell_type, state_type = OperandType(Q16_SYMM, (), 2.0 ** -d.integer(10, 13)), OperandType(Q8S, (), 0.01, 3)

    def new(type_: OperandType, *shape: int, low: int = -2, high: int = 2) -> Arg:
        return d.new(type_.with_dimensions(shape), low, high, is_parameter=True)

    def matrix(*shape: int) -> Arg:
        return new(OperandType(Q8_SYMM, (), 0.01), *shape)

    def short(*shape: int) -> Arg:
        return new(OperandType(Q16_SYMM, (), 2.0**-14), *shape)

    def bias(*shape: int) -> Arg:
        return new(OperandType(I32, (), 1e-4), *shape, low=-100, high=100)

    none = omitted(I32)
    inputs = [
        d.new(OperandType(Q8S, (batches, size), 0.02, -5)),
        *cell.weights(matrix, short, bias, none),
        d.new(state_type.with_dimensions((batches, cell.outputs))),
        d.new(cell_type.with_dimensions((batches, cell.units))),
        *cell.norms(short, none),
        *(real(F32, d.pick((0.0, 0.5))) for _ in range(2)),
        *(real(F32, 2.0**-12) for _ in range(4)),
        i32(d.integer(-8, 8)),
        real(F32, 0.007),
    ]
    return Case(code, tuple(inputs), (state_type, cell_type, state_type))


@generator(Op.QUANTIZED_16BIT_LSTM)
def _quantized_16bit_lstm(d: Draw, code: Op, t: OperandCode) -> Case:
    batches, size, units = d.sizes(3, 4)
    activation, cell_type = OperandType(Q8, (), 1 / 128, 128), OperandType(Q16_SYMM, (), 2.0**-11)
    scale, zero_point = d.pick((0.01, 0.005)), d.integer(100, 150)

    def matrix(*shape: int) -> Arg:
        return d.new(OperandType(Q8, shape, scale, zero_point), is_parameter=True)

    inputs = [
        d.new(activation.with_dimensions((batches, size))),
        *(matrix(units, size) for _ in range(4)),
        *(matrix(units, units) for _ in range(4)),
        *(d.new(OperandType(I32, (units,), scale / 128), -99, 99, is_parameter=True) for _ in range(4)),
        d.new(cell_type.with_dimensions((batches, units))),
        d.new(activation.with_dimensions((batches, units))),
    ]
    return Case(code, tuple(inputs), (cell_type, activation))
