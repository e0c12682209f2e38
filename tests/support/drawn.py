"""Recipes that hypothesis draws, so that it can shrink what fails."""

from __future__ import annotations

import numpy as np
from generators.draw import SCALES, Draw
from hypothesis import strategies as st

from nnvk.ops.quant import is_quantised, limits
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType, Shape

EXTREME_SCALES = (*SCALES, 1e-6, 3e-4, 7.5, 1000.0)


class HypothesisDraw(Draw):
    """Numbers by hypothesis; the elements of tensors by a generator that it seeds. Quantisation may be extreme."""

    def __init__(self, data: st.DataObject) -> None:
        super().__init__(data.draw(st.integers(0, 2**32 - 1), label="seed"))
        self._data = data

    def integer(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))

    def scale(self) -> float:
        return self.pick(EXTREME_SCALES)

    def quantised(self, code: OperandCode, shape: Shape = ()) -> OperandType:
        type_ = super().quantised(code, shape)
        if type_.zero_point and self.chance(0.3):
            return OperandType(code, shape, type_.scale, self.pick(limits(code)))
        return type_

    def values(self, type_: OperandType, low: float = -2.0, high: float = 2.0) -> np.ndarray:
        if is_quantised(type_.code) and self.chance(0.2):  # only the ends
            return self.rng.choice(np.array(limits(type_.code), type_.dtype), type_.dimensions)
        return super().values(type_, low, high)
