"""Models of one recurrent operation, through NNAPI: TensorFlow Lite's files don't carry all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from graphs import Single

import nnvk
from nnvk import OperandCode, OperandType, OperationCode

Shape = tuple[int, ...]
_FLOAT32 = OperandCode.TENSOR_FLOAT32
_SCALARS = {_FLOAT32: OperandCode.FLOAT32, OperandCode.TENSOR_FLOAT16: OperandCode.FLOAT16}
_TANH = 4


class _Builder:
    """A model of one operation, operand by operand."""

    def __init__(self, code: OperandCode = _FLOAT32) -> None:
        self.real = OperandType(code)
        """The type of real numbers."""
        self._model = nnvk.Model()
        self._generator = np.random.default_rng(7)
        self._operands: list[int] = []
        self._fed: list[int] = []
        self._inputs: list[np.ndarray] = []

    def fed(self, shape: Shape, type_: OperandType | None = None) -> None:
        """An input of the model."""
        type_ = type_ or self.real
        self._inputs.append(self._values(shape, type_))
        self._fed.append(self._model.add_operand(type_.with_dimensions(shape)))
        self._operands.append(self._fed[-1])

    def constants(self, count: int, shape: Shape, type_: OperandType | None = None) -> None:
        """So many weights."""
        type_ = type_ or self.real
        for _ in range(count):
            values = self._values(shape, type_)
            if type_ is self.real:
                values /= type_.dtype.type(np.sqrt(shape[-1]))
            self._add(type_.with_dimensions(shape), values)

    def omitted(self, count: int) -> None:
        """So many optional operands that are not given."""
        for _ in range(count):
            self._add(self.real, None)

    def number(self, code: OperandCode, value: float) -> None:
        """A scalar."""
        self._add(OperandType(code), value)

    def real_number(self, value: float) -> None:
        """A scalar of the tensors' type."""
        self.number(_SCALARS[self.real.code], value)

    def finish(self, code: OperationCode, outputs: Sequence[OperandType]) -> Single:
        """The model, with the types of its outputs."""
        results = [self._model.add_operand(type_) for type_ in outputs]
        self._model.add_operation(code, self._operands, results)
        self._model.identify_inputs_and_outputs(self._fed, results)
        self._model.finish()
        return Single(self._model, tuple(self._inputs))

    def _add(self, type_: OperandType, value: object) -> None:
        index = self._model.add_operand(type_)
        self._model.set_operand_value(index, value)
        self._operands.append(index)

    def _values(self, shape: Shape, type_: OperandType) -> np.ndarray:
        if type_ is self.real:
            return self._generator.uniform(-1, 1, shape).astype(type_.dtype)
        info = np.iinfo(type_.dtype)
        low, high = (-1000, 1000) if type_.dtype == np.int32 else (info.min, info.max + 1)
        return self._generator.integers(low, high, shape, type_.dtype)


def _lstm_weights(b: _Builder, size: int, units: int, outputs: int) -> None:
    width = outputs or units
    b.constants(4, (units, size))
    b.constants(4, (units, width))
    b.omitted(3)
    b.constants(4, (units,))
    if outputs:
        b.constants(1, (outputs, units))
    b.omitted(1 if outputs else 2)


def _lstm_options(b: _Builder) -> None:
    b.number(OperandCode.INT32, _TANH)
    b.real_number(0.0)
    b.real_number(0.0)


def lstm(size: int, units: int, code: OperandCode = _FLOAT32) -> Single:
    """LSTM of one batch."""
    b = _Builder(code)
    b.fed((1, size))
    _lstm_weights(b, size, units, 0)
    b.fed((1, units))
    b.fed((1, units))
    _lstm_options(b)
    return b.finish(OperationCode.LSTM, [b.real] * 4)


def sequence_lstm(
    time: int,
    batches: int,
    size: int,
    units: int,
    code: OperandCode = _FLOAT32,
    *,
    outputs: int = 0,
    norm: bool = False,
) -> Single:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, with a projection to so many outputs, if any, or with layer normalisation."""
    b = _Builder(code)
    b.fed((time, batches, size))
    _lstm_weights(b, size, units, outputs)
    b.fed((batches, outputs or units))
    b.fed((batches, units))
    _lstm_options(b)
    b.number(OperandCode.BOOL, True)
    if norm:
        b.constants(4, (units,))
    return b.finish(OperationCode.UNIDIRECTIONAL_SEQUENCE_LSTM, [b.real])


def bidirectional_lstm(time: int, batches: int, size: int, units: int, code: OperandCode = _FLOAT32) -> Single:
    """BIDIRECTIONAL_SEQUENCE_LSTM, merged."""
    b = _Builder(code)
    b.fed((time, batches, size))
    for _ in range(2):
        _lstm_weights(b, size, units, 0)
    for _ in range(4):
        b.fed((batches, units))
    b.omitted(9)
    _lstm_options(b)
    b.number(OperandCode.BOOL, True)
    b.number(OperandCode.BOOL, True)
    b.omitted(8)
    return b.finish(OperationCode.BIDIRECTIONAL_SEQUENCE_LSTM, [b.real])


def _rnn_cell(b: _Builder, batches: int, size: int, units: int) -> None:
    b.constants(1, (units, size))
    b.constants(1, (units, units))
    b.constants(1, (units,))
    b.fed((batches, units))


def rnn(size: int, units: int, code: OperandCode = _FLOAT32) -> Single:
    """RNN of one batch."""
    b = _Builder(code)
    b.fed((1, size))
    _rnn_cell(b, 1, size, units)
    b.number(OperandCode.INT32, _TANH)
    return b.finish(OperationCode.RNN, [b.real] * 2)


def sequence_rnn(time: int, batches: int, size: int, units: int, code: OperandCode = _FLOAT32) -> Single:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    b = _Builder(code)
    b.fed((time, batches, size))
    _rnn_cell(b, batches, size, units)
    b.number(OperandCode.INT32, _TANH)
    b.number(OperandCode.INT32, 1)
    return b.finish(OperationCode.UNIDIRECTIONAL_SEQUENCE_RNN, [b.real])


def bidirectional_rnn(time: int, batches: int, size: int, units: int, code: OperandCode = _FLOAT32) -> Single:
    """BIDIRECTIONAL_SEQUENCE_RNN, merged."""
    b = _Builder(code)
    b.fed((time, batches, size))
    for _ in range(2):
        _rnn_cell(b, batches, size, units)
    b.omitted(3)
    b.number(OperandCode.INT32, _TANH)
    b.number(OperandCode.BOOL, True)
    b.number(OperandCode.BOOL, True)
    return b.finish(OperationCode.BIDIRECTIONAL_SEQUENCE_RNN, [b.real])


def svdf(size: int, units: int, memory: int, rank: int, code: OperandCode = _FLOAT32) -> Single:
    """SVDF of one batch."""
    b = _Builder(code)
    filters = units * rank
    b.fed((1, size))
    b.constants(1, (filters, size))
    b.constants(1, (filters, memory))
    b.constants(1, (units,))
    b.fed((1, filters * memory))
    b.number(OperandCode.INT32, rank)
    b.number(OperandCode.INT32, 1)
    return b.finish(OperationCode.SVDF, [b.real] * 2)


def quantized_lstm(size: int, units: int) -> Single:
    """QUANTIZED_LSTM of one batch."""
    b = _Builder()
    weights = OperandType(OperandCode.TENSOR_QUANT8_SYMM, (), 1 / 1024)
    bias = OperandType(OperandCode.TENSOR_INT32)
    state = OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (), 1 / 128)
    cell = OperandType(OperandCode.TENSOR_QUANT16_SYMM, (), 2.0**-11)
    b.fed((1, size), state)
    b.constants(4, (units, size), weights)
    b.constants(4, (units, units), weights)
    b.omitted(3)
    b.constants(4, (units,), bias)
    b.omitted(2)
    b.fed((1, units), state)
    b.fed((1, units), cell)
    b.omitted(4)
    for value in (0.0, 0.0, *[2.0**-12] * 4):
        b.number(OperandCode.FLOAT32, value)
    b.number(OperandCode.INT32, 0)
    b.number(OperandCode.FLOAT32, 1 / 128)
    return b.finish(OperationCode.QUANTIZED_LSTM, [state, cell, state])


def quantized_16bit_lstm(size: int, units: int) -> Single:
    """QUANTIZED_16BIT_LSTM of one batch."""
    b = _Builder()
    weights = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 1 / 1024, 128)
    bias = OperandType(OperandCode.TENSOR_INT32, (), 1 / 1024 / 128)
    state = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 1 / 128, 128)
    cell = OperandType(OperandCode.TENSOR_QUANT16_SYMM, (), 2.0**-11)
    b.fed((1, size), state)
    b.constants(4, (units, size), weights)
    b.constants(4, (units, units), weights)
    b.constants(4, (units,), bias)
    b.fed((1, units), cell)
    b.fed((1, units), state)
    return b.finish(OperationCode.QUANTIZED_16BIT_LSTM, [cell, state])
