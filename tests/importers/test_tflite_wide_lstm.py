"""UNIDIRECTIONAL_SEQUENCE_LSTM of INT16, which TFLite Micro has and TFLite has not: against loops of its arithmetic.

The loops were held against TFLite Micro itself (the package tflite-micro): they are equal to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tflite
from tflite_net import Net, T, write
from tflite_oracle import actual

import nnvk
from nnvk.importers.tflite import TfliteImportError, load
from nnvk.ops.quant import multiply_by_quantized_multiplier, multiply_wide, quantize_multipliers
from nnvk.types.codes import OperandCode

TANH = tflite.ActivationFunctionType.TANH
GATE = 2.0**-12
GATES = range(4)


@dataclass
class Cell:
    """A cell in a file of its own, with what is fed to it."""

    batches: int
    steps: int
    depth: int
    units: int
    time_major: bool = False
    clip: float = 0.0
    cell_scale: float = 2.0**-11
    scale: float = 2.0**-15
    source_scale: float = float(np.float32(0.0003))

    def __post_init__(self) -> None:
        rng = self.rng = np.random.default_rng(self.batches + 10 * self.units)
        leading = (self.steps, self.batches) if self.time_major else (self.batches, self.steps)
        self.source = T("INT16", (*leading, self.depth), scale=self.source_scale)
        self.weights = [self._weights(self.depth) for _ in GATES]
        self.recurrent = [self._weights(self.units) for _ in GATES]
        numbers = rng.integers(-3_000_000, 3_000_000, (4, self.units))
        self.biases = [T("INT64", data=row, scale=self.source_scale * 0.01) for row in numbers]
        shape = self.batches, self.units
        self.states = [T("INT16", shape, scale=scale, variable=True) for scale in (self.scale, self.cell_scale)]

    def _weights(self, columns: int) -> T:
        data = self.rng.integers(-127, 128, (self.units, columns))
        return T("INT8", data=data, scale=float(np.float32(self.rng.uniform(0.001, 0.01))))

    def file(self, **changed: Any) -> bytes:
        result = T("INT16", (*self.source.shape[:2], self.units), scale=self.scale)
        net = Net([self.source], [result])
        inputs = [self.source, *self.weights, *self.recurrent, *[None] * 3, *self.biases, None, None, *self.states]
        inputs += [None] * 4
        for position, tensor in changed.pop("inputs", {}).items():
            inputs[position] = tensor
        options = {"TimeMajor": self.time_major, "CellClip": self.clip, "FusedActivationFunction": TANH, **changed}
        net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [result], "UnidirectionalSequenceLSTMOptions", **options)
        return write(net)

    def feed(self) -> np.ndarray:
        return self.rng.integers(-32768, 32768, self.source.shape).astype(np.int16)


def rescaled(sums: np.ndarray, real: float, multiply: Any) -> np.ndarray:
    mantissa, shift = quantize_multipliers([real])
    return np.clip(multiply(sums, mantissa, shift), -32768, 32767)


def squashed(name: str, values: np.ndarray, scale: float) -> np.ndarray:
    """Apply the operator of this name, which another test compares with TFLite at every level."""
    source, result = T("INT16", values.shape, scale=scale), T("INT16", None, scale=2.0**-15)
    net = Net([source], [result])
    net.op(name, [source], [result])
    return actual(load(write(net)), [values.astype(np.int16)])[0][0].astype(np.int64)


def computed(cell: Cell, feeds: list[np.ndarray]) -> list[np.ndarray]:
    """Return what TFLite Micro computes from inputs that come one after the other."""
    hidden, kept = (np.zeros((cell.batches, cell.units), np.int64) for _ in range(2))
    results = []
    for feed in feeds:
        steps = feed if cell.time_major else feed.swapaxes(0, 1)
        outputs = []
        for step in steps.astype(np.int64):
            gates = []
            for gate in GATES:
                weights, recurrent = cell.weights[gate], cell.recurrent[gate]
                own = step @ np.int64(weights.data).T + np.int64(cell.biases[gate].data)
                own = rescaled(own, cell.source_scale * weights.scale / GATE, multiply_wide)
                before = hidden @ np.int64(recurrent.data).T
                before = rescaled(before, cell.scale * recurrent.scale / GATE, multiply_wide)
                total = np.clip(own + before, -32768, 32767)
                gates.append(squashed("TANH" if gate == 2 else "LOGISTIC", total, GATE))
            stays = rescaled(gates[1] * kept, 2.0**-15, multiply_by_quantized_multiplier)
            enters = rescaled(gates[0] * gates[2], 2.0**-30 / cell.cell_scale, multiply_by_quantized_multiplier)
            kept = np.clip(stays + enters, -32768, 32767)
            if cell.clip:
                most = int(min(cell.clip / cell.cell_scale, 32767))
                kept = np.clip(kept, -most, most)
            new = squashed("TANH", kept, cell.cell_scale)
            hidden = rescaled(gates[3] * new, 2.0**-30 / cell.scale, multiply_by_quantized_multiplier)
            outputs.append(hidden)
        results.append(np.stack(outputs, 0 if cell.time_major else 1).astype(np.int16))
    return results


CELLS = {
    "plain": Cell(2, 3, 8, 6),
    "time major": Cell(3, 4, 5, 7, time_major=True),
    "one of each": Cell(1, 1, 1, 1),
    "clipped": Cell(2, 3, 3, 5, clip=0.7, cell_scale=2.0**-13),
    "clipped at the ends": Cell(2, 2, 3, 5, clip=100.0),
    "coarse": Cell(2, 3, 9, 3, cell_scale=2.0**-9),
}


@pytest.mark.parametrize("name", CELLS)
def test_like_tflite_micro(name: str) -> None:
    cell = CELLS[name]
    imported = load(cell.file())
    assert all(operand.type.code is not OperandCode.TENSOR_FLOAT32 for operand in imported.model.frozen.operands)
    feeds = [cell.feed() for _ in range(2)]
    state = imported.initial_state()
    compilations = [nnvk.Compilation(imported.model, [device]) for device in nnvk.get_devices()]
    for compilation in compilations:
        compilation.finish()
        assert len(compilation.partitions) == 1
    for feed, want in zip(feeds, computed(cell, feeds), strict=True):
        given, states = imported.encode([feed], state), []
        for compilation in compilations:
            (got,), after = imported.decode(nnvk.run(compilation, given))
            np.testing.assert_array_equal(got, want)
            states.append(after)
        state = states[0]


def test_a_scale_that_is_no_power_of_two() -> None:
    cell = Cell(4, 7, 6, 8, scale=float(np.float32(0.00003)))
    feeds = [cell.feed()]
    ((got,),) = actual(load(cell.file()), feeds)
    (want,) = computed(cell, feeds)
    assert np.abs(got.astype(int) - want).max() <= 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"FusedActivationFunction": 1}, "a cell of INT16 has no activation but TANH"),
        ({"inputs": {9: T("INT16", data=[1] * 6, scale=0.1)}}, "has no peephole, projection or normalisation"),
        ({"inputs": {5: T("UINT8", data=np.ones((6, 6)), scale=0.1)}}, "weights must be constants of INT8"),
        ({"inputs": {5: T("INT16", data=np.ones((6, 6)), scale=0.1)}}, "weights must be constants of INT8"),
        (
            {"inputs": {5: T("INT8", data=np.ones((6, 6)), scale=0.1, zero_point=3)}},
            "weights must be constants of INT8",
        ),
        ({"inputs": {5: T("INT8", (6, 6), scale=0.1, variable=True)}}, "weights must be constants of INT8"),
        ({"inputs": {16: T("INT8", data=[[1] * 6] * 6, scale=0.1)}}, "normalisation, got input 16"),
        ({"inputs": {18: T("INT16", (6,), scale=2**-15, variable=True)}}, "input 18 must be of INT16 and rank 2"),
        ({"inputs": {19: T("INT8", (2, 6), scale=2**-11, variable=True)}}, "input 19 must be of INT16 and rank 2"),
        ({"inputs": {13: T("INT32", data=[1] * 6, scale=0.1)}}, "must be of INT64"),
        ({"inputs": {2: T("INT8", data=np.ones((6, 7)), scale=0.1)}}, r"weights must be constants .* shape \[6, 8\]"),
        ({"inputs": {19: T("INT16", (6,), scale=2**-11, variable=True)}}, "input 19 must be of INT16 and rank 2"),
    ],
)
def test_what_is_no_plain_cell_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(TfliteImportError, match=message):
        load(CELLS["plain"].file(**changed))


def test_long_sequences_are_refused() -> None:
    with pytest.raises(TfliteImportError, match="257 time steps of a cell of INT16 are too many"):
        load(Cell(1, 257, 1, 1).file())
