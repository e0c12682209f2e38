"""Sums of two tensors of 8-bit quantised values by 32-bit floats, where these give the results of the reference.

A result depends on two quantised values alone. So the host computes all 65,536 of them by the reference's integers and
by floats, as `shaders/include/epilogue.glsl` does, and compares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnvk.ops.quant import multiply_by_quantized_multiplier

_LEFT_SHIFT = 20
"""The bits by which both operands are shifted to the left before they are scaled."""
_LARGER = 0.0, 2.0**-14, 2.0**-12
"""The share of sums by which they may be larger. Simple scales have sums in the middle between two results, which are
rounded away from zero then, as the reference has it."""
_CLOSE = 2.0**-12
"""A bound on the error of floats, in units of a result."""
_PLACES = 17
"""Addends to try, from the least to the largest one that exact arithmetic would allow."""
_FROM_THE_MIDDLE = np.abs(np.arange(_PLACES) - _PLACES // 2).argsort(kind="stable")
_FEW = 256
"""Sums that candidates are tried with first."""
_TRIES = 3
"""Candidates that are right for sums close to a change of the result, of which one should be right for all."""


@dataclass(frozen=True, slots=True)
class Operand:
    """The scale of an operand, and its sign in the sum; of a result, its sign is 0."""

    zero: int
    mantissa: int
    shift: int
    sign: int

    def factor(self) -> float:
        """The scale as a real number."""
        return float(np.ldexp(self.mantissa, self.shift - 31))

    def rescaled(self) -> np.ndarray:
        """All quantised values in the common scale of both operands, int64 [256]."""
        values = (np.arange(256) - self.zero) << _LEFT_SHIFT
        return self.sign * multiply_by_quantized_multiplier(values, self.mantissa, self.shift)


@dataclass(frozen=True, slots=True)
class QuantisedSum:
    """A sum of two quantised values, clamped to a range."""

    own: Operand
    other: Operand
    result: Operand
    low: int
    high: int

    def results(self) -> np.ndarray:
        """The results by the reference's integers, int64 [256 own values, 256 other values]."""
        total = self.own.rescaled()[:, np.newaxis] + self.other.rescaled()
        scaled = multiply_by_quantized_multiplier(total, self.result.mantissa, self.result.shift)
        return np.clip(scaled + self.result.zero, self.low, self.high)

    def floats(self, *, saturates: bool) -> tuple[float, float, float] | None:
        """The factors of both operands and an addend, float32, with which floats give all results; None if none do.

        ``saturates`` is that of `epilogue.byte_multipliers`.
        """
        due = self.results()
        found = (self._near(due, 1 + larger, saturates) for larger in _LARGER)
        return next((floats for floats in found if floats is not None), None)

    def _near(self, due: np.ndarray, larger: float, saturates: bool) -> tuple[float, float, float] | None:
        """The factors and the addend near the scales of the operands times ``larger``."""
        scale = (1 << _LEFT_SHIFT) * self.result.factor() * larger
        factors = np.array([each.sign * each.factor() * scale for each in (self.own, self.other)])
        values = np.arange(256.0)
        sums = (values - self.own.zero)[:, np.newaxis] * factors[0] + (values - self.other.zero) * factors[1]
        # The range of numbers that can be added to the sums so that they are rounded to the results.
        least = np.max((due - 0.5 - sums)[due > self.low], initial=-np.inf)
        most = np.min((due + 0.5 - sums)[due < self.high], initial=np.inf)
        if not least < most:
            return None
        if np.isinf(least):  # all results are the least one, and it does not matter how far below it sums are
            least = (0.0 if np.isinf(most) else most) - 1
        if np.isinf(most):
            most = least + 1
        base, size = (self.low, max(self.high - self.low, 1)) if saturates else (-0.5, 1)
        addends = np.linspace(least, most, _PLACES)[_FROM_THE_MIDDLE] - self.own.zero * factors[0]
        addends -= self.other.zero * factors[1] + base
        a, b = (_neighbours(factor) for factor in (factors / size).astype(np.float32))
        every = [each.reshape(-1, 1) for each in np.meshgrid(a, b, (addends / size).astype(np.float32), indexing="ij")]
        # How floats are rounded matters for sums close to a change of the result. Some of these tell most candidates.
        close = np.argwhere(np.abs(np.abs(sums + (least + most) / 2 - due) - 0.5) < _CLOSE)
        close = close[:: -(-len(close) // _FEW) or 1]
        right = self._are_right(*close.T, *every, due=due, saturates=saturates)
        for place in np.flatnonzero(right)[:_TRIES]:
            numbers = [each[place] for each in every]
            if self._are_right(
                np.arange(256)[:, np.newaxis], np.arange(256), *numbers, due=due, saturates=saturates
            ).all():
                return float(numbers[0][0]), float(numbers[1][0]), float(numbers[2][0])
        return None

    def _are_right(
        self,
        own: np.ndarray,
        other: np.ndarray,
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray,
        *,
        due: np.ndarray,
        saturates: bool,
    ) -> np.ndarray:
        """Whether floats give the results of some operands, on devices that round products before sums or do not."""
        values = own.astype(np.float32), other.astype(np.float32)
        by_floats = (self._by_floats(*values, a, b, c, fused=fused, saturates=saturates) for fused in (False, True))
        right: np.ndarray = np.logical_and(*(each == due[own, other] for each in by_floats)).all(axis=-1)
        return right

    def _by_floats(
        self,
        own: np.ndarray,
        other: np.ndarray,
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray,
        *,
        fused: bool,
        saturates: bool,
    ) -> np.ndarray:
        """The results by floats, on devices that round the sum of a product once, or not (``fused``)."""
        sums = _multiply_add(own, a, _multiply_add(other, b, c, fused), fused)
        if not saturates:
            return np.clip(sums, np.float32(self.low), np.float32(self.high + 0.5)).astype(np.int32)
        clamped = np.clip(sums, np.float32(0), np.float32(1))
        rounded = _multiply_add(clamped, np.float32(self.high - self.low), np.float32(2**23 + self.low), fused)
        return rounded.astype(np.int32) - 2**23


def _neighbours(number: np.float32) -> np.ndarray:
    """Floats next to a number, itself first."""
    offsets = np.array([0, 1, -1, 2, -2], np.int32)
    return (np.array(number).view(np.int32) + offsets).view(np.float32)


def _multiply_add(a: np.ndarray, b: np.ndarray | np.float32, c: np.ndarray | np.float32, fused: bool) -> np.ndarray:
    """`multiply_add` of shaders, float32."""
    if not fused:
        return a * b + c
    # Float64 has the product, and nearly always the sum.
    return (a * b.astype(np.float64) + c).astype(np.float32)
