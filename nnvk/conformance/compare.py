"""When an output passes: the tolerances of Android's operation tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnvk.types.codes import OperandCode

FLOAT32_ABSOLUTE = 1e-5
FLOAT32_RELATIVE = 5 * 1.1920928955078125e-7
FLOAT16_TOLERANCE = 5 * 0.0009765625
"""Absolute and relative, for FLOAT16 and for FLOAT32 of a relaxed model."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """An element passes where ``abs(expected - actual) <= absolute + relative * abs(expected)``."""

    absolute: float = 0.0
    relative: float = 0.0


_EXACT = Tolerance()
_ONE_LEVEL = Tolerance(1.0)
_FLOAT32 = Tolerance(FLOAT32_ABSOLUTE, FLOAT32_RELATIVE)
_FLOAT16 = Tolerance(FLOAT16_TOLERANCE, FLOAT16_TOLERANCE)

_TOLERANCES: dict[OperandCode, Tolerance] = {
    OperandCode.FLOAT32: _FLOAT32,
    OperandCode.TENSOR_FLOAT32: _FLOAT32,
    OperandCode.FLOAT16: _FLOAT16,
    OperandCode.TENSOR_FLOAT16: _FLOAT16,
    OperandCode.TENSOR_QUANT8_ASYMM: _ONE_LEVEL,
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: _ONE_LEVEL,
    OperandCode.TENSOR_QUANT8_SYMM: _ONE_LEVEL,
    OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL: _ONE_LEVEL,
    OperandCode.TENSOR_QUANT16_SYMM: _ONE_LEVEL,
    OperandCode.TENSOR_QUANT16_ASYMM: _ONE_LEVEL,
}


def tolerance(code: OperandCode, relaxed: bool) -> Tolerance:
    """The tolerance for an output of type ``code``. Whatever is not float or quantised must be equal."""
    found = _TOLERANCES.get(code, _EXACT)
    return _FLOAT16 if relaxed and found is _FLOAT32 else found


def first_difference(expected: np.ndarray, actual: np.ndarray, code: OperandCode, relaxed: bool = False) -> str | None:
    """The error of an output, by its first differing element; None where all elements pass.

    Both arrays have the same dtype and shape. NaN never passes; an infinity passes only for itself.
    """
    return difference_beyond(tolerance(code, relaxed), expected, actual)


def difference_beyond(
    allowed: Tolerance, expected: np.ndarray, actual: np.ndarray, *, nan_is_equal: bool = False
) -> str | None:
    """Describe the first element that is off by more than is allowed; None where there is none.

    Both arrays have the same dtype. An infinity passes only for itself, NaN never, or for NaN where ``nan_is_equal``.
    """
    if actual.shape != expected.shape:
        return f"expected dimensions {list(expected.shape)}, got {list(actual.shape)}"
    if expected.dtype == np.bool_:
        expected, actual = expected.view(np.uint8), actual.view(np.uint8)
    wanted, got = expected.astype(np.float64), actual.astype(np.float64)
    with np.errstate(invalid="ignore"):
        limit = allowed.absolute + allowed.relative * np.abs(wanted)
        close = np.isfinite(wanted) & np.isfinite(got) & (np.abs(wanted - got) <= limit)
    same = (wanted == got) | (np.isnan(wanted) & np.isnan(got) if nan_is_equal else False)
    wrong = ~(close | same)
    if not wrong.any():
        return None
    where = tuple(int(index) for index in np.argwhere(wrong)[0])
    place = f"element {list(where)}" if where else "the value"
    text = f"{place}: expected {expected[where]}, got {actual[where]}"
    if np.isfinite(got[where]) and limit[where]:
        text += f", off by {abs(wanted[where] - got[where]):.3g} with {limit[where]:.3g} allowed"
    return f"{text} ({int(wrong.sum())} of {wrong.size} differ)"


def multinomial_difference(logits: np.ndarray, draws: np.ndarray, allowed: float) -> str | None:
    """The error of random draws; None where they pass.

    ``logits`` is ``[batch, classes]``, ``draws`` int32 ``[batch, samples]``. In every row the frequency of
    every class must be within ``allowed`` of the softmax of the logits.
    """
    batch, classes = logits.shape
    if draws.ndim != 2 or draws.shape[0] != batch:
        return f"expected draws for {batch} rows of logits, got dimensions {list(draws.shape)}"
    for row in range(batch):
        outside = (draws[row] < 0) | (draws[row] >= classes)
        if outside.any():
            return f"row {row}: drew class {draws[row][outside][0]}, there are {classes}"
        probabilities = _softmax(logits[row].astype(np.float64))
        frequencies = np.bincount(draws[row], minlength=classes) / max(draws.shape[1], 1)
        off = np.abs(frequencies - probabilities)
        worst = int(off.argmax())
        if not off[worst] <= allowed:
            return (
                f"row {row}, class {worst}: expected a frequency of {probabilities[worst]:.4f}, "
                f"got {frequencies[worst]:.4f}, off by more than {allowed}"
            )
    return None


def dimensions_difference(expected: Sequence[int], actual: Sequence[int]) -> str | None:
    """The error in the dimensions of an output; None where they are as expected."""
    if tuple(expected) == tuple(actual):
        return None
    return f"expected dimensions {list(expected)}, got {list(actual)}"


def _softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials = np.exp(values - np.max(values))
    result: NDArray[np.float64] = exponentials / exponentials.sum()
    return result
