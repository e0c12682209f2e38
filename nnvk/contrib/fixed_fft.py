"""Fourier transforms of real numbers in fixed point, bit for bit as KissFFT 1.3 computes them.

KissFFT's transforms are of a mixed radix, with decimation in time. Each stage divides by its radix, so that little
overflows, and wraps around where it does. Numbers are INT16 or INT32, with 15 or 31 bits behind the point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

MOST_POINTS = 1 << 16
"""The longest transform."""
_PLANS_KEPT = 32


@dataclass(frozen=True, slots=True)
class _Complex:
    """Complex numbers whose parts have the same integer type."""

    re: np.ndarray
    im: np.ndarray

    def __getitem__(self, index: Any) -> _Complex:
        return _Complex(self.re[index], self.im[index])

    def __add__(self, other: _Complex) -> _Complex:
        return _Complex(self.re + other.re, self.im + other.im)

    def __sub__(self, other: _Complex) -> _Complex:
        return _Complex(self.re - other.re, self.im - other.im)

    def __mul__(self, other: _Complex) -> _Complex:
        """The product, rounded."""
        a, b, c, d = (one.astype(np.int64) for one in (self.re, self.im, other.re, other.im))
        dtype = self.re.dtype
        return _Complex(_rounded(a * c - b * d, dtype), _rounded(a * d + b * c, dtype))

    def scaled(self, factor: int) -> _Complex:
        """The numbers by a real one."""
        dtype = self.re.dtype
        return _Complex(*(_rounded(part.astype(np.int64) * factor, dtype) for part in (self.re, self.im)))

    def divided(self, divisor: int) -> _Complex:
        """The numbers by the reciprocal of a divisor, which is cut off."""
        return self.scaled(np.iinfo(self.re.dtype).max // divisor)

    @property
    def conjugate(self) -> _Complex:
        return _Complex(self.re, -self.im)

    @property
    def turned(self) -> _Complex:
        """The numbers by i."""
        return _Complex(-self.im, self.re)

    @property
    def half(self) -> _Complex:
        return _Complex(self.re >> 1, self.im >> 1)


def _rounded(product: np.ndarray, dtype: np.dtype) -> np.ndarray:
    bits = 8 * dtype.itemsize - 1
    return (product + (1 << (bits - 1)) >> bits).astype(dtype)


def has_plan(length: int) -> bool:
    """Whether there is a transform of ``length`` real numbers: half of it must be a product of 2, 3 and 5."""
    return 4 <= length <= MOST_POINTS and not length % 2 and bool(_radices(length // 2))


def _radices(points: int) -> list[int]:
    """The radices of the stages, in KissFFT's order; empty where the points have another factor, or there is one."""
    found = []
    for radix in (4, 2, 3, 5):
        while points % radix == 0:
            found.append(radix)
            points //= radix
    return found if points == 1 else []


def _waves(phases: list[float], dtype: np.dtype) -> _Complex:
    """The numbers on the unit circle at these angles. The C library's functions give them, as they do to KissFFT."""
    most = int(np.iinfo(dtype).max)
    parts = ([math.floor(0.5 + most * wave(phase)) for phase in phases] for wave in (math.cos, math.sin))
    return _Complex(*(np.array(part, np.int64).astype(dtype) for part in parts))


class _Plan:
    """A transform of ``length`` real numbers, which are half as many complex ones."""

    def __init__(self, length: int, dtype: np.dtype, *, inverse: bool) -> None:
        points, sign = length // 2, -1 if inverse else 1
        self.points = points
        self.inverse = inverse
        self.radices = _radices(points)
        self.twiddles = _waves([sign * (-2 * math.pi * i / points) for i in range(points)], dtype)
        self.ends = _waves([sign * (-math.pi * ((i + 1) / points + 0.5)) for i in range(points // 2)], dtype)
        """The twiddles between the halves of the numbers."""

    def transform(self, source: _Complex) -> _Complex:
        """The transforms along the last axis."""
        return self._stage(source, 0, 1)

    def _stage(self, source: _Complex, depth: int, stride: int) -> _Complex:
        radix = self.radices[depth]
        *leading, size = source.re.shape
        size //= radix
        # Part q has the elements q, q + radix, ... .
        parts = _Complex(*(one.reshape(*leading, size, radix).swapaxes(-1, -2) for one in (source.re, source.im)))
        if size > 1:
            parts = self._stage(parts, depth + 1, stride * radix)
        butterfly = {2: self._two, 3: self._three, 4: self._four, 5: self._five}[radix]
        joined = butterfly([parts[..., q, :].divided(radix) for q in range(radix)], stride)
        return _Complex(*(np.concatenate([getattr(one, part) for one in joined], axis=-1) for part in ("re", "im")))

    def _twiddled(self, parts: list[_Complex], stride: int) -> list[_Complex]:
        """All parts but the first, each turned by the angles of its elements."""
        elements = np.arange(parts[0].re.shape[-1]) * stride
        return [part * self.twiddles[q * elements] for q, part in enumerate(parts[1:], 1)]

    def _two(self, parts: list[_Complex], stride: int) -> list[_Complex]:
        (one,) = self._twiddled(parts, stride)
        return [parts[0] + one, parts[0] - one]

    def _three(self, parts: list[_Complex], stride: int) -> list[_Complex]:
        one, two = self._twiddled(parts, stride)
        total = one + two
        turned = (one - two).scaled(int(self.twiddles.im[stride * one.re.shape[-1]])).turned
        middle = parts[0] - total.half
        return [parts[0] + total, middle + turned, middle - turned]

    def _four(self, parts: list[_Complex], stride: int) -> list[_Complex]:
        one, two, three = self._twiddled(parts, stride)
        even, odd = parts[0] + two, parts[0] - two
        total, turned = one + three, (one - three).turned
        ahead, behind = odd + turned, odd - turned
        return [even + total, *([ahead, even - total, behind] if self.inverse else [behind, even - total, ahead])]

    def _five(self, parts: list[_Complex], stride: int) -> list[_Complex]:
        one, two, three, four = self._twiddled(parts, stride)
        size = stride * one.re.shape[-1]
        a, b = (self.twiddles[number * size] for number in (1, 2))
        outer, inner = one + four, two + three
        outside, inside = one - four, two - three
        first = parts[0] + outer.scaled(int(a.re)) + inner.scaled(int(b.re))
        second = parts[0] + outer.scaled(int(b.re)) + inner.scaled(int(a.re))
        first_turned = (outside.scaled(int(a.im)) + inside.scaled(int(b.im))).turned
        second_turned = (outside.scaled(int(b.im)) - inside.scaled(int(a.im))).turned
        return [
            parts[0] + outer + inner,
            first + first_turned,
            second + second_turned,
            second - second_turned,
            first - first_turned,
        ]


@lru_cache(_PLANS_KEPT)
def _plan(length: int, dtype: np.dtype, inverse: bool) -> _Plan:
    return _Plan(length, dtype, inverse=inverse)


def to_spectrum(numbers: np.ndarray) -> np.ndarray:
    """The spectra [..., length + 2] of real numbers [..., length], whose parts alternate, divided by the length.

    ``numbers`` are int16 or int32, of a length that `has_plan`.
    """
    *leading, length = numbers.shape
    plan, dtype = _plan(length, numbers.dtype, False), numbers.dtype
    points, middle = plan.points, plan.points // 2
    whole = plan.transform(_Complex(numbers[..., ::2], numbers[..., 1::2]))
    spectrum = np.zeros((*leading, points + 1, 2), dtype)
    ends = whole[..., 0].divided(2)
    spectrum[..., 0, 0], spectrum[..., points, 0] = ends.re + ends.im, ends.re - ends.im
    up = np.arange(1, middle + 1)
    down = points - up
    one, other = whole[..., up].divided(2), whole[..., down].conjugate.divided(2)
    # C adds INT16 in 32 bits before it halves.
    total, turned = (
        _Complex(both.re.astype(np.int32), both.im.astype(np.int32))
        for both in (one + other, (one - other) * plan.ends)
    )
    low, high = (total + turned).half, (total - turned).half
    spectrum[..., up, 0], spectrum[..., up, 1] = low.re, low.im
    spectrum[..., down, 0], spectrum[..., down, 1] = high.re, turned.im - total.im >> 1
    return spectrum.reshape(*leading, length + 2)


def from_spectrum(spectra: np.ndarray) -> np.ndarray:
    """The real numbers [..., length] of spectra [..., length + 2], such as `to_spectrum` gives."""
    *leading, size = spectra.shape
    length, dtype = size - 2, spectra.dtype
    plan = _plan(length, dtype, True)
    points, middle = plan.points, plan.points // 2
    given = _Complex(spectra[..., ::2], spectra[..., 1::2])
    whole = _Complex(*(np.zeros((*leading, points), dtype) for _ in range(2)))
    first, last = given.re[..., 0], given.re[..., points]
    ends = _Complex(first + last, first - last).divided(2)
    whole.re[..., 0], whole.im[..., 0] = ends.re, ends.im
    up = np.arange(1, middle + 1)
    down = points - up
    one, other = given[..., up].divided(2), given[..., down].conjugate.divided(2)
    total, turned = one + other, (one - other) * plan.ends
    low, high = total + turned, (total - turned).conjugate
    whole.re[..., up], whole.im[..., up] = low.re, low.im
    whole.re[..., down], whole.im[..., down] = high.re, high.im
    result = plan.transform(whole)
    return np.stack([result.re, result.im], axis=-1).reshape(*leading, length)
