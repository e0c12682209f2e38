"""How large the difference between two arrays is, and whether it is tolerated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnvk.importers.graph_builder import Source
from nnvk.types.operand import OperandType

HALF = 2e-3
"""The part of the range below the precision of FLOAT16."""
LEAST_SHARE = 1e-9
"""The share of the range at which the logarithmic axes of plots begin."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Up to where a result is not off. Whole numbers and flags must be equal."""

    of_range: float = 1e-4
    """The largest difference of floats that passes, as a part of the range of the reference's numbers."""
    steps: int = 1
    """The largest difference of quantised numbers that passes, in quantisation steps."""
    floor: float = 1e-6
    """The difference of floats that passes whatever their range is: numbers near 0 that larger ones cancel to."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the results of an operation, or of the whole model, on two engines."""

    number: int | None
    """The position of the operation, in the order of execution; None for an output of the whole model."""
    operation: str
    layer: Source | None
    """The operator of the file that it comes from."""
    device: str
    """Who has run the operation."""
    output: int
    """The position among the outputs of the operation, or of the model."""
    type: str
    dimensions: tuple[int, ...]
    largest: float
    """The largest difference, in real units; infinite where one is no number, or shapes differ."""
    of_range: float
    """The same by the range of the reference's numbers."""
    tolerated: float
    """The largest difference that passes, also by the range; 0 for whole numbers and flags."""
    steps: int | None
    """The largest difference of quantised numbers, in quantisation steps."""
    where: tuple[int, ...]
    """The position of the largest difference."""
    got: float
    want: float
    """The values on the device and on the reference."""
    wrong: int
    """Elements that differ by more than is tolerated."""
    size: int
    """Elements in all."""

    @property
    def is_off(self) -> bool:
        """Whether it is more than is tolerated."""
        return self.wrong > 0


def _parts(array: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs along a last dimension more, as operands have them."""
    return np.stack([array.real, array.imag], axis=-1) if np.iscomplexobj(array) else array


About = tuple[int | None, str, Source | None, str, int]
"""The first fields of `Difference`."""


def difference(about: About, type: OperandType, got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> Difference:
    """How two arrays of a type differ, complex ones by their parts. NaN is equal to NaN, and infinity to infinity."""
    got, want = _parts(got), _parts(want)
    name = type.brief.partition(" ")[0]
    if got.size != want.size or not want.size:
        is_wrong = got.size != want.size
        far = np.inf if is_wrong else 0.0
        return Difference(*about, name, got.shape, far, far, 0.0, None, (), np.nan, np.nan, int(is_wrong), got.size)
    one, other = got.astype(np.float64).reshape(-1), want.astype(np.float64).reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(one - other)
    apart[(one == other) | (np.isnan(one) & np.isnan(other))] = 0.0
    apart[np.isnan(apart)] = np.inf
    is_quantised = type.scale > 0 and type.dtype.kind in "iu" and type.dtype.itemsize <= 2
    unit = type.scale if is_quantised else 1.0
    finite = other[np.isfinite(other)]
    span = (float(np.ptp(finite)) or float(np.abs(finite).max())) if finite.size else 0.0
    span = span or 1.0
    if is_quantised:
        tolerated: float = tolerance.steps
    elif got.dtype.kind == "f":
        least = HALF if got.dtype == np.float16 else 0.0
        tolerated = max(max(tolerance.of_range, least) * span, tolerance.floor)
    else:
        tolerated = 0.0
    wrong = apart > tolerated
    at = int(np.argmax(apart))
    most = float(apart[at])
    where = tuple(int(place) for place in np.unravel_index(at, got.shape))
    zero = type.zero_point if is_quantised else 0
    return Difference(
        *about,
        name,
        got.shape,
        most * unit,
        most / span,
        tolerated / span,
        int(most) if is_quantised else None,
        where,
        (float(one[at]) - zero) * unit,
        (float(other[at]) - zero) * unit,
        int(wrong.sum()),
        got.size,
    )
