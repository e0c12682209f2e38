"""Recurrent operators. Their variable tensors are states: inputs and outputs of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tflite

from nnvk.api import ExtendedOperationCode, OperandCode, OperandType, OperationCode
from nnvk.importers.decompositions.moving import unpacked
from nnvk.importers.emitter import is_quantised
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite import hybrid_cells, wide_lstm
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.hybrid import Rounding, hybrid, is_hybrid, is_rounded, real_weights
from nnvk.importers.tflite.hybrid_cells import RnnCell, joined, lstm_cell
from nnvk.importers.tflite.operands import operand_type
from nnvk.importers.tflite.registry import builtin

Op = OperationCode

_Kind = tflite.ActivationFunctionType
_CELL_ACTIVATIONS = {_Kind.NONE: 0, _Kind.RELU: 1, _Kind.RELU_N1_TO_1: 2, _Kind.RELU6: 3, _Kind.TANH: 4}
"""The activations of recurrent cells, which know more than FuseCode."""


def _cell_activation(options: Any) -> int:
    kind = options.FusedActivationFunction()
    if kind not in _CELL_ACTIVATIONS:
        raise Unmapped(f"NNAPI's recurrent cells have no activation {kind}")
    return _CELL_ACTIVATIONS[kind]


def _weights(c: Context, positions: Sequence[int], leading: Value) -> list[Value | None]:
    """Inputs that may be left out; quantised weights of hybrid kernels become real."""
    found = (c.optional(position) for position in positions)
    return [real_weights(c, value) if value is not None and is_hybrid(leading, value) else value for value in found]


def _cell_weights(c: Context, first: int, leading: Value) -> tuple[Value, Value, Value]:
    """The weights of a plain cell, those of its state, and its bias."""
    weights, recurrent, bias = (c.input(position) for position in range(first, first + 3))
    if is_hybrid(leading, weights):
        weights, recurrent = real_weights(c, weights), real_weights(c, recurrent)
    return weights, recurrent, bias


def _states(c: Context, positions: Sequence[int], leading: Value) -> list[Value]:
    """The states before; hybrid kernels keep them real."""
    return [c.like(c.input(position), leading) for position in positions]


def _update(c: Context, positions: Sequence[int], values: Sequence[Value]) -> None:
    for position, value in zip(positions, values, strict=True):
        c.update(position, value)


def _time_axis(options: Any) -> int:
    return 0 if options.TimeMajor() else 1


def _check_real(c: Context, source: Value) -> None:
    if is_quantised(source):
        raise Unmapped(f"NNAPI has {c.operator.name} for real activations only, got {source.type}")


# --- plain cells ---------------------------------------------------------------------------------------------


@builtin("RNN")
def rnn(c: Context) -> Value:
    """Map RNN, one time step."""
    source = c.input(0)
    _check_real(c, source)
    options = c.options("RNNOptions")
    weights, states, activation = _cell_weights(c, 1, source), _states(c, (4,), source), _cell_activation(options)
    if is_rounded(c, source, c.input(1)):
        cell = RnnCell(*weights, activation, bool(options.AsymmetricQuantizeInputs()))
        result, states = hybrid_cells.once(c, cell, source, states)
    else:
        *states, result = c.emit_many(Op.RNN, source, *weights, *states, activation, outs=[source.type] * 2)
    _update(c, (4,), states)
    return result


@builtin("UNIDIRECTIONAL_SEQUENCE_RNN")
def sequence_rnn(c: Context) -> Value:
    """Map UNIDIRECTIONAL_SEQUENCE_RNN, a sequence of time steps."""
    source = c.input(0)
    _check_real(c, source)
    options = c.options("SequenceRNNOptions")
    weights, states, activation = _cell_weights(c, 1, source), _states(c, (4,), source), _cell_activation(options)
    if is_rounded(c, source, c.input(1)):
        cell = RnnCell(*weights, activation, bool(options.AsymmetricQuantizeInputs()))
        result, states = hybrid_cells.sequence(c, cell, [source], states, _time_axis(options))
    else:
        parameters = activation, int(options.TimeMajor())
        result, *states = c.emit_many(
            Op.UNIDIRECTIONAL_SEQUENCE_RNN, source, *weights, *states, *parameters, outs=[source.type] * 2
        )
    _update(c, (4,), states)
    return result


@builtin("BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_rnn(c: Context) -> Sequence[Value]:
    """Map BIDIRECTIONAL_SEQUENCE_RNN, forwards and backwards."""
    source, states = c.input(0), (4, 8)
    _check_real(c, source)
    options = c.options("BidirectionalSequenceRNNOptions")
    if is_rounded(c, source, c.input(1)):
        return _hybrid_bidirectional_rnn(c, options)
    inputs = [source, *_weights(c, range(1, 12), source)]
    for position, value in zip(states, _states(c, states, source), strict=True):
        inputs[position] = value
    parameters = _cell_activation(options), bool(options.TimeMajor()), bool(options.MergeOutputs())
    results = 1 if options.MergeOutputs() else 2
    values = c.emit_many(
        Op.BIDIRECTIONAL_SEQUENCE_RNN, *inputs, *parameters, outs=[source.type] * (results + len(states))
    )
    _update(c, states, values[results:])
    return values[:results]


def _hybrid_bidirectional_rnn(c: Context, options: Any) -> Sequence[Value]:
    source, crossed = c.input(0), _weights(c, (10, 11), c.input(0))
    activation, asymmetric = _cell_activation(options), bool(options.AsymmetricQuantizeInputs())
    cells = []
    for first, aux in zip((1, 5), crossed, strict=True):
        weights, recurrent, bias = _cell_weights(c, first, source)
        both = joined(c, [weights] if aux is None else [weights, aux])
        cells.append(RnnCell(both, recurrent, bias, activation, asymmetric))
    return _both_directions(c, cells, c.optional(9), options, [(4,), (8,)], is_crossed=crossed[0] is not None)


def _both_directions(
    c: Context,
    cells: Sequence[hybrid_cells.Cell],
    aux: Value | None,
    options: Any,
    states: Sequence[Sequence[int]],
    *,
    is_crossed: bool,
) -> Sequence[Value]:
    """Two cells over a sequence, the second one backwards.

    An auxiliary input is one more of both where there are weights for it (crossed), and else the second one's input.
    """
    source, axis = c.input(0), _time_axis(options)
    if is_crossed:
        if aux is None:
            raise Unmapped("there are weights for an auxiliary input, and no such input")
        sources = [[source, aux]] * 2
    else:
        sources = [[source], [source if aux is None else aux]]
    results = []
    for cell, inputs, positions, backwards in zip(cells, sources, states, (False, True), strict=True):
        before = _states(c, positions, source)
        result, after = hybrid_cells.sequence(c, cell, inputs, before, axis, backwards=backwards)
        _update(c, positions, after)
        results.append(result)
    return [c.emit(Op.CONCATENATION, *results, 2, out=source.type)] if options.MergeOutputs() else results


@builtin("SVDF")
def svdf(c: Context) -> Value:
    """Map SVDF, a filter over features and time. The levels of an 8-bit output are its only activation."""
    source, options = c.input(0), c.options("SVDFOptions")
    if source.code is OperandCode.TENSOR_QUANT8_ASYMM_SIGNED:
        before, weights = c.input(4), (c.input(1), c.input(2), c.optional(3))
        outs = [before.type, c.out()]
        state, result = c.emit_many(
            ExtendedOperationCode.QUANTIZED_SVDF, source, *weights, before, options.Rank(), outs=outs
        )
        c.update(4, state)
        return result
    _check_real(c, source)
    # Only the first of the two products has 8 bits.
    rounding = Rounding((1,), bool(options.AsymmetricQuantizeInputs()))
    taken, features = hybrid(c, source, c.input(1), rounding)
    inputs = [taken, features, *_weights(c, (2, 3), source), *_states(c, (4,), source)]
    state, result = c.emit_many(Op.SVDF, *inputs, options.Rank(), _cell_activation(options), outs=[source.type] * 2)
    c.update(4, state)
    return result


# --- LSTM ----------------------------------------------------------------------------------------------------

_OUTPUT_GATE, _PROJECTION, _OUTPUT_STATE, _CELL_STATE = 4, 16, 18, 19
_STATES = _OUTPUT_STATE, _CELL_STATE
_NORMS = range(20, 24)
_KERNEL_BASIC = tflite.LSTMKernelType.BASIC


@builtin("LSTM")
def lstm(c: Context) -> Value | Sequence[Value]:
    """Map LSTM, one time step: the full kernel, or one of the two quantised ones."""
    options = c.options("LSTMOptions")
    source = c.input(0)
    if options.KernelType() == _KERNEL_BASIC:
        return _lstm_basic(c)
    if is_quantised(source):
        return _lstm_8bit(c, options, [source])
    weights, norms = _weights(c, range(1, 18), source), _weights(c, _NORMS, source)
    states, activation = _states(c, _STATES, source), _cell_activation(options)
    if is_rounded(c, source, c.input(_OUTPUT_GATE)):
        cell = lstm_cell(c, weights, activation, options, norms=norms)
        result, states = hybrid_cells.once(c, cell, source, states)
    else:
        clips = float(options.CellClip()), float(options.ProjClip())
        inputs = source, *weights, *states, activation, *clips, *norms
        _, *states, result = c.emit_many(Op.LSTM, *inputs, outs=[source.type] * 4)
    _update(c, _STATES, states)
    return result


@builtin("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(c: Context) -> Value:
    """Map UNIDIRECTIONAL_SEQUENCE_LSTM, a sequence of time steps."""
    source = c.input(0)
    options = c.options("UnidirectionalSequenceLSTMOptions")
    if source.code is OperandCode.TENSOR_QUANT16_SYMM:
        return wide_lstm.sequence(c, options)
    if is_quantised(source):
        return _sequence_8bit(c, options)
    weights, norms = _weights(c, range(1, 18), source), _weights(c, _NORMS, source)
    states, activation = _states(c, _STATES, source), _cell_activation(options)
    if is_rounded(c, source, c.input(_OUTPUT_GATE)):
        cell = lstm_cell(c, weights, activation, options, norms=norms)
        result, states = hybrid_cells.sequence(c, cell, [source], states, _time_axis(options))
    else:
        parameters = activation, float(options.CellClip()), float(options.ProjClip()), bool(options.TimeMajor())
        inputs = source, *weights, *states, *parameters, *norms
        result, *states = c.emit_many(Op.UNIDIRECTIONAL_SEQUENCE_LSTM, *inputs, outs=[source.type] * 3)
    _update(c, _STATES, states)
    return result


@builtin("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_lstm(c: Context) -> Sequence[Value]:
    """Map BIDIRECTIONAL_SEQUENCE_LSTM, forwards and backwards."""
    source, states = c.input(0), range(35, 39)
    _check_real(c, source)
    options = c.options("BidirectionalSequenceLSTMOptions")
    if is_rounded(c, source, c.input(_OUTPUT_GATE)):
        return _hybrid_bidirectional_lstm(c, options)
    results = 1 if options.MergeOutputs() else 2
    values = c.emit_many(
        Op.BIDIRECTIONAL_SEQUENCE_LSTM,
        source,
        *_weights(c, range(1, 35), source),
        *_states(c, states, source),
        *_weights(c, range(39, 48), source),
        _cell_activation(options),
        float(options.CellClip()),
        float(options.ProjClip()),
        bool(options.MergeOutputs()),
        bool(options.TimeMajor()),
        *[None] * 8,
        outs=[source.type] * (results + len(states)),
    )
    _update(c, states, values[results:])
    return values[:results]


def _hybrid_bidirectional_lstm(c: Context, options: Any) -> Sequence[Value]:
    source, activation = c.input(0), _cell_activation(options)
    crossed = [_weights(c, positions, source) for positions in (range(40, 44), range(44, 48))]
    is_crossed = crossed[0][1] is not None
    cells = [
        lstm_cell(c, _weights(c, positions, source), activation, options, aux=aux if is_crossed else ())
        for positions, aux in zip((range(1, 18), range(18, 35)), crossed, strict=True)
    ]
    return _both_directions(c, cells, c.optional(39), options, [(35, 36), (37, 38)], is_crossed=is_crossed)


_GATES = 4
_INTERMEDIATES = 5
_NORMLESS_SCALE = 2.0**-12
"""The scale of what enters a gate without a layer norm; the intermediate tensors have none then."""
_SYMMETRIC = OperandCode.TENSOR_QUANT8_SYMM


def _symmetric(c: Context, position: int) -> Value | None:
    """Weights as TENSOR_QUANT8_SYMM, which is what they are without a zero point."""
    value = c.optional(position)
    if value is None or value.code is not OperandCode.TENSOR_QUANT8_ASYMM_SIGNED:
        return value
    if not value.is_constant or value.type.zero_point:
        raise Unmapped(f"input {position} must be a constant with zero point 0, got {value.type}")
    return Value(OperandType(_SYMMETRIC, value.shape, value.type.scale), value.array)


def _lstm_8bit(c: Context, options: Any, time_steps: Sequence[Value]) -> list[Value]:
    """The kernel with 8-bit activations and a 16-bit cell state, for each of ``time_steps``; keeps the last states."""
    if len(c.intermediates) != _INTERMEDIATES:
        raise Unmapped(f"the 8-bit kernel has {_INTERMEDIATES} intermediate tensors, got {len(c.intermediates)}")
    if options.FusedActivationFunction() != _Kind.TANH:
        raise Unmapped("NNAPI's QUANTIZED_LSTM has no activation but TANH")
    scales = [_NORMLESS_SCALE] * _GATES
    if c.optional(_NORMS[1]) is not None:
        scales = [float(tensor.scales[0]) if tensor.scales.size else 0.0 for tensor in c.intermediates[:_GATES]]
    hidden = operand_type(c.intermediates[_GATES])
    # NNAPI subtracts the zero point from the hidden state's levels, as TFLite does before a projection. If the levels
    # are the output, TFLite adds it.
    zero_point = hidden.zero_point if c.optional(_PROJECTION) is not None else -hidden.zero_point
    weights = [
        *(_symmetric(c, position) for position in range(1, 9)),
        *(c.optional(position) for position in range(9, 16)),
        _symmetric(c, _PROJECTION),
        c.optional(_PROJECTION + 1),
    ]
    states = [c.input(_OUTPUT_STATE), c.input(_CELL_STATE)]
    types = [states[0].type, states[1].type, states[0].type]
    results = []
    for source in time_steps:
        *states, result = c.emit_many(
            Op.QUANTIZED_LSTM,
            source,
            *weights,
            *states,
            *(c.optional(position) for position in _NORMS),
            float(options.CellClip()),
            float(options.ProjClip()),
            *scales,
            zero_point,
            hidden.scale,
            outs=types,
        )
        results.append(result)
    _update(c, (_OUTPUT_STATE, _CELL_STATE), states)
    return results


def _sequence_8bit(c: Context, options: Any) -> Value:
    """The 8-bit kernel over a sequence, which NNAPI has for one time step: each time step is an operation."""
    source = c.input(0)
    if len(source.shape) != 3:
        raise Unmapped(f"the input must have rank 3, got shape {list(source.shape)}")
    axis = _time_axis(options)
    if (count := source.shape[axis]) > wide_lstm.MOST_TIME_STEPS:
        raise Unmapped(f"NNAPI has the 8-bit kernel for one time step, and {count} are too many to unroll")
    results = _lstm_8bit(c, options, unpacked(c, source, axis))
    return c.emit(Op.PACK, axis, *results, out=results[0].type)


def _lstm_basic(c: Context) -> Sequence[Value]:
    """The basic kernel. One weight matrix is for all gates and both sources. Its 8-bit variant has 16-bit gates."""
    source, output_state, weights, biases, cell_state = (c.input(position) for position in range(5))
    if source.code not in (OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_QUANT8_ASYMM):
        raise Unmapped(f"NNAPI has the basic kernel for TENSOR_FLOAT32 and TENSOR_QUANT8_ASYMM only, got {source.type}")
    if not weights.is_constant or not biases.is_constant:
        raise Unmapped("weights and biases (inputs 2 and 3) must be constants")
    units, depth = output_state.shape[-1], source.shape[-1]
    if weights.shape != (4 * units, depth + units) or biases.size != 4 * units:
        raise Unmapped(
            f"weights must have shape {[4 * units, depth + units]} and biases {4 * units} elements, "
            f"got {list(weights.shape)} and {biases.size}"
        )
    # TFLite's gates are input, new input, forget, output; NNAPI's input, forget, cell, output.
    order = (0, 2, 1, 3)
    rows = [weights.array[gate * units : (gate + 1) * units] for gate in order]
    bias_rows = [biases.array.reshape(-1)[gate * units : (gate + 1) * units] for gate in order]
    bias_values = [c.constant(part, biases.type) for part in bias_rows]

    def columns(first: int, past: int) -> list[Value]:
        return [c.constant(row[:, first:past], weights.type) for row in rows]

    if is_quantised(source):
        # Android joins recurrent and input weights, in this order, and multiplies them with input and output state, in
        # that one. Its recurrent weights are the first columns.
        joined = [*columns(units, units + depth), *columns(0, units)]
        states, outs = (cell_state, output_state), [cell_state.type, output_state.type]
        cell, output = c.emit_many(Op.QUANTIZED_16BIT_LSTM, source, *joined, *bias_values, *states, outs=outs)
    else:
        _, output, cell, _ = c.emit_many(
            Op.LSTM,
            source,
            *columns(0, depth),
            *columns(depth, depth + units),
            *[None] * 3,
            *bias_values,
            *[None] * 2,
            output_state,
            cell_state,
            _CELL_ACTIVATIONS[_Kind.TANH],
            0.0,
            0.0,
            *[None] * 4,
            outs=[source.type] * 4,
        )
    _update(c, (1, 4), (output, cell))
    return [output, cell]  # the other two outputs are scratch
