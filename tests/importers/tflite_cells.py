"""Recurrent cells for tests: sizes, states, and the 24 inputs of the full LSTM."""

from __future__ import annotations

import tflite
from tflite_net import T
from tflite_oracle import f32c

BATCH, TIME, SIZE, UNITS = 2, 3, 5, 4
LSTM_OPTIONS = {"FusedActivationFunction": tflite.ActivationFunctionType.TANH, "CellClip": 0.9, "ProjClip": 0.4}


def state(*shape: int) -> T:
    return T("FLOAT32", shape, variable=True)


def lstm_inputs(source: T, cell: str = "") -> list[T | None]:
    """The 24 inputs of the full kernel. ``cell`` has letters: c(ifg), p(eephole), j (projection), n(orm)."""
    units, width = UNITS, 3 if "j" in cell else UNITS
    skip = "c" in cell

    def gates(*shape: int, present: bool = True) -> list[T | None]:
        return [None if not present or (skip and gate == 0) else f32c(*shape) for gate in range(4)]

    peepholes = gates(units, present="p" in cell)[:3]
    return [
        source,
        *gates(units, SIZE),
        *gates(units, width),
        *peepholes,
        *gates(units),
        *([f32c(width, units), f32c(width)] if "j" in cell else [None, None]),
        state(BATCH, width),
        state(BATCH, units),
        *(gates(units) if "n" in cell else []),
    ]
