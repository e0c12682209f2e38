"""Recurrent cells of float activations and 8-bit weights, unrolled, with the rounding of TFLite's hybrid kernels.

In each time step a kernel rounds the factors of its weights to 8 bits: the input, an auxiliary input, the previous
output state, and the input of a projection. States stay real numbers. NNAPI's sequence operations cannot do this
rounding, so each time step becomes separate operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nnvk.api import OperationCode
from nnvk.importers.decompositions.arithmetic import with_number
from nnvk.importers.decompositions.moving import unpacked
from nnvk.importers.emitter import F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.hybrid import Rounding, rounded

Op = OperationCode

_MOST_TIME_STEPS = 1024
"""The most time steps that are unrolled."""


@dataclass(frozen=True, slots=True)
class RnnCell:
    """The plain cell. Its state is its output."""

    weights: Value
    """The concatenated weights of all inputs."""
    recurrent: Value
    bias: Value
    activation: int
    asymmetric: bool
    """The rounding of activations; see `Rounding`."""

    def time_step(self, c: Context, sources: Sequence[Value], states: Sequence[Value]) -> tuple[Value, list[Value]]:
        """The output of a time step and the new states, from rounded inputs [batches, size] and the previous states."""
        before = rounded(c, states[0], Rounding((1,), self.asymmetric))
        inputs = joined(c, sources), self.weights, self.recurrent, self.bias, before
        state, result = c.emit_many(Op.RNN, *inputs, self.activation, outs=[F32] * 2)
        return result, [state]


@dataclass(frozen=True, slots=True)
class LstmCell:
    """The full LSTM. Its states are the output state and the cell state."""

    weights: Sequence[Value | None]
    """The 17 weights of NNAPI's operation, without the projection's."""
    norms: Sequence[Value | None]
    projection: tuple[Value, Value] | None
    """The weights and the bias of the projection."""
    activation: int
    cell_clip: float
    projection_clip: float
    asymmetric: bool

    def time_step(self, c: Context, sources: Sequence[Value], states: Sequence[Value]) -> tuple[Value, list[Value]]:
        """As `RnnCell.time_step`."""
        before, cell = rounded(c, states[0], Rounding((1,), self.asymmetric)), states[1]
        if self.projection is not None:
            sources, before = [*sources, before], c.filled(0, F32, cell.shape)
        options = self.activation, self.cell_clip, 0.0
        inputs = joined(c, sources), *self.weights, before, cell, *options, *self.norms
        _, hidden, cell, result = c.emit_many(Op.LSTM, *inputs, outs=[F32] * 4)
        if self.projection is not None:
            hidden = result = self._projected(c, result, *self.projection)
        return result, [hidden, cell]

    def _projected(self, c: Context, result: Value, weights: Value, bias: Value) -> Value:
        source = rounded(c, result, Rounding((1,), self.asymmetric))
        value = c.emit(Op.FULLY_CONNECTED, source, weights, bias, NONE, out=F32)
        if (clip := self.projection_clip) > 0:
            value = with_number(c, Op.MAXIMUM, with_number(c, Op.MINIMUM, value, clip), -clip)
        return value


Cell = RnnCell | LstmCell


def lstm_cell(
    c: Context,
    weights: Sequence[Value | None],
    activation: int,
    options: Any,
    *,
    aux: Sequence[Value | None] = (),
    norms: Sequence[Value | None] = (None,) * 4,
) -> LstmCell:
    """The cell of the 17 weights of NNAPI's operation and, for each gate, those of an auxiliary input, if there is one.

    The input of a projection is rounded, so the projection is a separate operation. As a cell without a projection has
    an output state of its own size, the output state before the time step goes in as one more input then, and zeros
    instead of it.
    """
    inputs, recurrent, rest = weights[:4], weights[4:8], weights[8:15]
    gates = [inputs, aux] if aux else [inputs]
    projection, bias = weights[15:]
    if projection is not None:
        gates.append(recurrent)
        outputs, units = projection.shape
        nothing = c.filled(0, F32, (units, units))
        recurrent = [None if gate is None else nothing for gate in recurrent]
        bias = bias or c.filled(0, F32, (outputs,))
    side_by_side = []
    for parts in zip(*gates, strict=True):
        given = [part for part in parts if part is not None]
        side_by_side.append(joined(c, given) if given else None)
    return LstmCell(
        [*side_by_side, *recurrent, *rest, None, None],
        norms,
        None if projection is None or bias is None else (projection, bias),
        activation,
        float(options.CellClip()),
        float(options.ProjClip()),
        bool(options.AsymmetricQuantizeInputs()),
    )


def once(c: Context, cell: Cell, source: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
    """The output of one time step, and the states after it, of an input [batches, size]."""
    return cell.time_step(c, [rounded(c, source, Rounding((1,), cell.asymmetric))], states)


def sequence(
    c: Context, cell: Cell, sources: Sequence[Value], states: Sequence[Value], axis: int, *, backwards: bool = False
) -> tuple[Value, list[Value]]:
    """The outputs of all time steps along ``axis`` of inputs of rank 3, and the states after the last one."""
    first = sources[0].shape
    for source in sources:
        if len(source.shape) != 3 or source.shape[:2] != first[:2]:
            raise Unmapped(f"inputs must have rank 3, and the same time steps and batches, got {list(source.shape)}")
    if (count := first[axis]) > _MOST_TIME_STEPS:
        raise Unmapped(
            f"NNAPI rounds no activations within a sequence, and {count} time steps are too many to write out, at most "
            f"{_MOST_TIME_STEPS}; round_hybrid=False (--no-round-hybrid) imports it without the rounding"
        )
    parts = [unpacked(c, rounded(c, source, Rounding((2,), cell.asymmetric)), axis) for source in sources]
    time_steps = list(zip(*parts, strict=True))
    results = []
    for time_step in reversed(time_steps) if backwards else time_steps:
        result, states = cell.time_step(c, time_step, states)
        results.append(result)
    return c.emit(Op.PACK, axis, *(results[::-1] if backwards else results), out=F32), list(states)


def joined(c: Context, values: Sequence[Value]) -> Value:
    """Concatenate matrices along their columns."""
    return values[0] if len(values) == 1 else c.emit(Op.CONCATENATION, *values, 1, out=F32)
