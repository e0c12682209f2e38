"""Assumptions of shaders about a device and its compiler: an expression of each kind, and its expected result.

`docs/shaders.md` says how shaders ensure each assumption. `shaders/assumptions.comp` computes the expressions on
operands that no compiler knows. This module computes them in NumPy, with IEEE 754's arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.shaders.declaration import Shader, Variant


def _float32(values: Sequence[float]) -> np.ndarray:
    return np.array(values, np.float32)


def _uint32(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.uint32)


_SMALLEST = np.float32(2.0**-126)
"""The smallest normal float32."""
_SPECIAL = _float32([0, -0.0, 1, -1, 3, 1e-30, -1e30, 3e38, np.inf, -np.inf, np.nan])
_WORDS = _uint32([0, 1, 2, 3, 7, 255, 65535, 65537, 2**24 + 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 127, 2**32 - 1])


@dataclass(frozen=True, slots=True)
class Assumption:
    """An expression of `shaders/assumptions.comp` and its expected result."""

    kind: str
    """Value of the shader's axis KIND."""
    says: str
    """The assumption as a sentence."""
    operands: np.ndarray
    """uint32[n, 4]: the bits of the operands; the last one chooses between expressions of a kind."""
    expected: np.ndarray
    """n results: floats, or uint32."""
    ulps: int = 0
    """The allowed error of floats in units in the last place."""
    may_flush: bool = False
    """Zero is also correct if the expected number is subnormal."""
    other: np.ndarray | None = None
    """Alternative results that are also correct."""

    def wrong(self, results: np.ndarray) -> np.ndarray:
        """Places of ``results`` (uint32[n]: bits) that are not as expected."""
        right = self._equal(results, self.expected)
        if self.other is not None:
            right |= self._equal(results, self.other)
        return np.flatnonzero(~right)

    def _equal(self, results: np.ndarray, expected: np.ndarray) -> np.ndarray:
        if expected.dtype != np.float32:
            return results == expected
        got = results.view(np.float32)
        with np.errstate(invalid="ignore"):
            near = np.abs(_ordered(results) - _ordered(expected.view(np.uint32))) <= self.ulps
            flushed = self.may_flush & (got == 0) & (np.abs(expected) < _SMALLEST)
        return np.where(np.isnan(expected), np.isnan(got), near | flushed)

    def describe(self, place: int, results: np.ndarray) -> str:
        """The operands, the result and the expected result at a place, as text."""
        words = ", ".join(f"0x{word:08x}" for word in self.operands[place])
        expected = self.expected[place]
        if expected.dtype == np.float32:
            got = results.view(np.float32)[place]
            return f"of operands {words}: expected {expected!s} (0x{expected.view(np.uint32):08x}), got {got!s}" + (
                f" (0x{results[place]:08x})"
            )
        return f"of operands {words}: expected 0x{expected:08x}, got 0x{results[place]:08x}"


def _ordered(bits: np.ndarray) -> np.ndarray:
    """The bits of floats as integers in the order of the floats; -0 is just below 0."""
    wide = bits.astype(np.int64)
    return np.where(wide >> 31, 0x7FFFFFFF - wide, wide)


def _drawn(count: int, low: int, high: int, seed: int) -> np.ndarray:
    """Floats of either sign whose exponents are drawn from ``low`` to ``high``."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(1, 2, count) * 2.0 ** rng.integers(low, high, count)
    return (size * rng.choice([-1, 1], count)).astype(np.float32)


def _bits(*columns: np.ndarray | int) -> np.ndarray:
    """Operands from columns of floats and of integers; missing columns are zero."""
    count = max(np.size(column) for column in columns)
    words = np.zeros((count, 4), np.uint32)
    for number, column in enumerate(columns):
        array = np.asarray(column)
        words[:, number] = array.view(np.uint32) if array.dtype == np.float32 else array.astype(np.uint32)
    return words


def _pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of the values."""
    first, second = np.meshgrid(values, values, indexing="ij")
    return first.ravel(), second.ravel()


def _ways(
    says: str, kind: str, ways: Iterable[tuple[tuple[np.ndarray, ...], np.ndarray]], **options: int | bool
) -> Assumption:
    """An assumption with several expressions. Each has up to three columns of operands, and the results."""
    operands, expected = [], []
    for way, (columns, results) in enumerate(ways):
        words = _bits(*columns)
        words[:, 3] = way
        operands.append(words)
        expected.append(results)
    return Assumption(kind, says, np.concatenate(operands), np.concatenate(expected), **options)  # type: ignore[arg-type]


def _order() -> Assumption:
    a, b = _drawn(1001, -20, 20, 1), _drawn(1001, -20, 20, 2)
    c = np.where(np.arange(1001) % 2, _drawn(1001, -20, 20, 3), -b)
    says = "Sums of floats are computed in the order in which they are written"
    return Assumption("order", says, _bits(a, b, c), (a + b) + c)


def _contraction() -> Assumption:
    a, b = _drawn(1001, -9, 9, 4), _drawn(1001, -9, 9, 5)
    c = np.where(np.arange(1001) % 2, _drawn(1001, -12, 12, 6), a * b)
    says = "A product and a sum are two roundings"
    return _ways(says, "contraction", [((a, b, c), value) for value in (a * b + c, a * b - c, c - a * b)])


def _multiply_add() -> Assumption:
    a, b = _drawn(1001, -9, 9, 7), _drawn(1001, -9, 9, 8)
    c = np.where(np.arange(1001) % 2, _drawn(1001, -12, 12, 9), -(a * b))
    wide = a.astype(np.float64) * b + c
    says = "fma is one rounding, or one of the product and one of the sum"
    return Assumption("multiply_add", says, _bits(a, b, c), wide.astype(np.float32), other=a * b + c)


def _special() -> Assumption:
    a, b = _pairs(_SPECIAL)
    with np.errstate(all="ignore"):
        total, product = a + b, a * b
        truths = [np.isnan(total), np.isnan(product), np.isinf(product), a < b, a == b, ~(a >= b), a != a]
    expected = sum(truth.astype(np.uint32) << np.uint32(place) for place, truth in enumerate(truths))
    says = "Infinities and NaN are kept, and no comparison with NaN holds"
    return Assumption("special", says, _bits(a, b), np.asarray(expected, np.uint32))


def _signed_zero() -> Assumption:
    a, b = _pairs(_float32([0, -0.0, 2, -2]))
    says = "Zeros keep their signs"
    return _ways(says, "signed_zero", [((a, b), value) for value in (a * b, a + b, -a)])


def _subnormal() -> Assumption:
    a, b = _drawn(500, -75, -60, 10), _drawn(500, -75, -60, 11)
    a[::5] = np.uint32(0x00012345).view(np.float32)
    b[::5] = np.float32(2)
    says = "A number too small for a normal one is itself, or zero"
    return Assumption("subnormal", says, _bits(a, b), a * b, may_flush=True)


def _quotient() -> Assumption:
    a, b = np.abs(_drawn(1001, -40, 40, 12)), _drawn(1001, -40, 40, 13)
    inverse = (1 / np.sqrt(a.astype(np.float64))).astype(np.float32)
    says = "Quotients are right to 3 units in the last place, and so are roots and their reciprocals"
    return _ways(says, "quotient", [((a, b), a / b), ((a, b), np.sqrt(a)), ((a, b), inverse)], ulps=3)


def _nearest_quotient() -> Assumption:
    a, b = _drawn(1001, -40, 40, 14), _drawn(1001, -40, 40, 15)
    a[::3] = np.ceil(np.abs(a[::3])) * b[::3]
    says = "exact_quotient gives the nearest quotient"
    return Assumption("nearest_quotient", says, _bits(a, b), a / b)


def _exponential() -> Assumption:
    x = np.linspace(-86, 88, 1001, dtype=np.float32)
    small = np.linspace(-11, 11, 1001, dtype=np.float32)
    says = "exact_exp and exact_tanh are right to 4 units in the last place"
    values = [
        ((x,), np.exp(x.astype(np.float64)).astype(np.float32)),
        ((small,), np.tanh(small.astype(np.float64)).astype(np.float32)),
    ]
    return _ways(says, "exponential", values, ulps=4)


def _whole() -> Assumption:
    x = np.concatenate([_drawn(400, -3, 25, 16), np.arange(-9, 9, dtype=np.float32) / 2, _float32([0.49999997])])
    away = np.trunc(x) + np.sign(x) * (np.abs(x - np.trunc(x)) >= 0.5)
    says = "floor, ceil, trunc and roundEven are exact"
    values = (np.floor(x), np.ceil(x), np.trunc(x), away.astype(np.float32), np.rint(x))
    found = _ways(says, "whole", [((x,), value) for value in values])
    either_zero = np.where(found.expected == 0, np.copysign(np.float32(0), -found.expected), found.expected)
    return replace(found, other=either_zero)


def _conversion() -> Assumption:
    words = np.concatenate([_WORDS, np.random.default_rng(17).integers(0, 2**32, 500, np.uint32)])
    x = np.concatenate([np.trunc(_drawn(400, 0, 40, 18)), _float32([2**31, -(2**31), 1e20, -1e20, np.inf, -np.inf])])
    inside = np.clip(x.astype(np.float64), -(2.0**31), 2.0**31 - 1).astype(np.int64)
    values = [
        ((words,), words.view(np.int32).astype(np.float32).view(np.uint32)),
        ((words >> 1,), (words >> 1).astype(np.float32).view(np.uint32)),
        ((x,), inside.astype(np.uint32)),
    ]
    says = "Integers below 2^31 become the nearest floats, and saturated_int the nearest integers of any floats"
    return _ways(says, "conversion", values)


def _division() -> Assumption:
    a, b = _pairs(_WORDS)
    a, b = a[b != 0], b[b != 0]
    signed_a, signed_b = a.view(np.int32).astype(np.int64), b.view(np.int32).astype(np.int64)
    towards_zero = np.abs(signed_a) // np.abs(signed_b) * np.where((signed_a < 0) == (signed_b < 0), 1, -1)
    fits = towards_zero < 2**31
    values = [
        ((a, b), a // b),
        ((a, b), a % b),
        ((a[fits], b[fits]), towards_zero[fits].astype(np.uint32)),
    ]
    return _ways("Integers are divided exactly, signed ones towards zero", "division", values)


def _shift() -> Assumption:
    words = np.repeat(_WORDS, 32)
    by = np.tile(np.arange(32, dtype=np.uint32), _WORDS.size)
    index = by % np.uint32(4)
    both = words.astype(np.uint64) | words[::-1].astype(np.uint64) << np.uint64(32)
    joined = (both >> (index * np.uint32(8)).astype(np.uint64)).astype(np.uint32)
    values = [
        ((words, by), words << by),
        ((words, by), words >> by),
        ((words, by), (words.view(np.int32) >> by.astype(np.int32)).view(np.uint32)),
        ((words, index, words[::-1]), joined),
    ]
    return _ways("Shifts by 0 to 31 are exact; join_words never shifts by 32", "shift", values)


def _product() -> Assumption:
    a, b = _pairs(_WORDS)
    unsigned = a.astype(np.uint64) * b.astype(np.uint64)
    signed = a.view(np.int32).astype(np.int64) * b.view(np.int32).astype(np.int64)
    highest = _uint32([int(word).bit_length() - 1 & 0xFFFFFFFF for word in a])
    high = (signed >> 32).astype(np.uint32)
    values = [(unsigned >> np.uint64(32)).astype(np.uint32), unsigned.astype(np.uint32), high, highest]
    says = "Products of integers have 64 bits where they are asked for"
    return _ways(says, "product", [((a, b), value) for value in values])


def _rounds() -> Assumption:
    counts, words = _uint32([0, 1, 17, 60000]), _uint32([3, 99, 0xF0F0, 0x55])
    sums = [int((np.arange(count, dtype=np.uint64) ^ word).sum()) for count, word in zip(counts, words, strict=True)]
    expected = _uint32([total & 0xFFFFFFFF for total in sums])
    return Assumption("rounds", "A loop may have 60,000 rounds", _bits(counts, words), expected)


def _to_half(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


def _rounded() -> Assumption:
    a, b, c = _drawn(1001, -6, 6, 19), _drawn(1001, -6, 6, 20), _drawn(1001, -12, 12, 21)
    expected = _to_half(_to_half(a * b).astype(np.float32) + c).astype(np.float32)
    says = "ROUNDED gives the float that would come back from memory as one of 16 bits"
    return Assumption("rounded", says, _bits(a, b, c), expected)


def _packed() -> Assumption:
    every = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)[::7]
    ties = (every[:-1] + every[1:]) / 2
    a = np.concatenate([every, ties, np.nextafter(ties, np.float32(0)), _float32([65519.99, 65520, 1e9, np.inf])])
    b = -a[::-1]
    expected = _to_half(a).view(np.uint16).astype(np.uint32) | _to_half(b).view(np.uint16).astype(np.uint32) << 16
    says = "Floats are rounded to the nearest of 16 bits, ties to even, and subnormal ones are kept"
    return Assumption("packed", says, _bits(a, b), expected)


def _unpacked() -> Assumption:
    float16 = np.arange(2**16, dtype=np.uint32)[::3]
    expected = float16.astype(np.uint16).view(np.float16).astype(np.float32)
    return Assumption("unpacked", "Floats of 16 bits are themselves as 32-bit ones", _bits(float16), expected)


_MAKERS: dict[str, Callable[[], Assumption]] = {
    "order": _order,
    "contraction": _contraction,
    "multiply_add": _multiply_add,
    "special": _special,
    "signed_zero": _signed_zero,
    "subnormal": _subnormal,
    "quotient": _quotient,
    "nearest_quotient": _nearest_quotient,
    "exponential": _exponential,
    "whole": _whole,
    "conversion": _conversion,
    "division": _division,
    "shift": _shift,
    "product": _product,
    "rounds": _rounds,
}
_MAKERS_16 = {"rounded": _rounded, "packed": _packed, "unpacked": _unpacked}

ASSUMPTIONS = Shader(
    "assumptions",
    where=lambda choice: (choice["KIND"] in _MAKERS_16) == (choice["DTYPE"] == "f16"),
    KIND=(*_MAKERS, *_MAKERS_16),
    DTYPE=("f32", "f16"),
)


def assumption(variant: Variant) -> Assumption:
    """The assumption that a variant of `ASSUMPTIONS` tests."""
    kind = dict(variant.axes)["KIND"]
    return (_MAKERS | _MAKERS_16)[kind]()
