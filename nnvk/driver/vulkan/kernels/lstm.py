"""LSTM, UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM, with all optional operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nnvk.driver.vulkan.kernels.recurrent import (
    SHADERS,
    Driven,
    Layer,
    Limits,
    Rows,
    Span,
    both_directions,
    drive,
    drive_time_steps,
    loop,
    loop_size,
    one_direction,
    packed_once,
    refuse_long,
    time_step,
)
from nnvk.driver.vulkan.lowering.copies.convert import widened
from nnvk.driver.vulkan.lowering.copies.move import fill
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.recurrent.gates import by_gate, matrix, vectors
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Call, Tensor
from nnvk.ops.lstm_cell import GATES, CellOperands
from nnvk.ops.recurrent import sequence_shape
from nnvk.ops.sequence_lstm import lstm_linking
from nnvk.types.codes import FuseCode, OperationCode

_MOST_NORMALISED = 80_000
"""The most units that the loops of one workgroup can normalise; see `MOST_ROUNDS`."""


class _LstmLayer(Layer):
    """The sums of a unit's four gates are adjacent; with CIFG there are four, too."""

    cell = "lstm"

    def __init__(
        self, g: Lowering, call: Call, prefix: str, span: Span, source: Tensor, target: TensorRef, *, aux: bool = False
    ) -> None:
        operands = CellOperands.of(call, prefix, aux=aux)
        units, outputs = operands.recurrent_weights["output"].shape
        super().__init__(g, span, units, outputs, operands.output_state, target)
        self._units = units
        self._cell_before = g.tensor(widened(g, operands.cell_state))
        self._cell = g.scratch(4 * span.batches * units)
        self._limits, self._projection_limits = Limits.of(call.activation), Limits.clip(call.proj_clip)
        self._cell_clip = Limits.clip(call.cell_clip).high
        self._norm = bool(operands.norm)
        self._gate_options = {"CIFG": operands.is_coupled, "PEEPHOLE": bool(operands.peephole)}
        if not span.time:
            return
        weights = [operands.input_weights, operands.aux_weights] if aux else [operands.input_weights]
        bias = vectors(g, units, [[None] * len(GATES) if self._norm else by_gate(operands.bias)])
        columns = matrix(g, units, [by_gate(part) for part in weights])
        if self._norm:
            self._driven = Driven(drive(g, source, columns, bias), 0)  # the sums overwrite it
        else:
            self._driven = drive_time_steps(g, source, columns, bias)
        self._recurrent = matrix(g, units, [by_gate(operands.recurrent_weights)])
        if operands.projection_weights is not None:
            self._projection = matrix(g, outputs, [[operands.projection_weights]])
            self._further = units
        sections = [operands.peephole] if operands.peephole else []
        sections += [operands.norm, operands.bias] if self._norm else []
        self._projection_bias = len(sections) * len(GATES) * units
        parameters = vectors(g, units, [by_gate(section) for section in sections], operands.projection_bias, outputs)
        self._parameters = g.tensor(parameters)
        self._first = span.time_steps[0]
        if self._further and self._loop_size() is None:
            self._unprojected = Rows(g.scratch(4 * span.batches * units), 0, units)

    def _options(self, number: int) -> tuple[Mapping[str, bool], Mapping[str, TensorRef], Mapping[str, float]]:
        projection = packed_once(self._g, self._recurrent if self._projection is None else self._projection)
        spec = {**self._gate_options, "NORM": self._norm, "PROJECTION": self._projection is not None}
        clips = {"cell_clip": self._cell_clip, "projection_clip": self._projection_limits.high}
        return spec, {**self._cells(number), "projection": projection}, clips

    def _time_step(self, number: int, state: Rows) -> Iterator[None]:
        target = self._rows(number)
        if self._projection is None:
            self._gates(number, state, target)
        else:
            self._gates(number, state, self._unprojected)
            self._project(self._unprojected, target)
        yield

    def states(self) -> list[Rows]:
        """Output and cell state after the last time step."""
        return [*super().states(), Rows(self._cell if self._span.time else self._cell_before, 0, self._units)]

    def _cells(self, number: int) -> dict[str, TensorRef]:
        before = self._cell_before if number == self._first else self._cell
        return {"before": before, "after": self._cell, "parameters": self._parameters}

    def _gates(self, number: int, state: Rows, result: Rows) -> None:
        """Dispatch a time step without its projection."""
        sums = self._sums(number)
        if not self._norm:
            time_step(
                self._g,
                "lstm",
                rows=self._span.batches,
                columns=self._units,
                source=state,
                length=self._width,
                weights=self._recurrent,
                driven=sums,
                target=result,
                limits=self._limits,
                spec=self._gate_options,
                tensors=self._cells(number),
                cell_clip=self._cell_clip,
            )
            return
        time_step(
            self._g,
            "rnn",
            rows=self._span.batches,
            columns=len(GATES) * self._units,
            source=state,
            length=self._width,
            weights=self._recurrent,
            driven=sums,
            target=sums,
            limits=Limits.of(FuseCode.NONE),
        )
        loop(
            self._g,
            "lstm",
            loop_size(self._g, self._units, 0, norm=True),
            self._span,
            1,
            quads=self._units,
            length=self._units,
            state=sums,
            weights=sums.tensor,
            driven=sums,
            target=result,
            limits=self._limits,
            spec={**self._gate_options, "NORM": True, "RECURRENT": False},
            tensors={**self._cells(number), "projection": sums.tensor},
            cell_clip=self._cell_clip,
            projection_clip=0.0,
        )

    def _project(self, source: Rows, target: Rows) -> None:
        assert self._projection is not None
        time_step(
            self._g,
            "rnn",
            rows=self._span.batches,
            columns=self._width,
            source=source,
            length=self._units,
            weights=self._projection,
            driven=Rows(self._parameters, self._projection_bias, 0),
            target=target,
            limits=self._projection_limits,
        )


def _refuse_cell(call: Call, prefix: str, aux: int = 0) -> str | None:
    """The reason why a cell is too large, or None. ``aux``: the elements of the auxiliary input, if it has weights."""
    operands = CellOperands.of(call, prefix)
    units, outputs = operands.recurrent_weights["output"].shape
    if operands.norm and units > _MOST_NORMALISED:
        return f"{units} units are normalised together, the shader takes at most {_MOST_NORMALISED}"
    return refuse_long(operands.input_weights["output"].shape[1] + aux, units, outputs)


def _refuse(call: Call) -> str | None:
    return _refuse_cell(call, "")


@kernel(OperationCode.LSTM, shaders=SHADERS, refuse=_refuse)
def lower_time_step(call: Call, g: Lowering) -> None:
    """Lower one time step."""
    fill(g, g.tensor(call.scratch_buffer), np.zeros(1, call.scratch_buffer.dtype))  # as on the reference device
    states = call.output_state_out, call.cell_state_out
    one_direction(g, call, _LstmLayer, Span(1, call.input.shape[0], True), call.result, states)


@kernel(OperationCode.UNIDIRECTIONAL_SEQUENCE_LSTM, shaders=SHADERS, refuse=_refuse)
def lower_sequence(call: Call, g: Lowering) -> None:
    """Lower a sequence of time steps."""
    time, batches, _ = sequence_shape(call)
    one_direction(g, call, _LstmLayer, Span(time, batches, bool(call.time_major)), call.result, call.outputs[1:])


def _refuse_bidirectional(call: Call) -> str | None:
    crossed = lstm_linking(call)[1]
    aux = call.aux_input.shape[-1] if crossed else 0
    return _refuse_cell(call, "fw_", aux) or _refuse_cell(call, "bw_", aux)


@kernel(OperationCode.BIDIRECTIONAL_SEQUENCE_LSTM, shaders=SHADERS, refuse=_refuse_bidirectional)
def lower_bidirectional(call: Call, g: Lowering) -> None:
    """Lower both directions and alternate between their dispatches."""
    outputs = [getattr(call, prefix + "recurrent_to_output_weights").shape[1] for prefix in ("fw_", "bw_")]
    both_directions(g, call, _LstmLayer, lstm_linking(call), outputs, 2)
