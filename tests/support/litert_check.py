"""One operator, drawn by hypothesis, in LiteRT's reference kernels and in nnvk.

The operator goes into a ``.tflite`` file that both read; nnvk runs what its importer makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tflite
from drawn import EXTREME_SCALES, HypothesisDraw
from hypothesis import strategies as st

from nnvk.types.operand import Shape

pytest.importorskip("ai_edge_litert.interpreter")

from tflite_net import DTYPES, Net, T, write
from tflite_oracle import compare

SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID
FUSED = [getattr(tflite.ActivationFunctionType, name) for name in ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")]
QUANTISED = ("INT8", "UINT8")


class Tensors(HypothesisDraw):
    """Draws TFLite's tensors, with what is fed to those that are inputs."""

    def __init__(self, data: st.DataObject) -> None:
        super().__init__(data)
        self._fed: dict[int, np.ndarray] = {}

    # --- real numbers and integers -------------------------------------------------------------------------------

    def real(self, *shape: int, low: float = -2.0, high: float = 2.0) -> T:
        """A real input."""
        return self.input(T("FLOAT32", shape), self.numbers(shape, low, high))

    def real_constant(self, *shape: int, low: float = -1.0, high: float = 1.0) -> T:
        """A real constant."""
        return T("FLOAT32", data=self.numbers(shape, low, high))

    def numbers(self, shape: Shape, low: float, high: float) -> np.ndarray:
        """Real numbers."""
        return (self.rng.random(shape) * (high - low) + low).astype(np.float32)

    def integers(self, *shape: int, low: int = -9, high: int = 9) -> T:
        """An INT32 input."""
        return self.input(T("INT32", shape), self.rng.integers(low, high + 1, shape, np.int32))

    def flags(self, *shape: int) -> T:
        """A BOOL input."""
        return self.input(T("BOOL", shape), self.rng.integers(0, 2, shape).astype(bool))

    def input(self, tensor: T, value: np.ndarray) -> T:
        """An input, and what is fed to it."""
        self._fed[id(tensor)] = value
        return tensor

    # --- quantised -----------------------------------------------------------------------------------------------

    def zero(self, kind: str) -> int:
        """A zero point, often at an end."""
        limits = np.iinfo(DTYPES[kind])
        return self.pick((limits.min, limits.max, self.integer(int(limits.min), int(limits.max))))

    def levels(self, kind: str, shape: Shape, low: int | None = None) -> np.ndarray:
        """Levels of a quantised type: any, or only the lowest and the highest."""
        limits = np.iinfo(DTYPES[kind])
        least = limits.min if low is None else low
        if self.chance(0.2):
            return self.rng.choice(np.array([least, limits.max], DTYPES[kind]), shape)
        return self.rng.integers(least, limits.max + 1, shape).astype(DTYPES[kind])

    def quantised(self, kind: str, *shape: int, scale: float | None = None, zero_point: int | None = None) -> T:
        """A quantised input, in any scale unless one is given."""
        zero = self.zero(kind) if zero_point is None else zero_point
        tensor = T(kind, shape, scale=self.pick(EXTREME_SCALES) if scale is None else scale, zero_point=zero)
        return self.input(tensor, self.levels(kind, shape))

    def weights(self, kind: str, *shape: int, scale: object = None) -> T:
        """A quantised constant; signed ones are symmetric, as TFLite wants them."""
        signed = kind == "INT8"
        zero = 0 if signed else self.zero(kind)
        levels = self.levels(kind, shape, -127 if signed else None)
        return T(kind, data=levels, scale=self.pick((0.02, 0.3)) if scale is None else scale, zero_point=zero)

    def bias(self, source: T, weights: T, size: int) -> T:
        """The bias of a quantised product."""
        scale = [source.scale * each for each in np.atleast_1d(weights.scale).tolist()]
        data = self.rng.integers(-500, 501, size)
        return T("INT32", data=data, scale=scale if len(scale) > 1 else scale[0])

    def result(self, kind: str, natural: float) -> T:
        """A quantised output, in a scale near ``natural``, or so coarse or fine that all is 0 or saturates."""
        factor = self.pick((1.0, 1.0, 0.3, 1.7, 1e-3, 300.0))
        scale = max(natural * factor, 1e-7)  # TFLite refuses smaller ones beside an activation
        return T(kind, scale=float(np.float32(scale)), zero_point=self.zero(kind))

    def kind(self) -> str:
        """INT8 or UINT8."""
        return self.pick(QUANTISED)

    # --- the check -----------------------------------------------------------------------------------------------

    def check(
        self,
        name: str,
        inputs: Sequence[T | None],
        outputs: T | Sequence[T] = (),
        table: str | None = None,
        *,
        atol: float = 1e-5,
        steps: int = 0,
        repeats: int = 1,
        **options: object,
    ) -> None:
        """Assert that both agree: real numbers within ``atol`` and 1e-5 of their size, levels within ``steps``.

        States are carried over ``repeats`` invocations.
        """
        results = [outputs] if isinstance(outputs, T) else list(outputs) or [T()]
        free = [tensor for tensor in inputs if tensor is not None and id(tensor) in self._fed]
        net = Net(free, results)
        net.op(name, inputs, results, table, **options)
        compare(write(net), [self._fed[id(tensor)] for tensor in free], atol=atol, steps=steps, repeats=repeats)
