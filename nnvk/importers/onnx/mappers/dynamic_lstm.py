"""LSTM with 8-bit weights whose inputs and states are quantised when the model runs, as onnxruntime computes it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnvk.importers import charged
from nnvk.importers.emitter import F32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers import unrolled
from nnvk.importers.onnx.mappers.cells import Cell
from nnvk.importers.onnx.mappers.dynamic import dynamically_quantised
from nnvk.importers.onnx.mappers.matmul import exact_product
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode
from nnvk.types.constant import QuantisedConstant

Op = OperationCode
_SCALES = {1: 8, 2: 10}
"""The inputs that have the scales of the weights and of the recurrent weights. Zero points follow each of them."""


class _QuantisedCell(Cell):
    """Weights are [directions, inputs, gates * units]."""

    hidden_axis = 1

    def _weights_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        return len(self.backwards), columns, rows


class _QuantisedGates(unrolled.Gates):
    """Rows are quantised together: all inputs at once, and the states of all sequences at each time step.

    onnxruntime does so on one thread. On more threads it quantises the states of each thread's sequences by themselves.
    """

    def of_inputs(self, rows: Value, bias: Value) -> Value:
        return self.combined(Op.ADD, self._product(1)(rows), bias)

    def of_states(self) -> Callable[[Value], Value]:
        return self._product(2)

    def _product(self, position: int) -> Callable[[Value], Value]:
        c, at = self.c, _SCALES[position]
        scale = c.constant(self._own(at, "the scales", position).astype(np.float32), F32)
        weights = self._centred(position, self._own(at + 1, "the zero points", position))

        def product(rows: Value) -> Value:
            levels, of_rows = dynamically_quantised(c, rows)
            total = c.cast(exact_product(c, levels, weights), np.dtype(np.float32))
            return self.combined(Op.MUL, total, self.combined(Op.MUL, of_rows, scale))

        return product

    def _own(self, position: int, what: str, of: int) -> np.ndarray:
        """The numbers that an input has for the direction: one for all columns of the weights or one for each."""
        given = self.c.array(position, what)
        count, columns = len(self.cell.backwards), self.c.tensor(of).shape[2]
        if given.shape not in ((count,), (count, 1), (count, columns)):
            raise Unmapped(
                f"{what} (input {position}) must have shape {[count]} or {[count, columns]}, got {list(given.shape)}"
            )
        own: np.ndarray = given[self.direction].reshape(-1)
        return own

    def _centred(self, position: int, points: np.ndarray) -> Value:
        """Weights less their zero points, as real numbers."""
        levels = self.c.array(position, "the weights")[self.direction]
        if (points == points[0]).all():
            whole = QuantisedConstant(levels, charged.ones(1, np.float32), int(points[0]))
            return self.c.graph.kept(F32.with_dimensions(levels.shape), whole)
        return self.c.deferred(levels.shape, F32, lambda: levels.astype(np.float32) - points.astype(np.float32))


@operator("com.microsoft.DynamicQuantizeLSTM")
def dynamic_quantize_lstm(c: Context) -> list[Tensor]:
    """Map DynamicQuantizeLSTM, unrolled. Each product rounds its rows to 256 levels."""
    cell = _QuantisedCell(c, 4, ("Sigmoid", "Tanh", "Tanh"))
    if cell.lengths is not None:
        raise Unmapped("sequences of different lengths (input 4) are unknown here")
    is_coupled = bool(c.node.integer("input_forget", 0))
    made = [
        unrolled.lstm(cell, direction, is_coupled=is_coupled, gates=_QuantisedGates)
        for direction in range(len(cell.backwards))
    ]
    hidden, cells = [ends[0] for _, ends in made], [ends[1] for _, ends in made]
    return cell.given([sequence for sequence, _ in made], (hidden, cells))
