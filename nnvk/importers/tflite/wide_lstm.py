"""UNIDIRECTIONAL_SEQUENCE_LSTM of 16-bit activations with 8-bit weights, as operations on 16-bit levels.

TFLite's converter writes this cell and TFLite Micro computes it, but TFLite itself refuses it. It is the plain cell.
The sums of the gates have scale 2^-12, the results of LOGISTIC and TANH have scale 2^-15, and sums saturate. If the
scale of the output is a power of two, the results are TFLite Micro's bit for bit. Otherwise a few differ by one level,
because MUL divides by the scale in single precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tflite

from nnvk.api import FuseCode, OperandCode, OperandType, OperationCode, PaddingCode
from nnvk.base.errors import bad_data
from nnvk.importers.decompositions.moving import unpacked
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.types.operand import ChannelQuant

Op = OperationCode

MOST_TIME_STEPS = 256
"""The most time steps that are unrolled."""
_INT16 = OperandCode.TENSOR_QUANT16_SYMM
_GATE = OperandType(_INT16, scale=2.0**-12)
_SQUASHED = OperandType(_INT16, scale=2.0**-15)
# The order of gates in products: those that are squashed alike are neighbours. As positions of the operator's inputs
# from the first of four on, which are input, forget, cell, output.
_ORDER = (0, 1, 3, 2)
_INPUT_WEIGHTS, _RECURRENT_WEIGHTS, _PEEPHOLE, _BIASES, _PROJECTION = 1, 5, range(9, 12), 12, range(16, 18)
_OUTPUT_STATE, _CELL_STATE, _NORMS = 18, 19, range(20, 24)


def sequence(c: Context, options: Any) -> Value:
    """All time steps of a sequence. One product computes the contribution of the inputs to the gates."""
    source, hidden, cell = c.input(0), c.input(_OUTPUT_STATE), c.input(_CELL_STATE)
    _check(c, options)
    axis = 0 if options.TimeMajor() else 1
    weights, biases = _joined(c, _INPUT_WEIGHTS), _joined_biases(c)
    recurrent = _joined(c, _RECURRENT_WEIGHTS)
    outputs = weights.shape[0]
    gates = c.reshape(_product(c, source, weights, biases), (*source.shape[:2], outputs))
    nothing = np.zeros(2 * outputs, np.int32)
    results = []
    for own in unpacked(c, gates, axis):
        before = _product(c, hidden, recurrent, nothing)
        hidden, cell = _time_step(c, options, _add(c, own, c.reshape(before, own.shape), _GATE), hidden.type, cell)
        results.append(hidden)
    c.update(_OUTPUT_STATE, hidden)
    c.update(_CELL_STATE, cell)
    return c.emit(Op.PACK, axis, *results, out=hidden.type)


def _check(c: Context, options: Any) -> None:
    # Not `Unmapped`: it is not computed as real numbers.
    if options.FusedActivationFunction() != tflite.ActivationFunctionType.TANH:
        raise bad_data("a cell of INT16 has no activation but TANH")
    for position in (*_PEEPHOLE, *_PROJECTION, *_NORMS):
        if c.optional(position) is not None:
            raise bad_data(f"a cell of INT16 has no peephole, projection or normalisation, got input {position}")
    for position, rank in ((0, 3), (_OUTPUT_STATE, 2), (_CELL_STATE, 2)):
        value = c.input(position)
        if value.code is not _INT16 or len(value.shape) != rank:
            raise bad_data(f"input {position} must be of INT16 and rank {rank}, got {value.type}")
    if (count := c.input(0).shape[0 if options.TimeMajor() else 1]) > MOST_TIME_STEPS:
        raise bad_data(f"{count} time steps of a cell of INT16 are too many to write out, at most {MOST_TIME_STEPS}")


def _joined(c: Context, first: int) -> Value:
    """The weights of all gates as filters of single pixels."""
    gates = [c.input(first + gate) for gate in _ORDER]
    units, depth = gates[0].shape[0], gates[0].shape[-1]
    for gate in gates:
        is_plain = gate.code is OperandCode.TENSOR_QUANT8_ASYMM_SIGNED and gate.type.zero_point == 0
        if not gate.is_constant or not is_plain or gate.shape != (units, depth):
            raise bad_data(f"weights must be constants of INT8 and shape {[units, depth]}, got {gate.type}")
    rows = [gate.array for gate in gates if gate.is_constant]
    scales = tuple(gate.type.scale for gate in gates for _ in range(units))
    code = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
    type_ = OperandType(code, channel_quant=ChannelQuant(scales, 0))
    return c.computed((4 * units, 1, 1, depth), type_, lambda: np.concatenate(rows))


def _joined_biases(c: Context) -> np.ndarray:
    """The words of the biases of all gates, two for each number."""
    gates = [c.wide(_BIASES + gate) for gate in _ORDER]
    if any(words is None for words in gates):
        raise bad_data(f"the biases of a cell of INT16 (inputs {_BIASES} to {_BIASES + 3}) must be of INT64")
    return np.concatenate([words for words in gates if words is not None])


def _product(c: Context, source: Value, weights: Value, words: np.ndarray) -> Value:
    """Sums of products of vectors, along the last axis, with all gates' weights: as convolutions round them."""
    *vectors, depth = source.shape
    pixels = c.reshape(source, (math.prod(vectors), 1, 1, depth))
    addend = c.constant(words, OperandType(OperandCode.TENSOR_INT32))
    return c.emit(Op.CONV_2D, pixels, weights, addend, PaddingCode.VALID, 1, 1, FuseCode.NONE, out=_GATE)


def _add(c: Context, left: Value, right: Value, type: OperandType) -> Value:
    return c.emit(Op.ADD, left, right, FuseCode.NONE, out=type)


def _multiply(c: Context, left: Value, right: Value, type: OperandType) -> Value:
    return c.emit(Op.MUL, left, right, FuseCode.NONE, out=type)


def _time_step(c: Context, options: Any, gates: Value, hidden: OperandType, cell: Value) -> tuple[Value, Value]:
    """The states after a time step. ``gates``: the complete sums of the gates."""
    batches, units = cell.shape
    hidden, kept = (OperandType(type_.code, scale=type_.scale) for type_ in (hidden, cell.type))

    def columns(value: Value, first: int, count: int) -> Value:
        return c.emit(Op.SLICE, value, np.array([0, first]), np.array([batches, count]), out=value.type)

    open_ = c.emit(Op.LOGISTIC, columns(gates, 0, 3 * units), out=_SQUASHED)
    new = c.emit(Op.TANH, columns(gates, 3 * units, units), out=_SQUASHED)
    enters, stays, leaves = (columns(open_, gate * units, units) for gate in range(3))
    cell = _add(c, _multiply(c, stays, cell, kept), _multiply(c, enters, new, kept), kept)
    if options.CellClip() > 0:
        cell = _clipped(c, cell, options.CellClip())
    return _multiply(c, leaves, c.emit(Op.TANH, cell, out=_SQUASHED), hidden), cell


def _clipped(c: Context, value: Value, clip: float) -> Value:
    """Clip to the levels of two real numbers, rounded towards 0."""
    most = int(min(np.float32(clip) / np.float32(value.type.scale), np.float32(32767)))
    type_ = value.type.with_dimensions(())
    for code, level in ((Op.MINIMUM, most), (Op.MAXIMUM, -most)):
        value = c.emit(code, value, c.constant(np.array([level], np.int16), type_), out=type_)
    return value
