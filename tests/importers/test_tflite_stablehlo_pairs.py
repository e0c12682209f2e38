"""Arithmetic and logic of StableHLO, against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tflite_net import Net, write
from tflite_oracle import boolean, check, f32, i32, out

from nnvk.importers.tflite import TfliteImportError, load

ELEMENTWISE = [(name, make) for name in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM") for make in (f32, i32)]


@pytest.mark.parametrize(("name", "make"), [*ELEMENTWISE, ("AND", i32), ("AND", boolean)])
def test_stablehlo(name: str, make: Any) -> None:
    kind = {f32: "FLOAT32", i32: "INT32", boolean: "BOOL"}[make]
    check(f"STABLEHLO_{name}", [make(3, 5), make(3, 5)], out(kind), atol=0)


def test_stablehlo_shift_left() -> None:
    numbers = np.array([0, 1, -1, 2**31 - 1, -(2**31), 0x55555555, -0x12345678], np.int32)
    feed = [numbers, np.array([0, 1, 5, 30, 31, 16, 7], np.int32)]
    check("STABLEHLO_SHIFT_LEFT", [i32(7), i32(7)], out("INT32"), atol=0, feed=feed)


def test_stablehlo_of_other_types() -> None:
    net = Net([one := boolean(3), other := boolean(3)], [result := out("BOOL")])
    net.op("STABLEHLO_ADD", [one, other], result)
    with pytest.raises(TfliteImportError, match="must be TENSOR_FLOAT32 or TENSOR_INT32 of one shape"):
        load(write(net))
