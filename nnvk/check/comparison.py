"""When a device's result of an operation passes: as closely as the Vulkan driver's tests ask."""

from __future__ import annotations

import numpy as np

from nnvk.conformance.compare import FLOAT32_ABSOLUTE, Tolerance, difference_beyond

_TOLERANCES = {
    np.dtype(np.float32): Tolerance(FLOAT32_ABSOLUTE, 6e-7),
    np.dtype(np.float16): Tolerance(2.0**-17, 2.0**-10),
}


def difference(want: np.ndarray, got: np.ndarray, roundings: int = 1) -> str:
    """Describe the first wrong element of a result and the largest difference; empty where the result passes.

    Floats pass to 1e-5 and 5 units in the last place, as Android's tests ask; 16-bit ones to a unit for each of
    ``roundings``; the rest must be equal. NaN is equal to NaN.

    Each rounding of a sum that ends near the middle of two FLOAT16 numbers may go either way, which is one unit. A
    chain of operations, of numbers that do not cancel each other, adds these relative errors.
    """
    allowed = _TOLERANCES.get(want.dtype, Tolerance())
    if want.dtype == np.float16:
        allowed = Tolerance(roundings * allowed.absolute, roundings * allowed.relative)
    found = difference_beyond(allowed, want, got, nan_is_equal=True)
    if found is None:
        return ""
    if want.shape != got.shape or not want.size:
        return found
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(want.astype(np.float64) - got.astype(np.float64))
    finite = apart[np.isfinite(apart)]
    return f"{found}, the largest difference is {finite.max() if finite.size else np.nan:.3g}"


def bit_difference(want: np.ndarray, got: np.ndarray) -> str:
    """Describe the first element whose bits differ; empty where none is. NaN is equal to NaN."""
    if want.shape != got.shape:
        return f"expected dimensions {list(want.shape)}, got {list(got.shape)}"
    bits = f"u{want.itemsize}"
    differs = want.view(bits) != got.view(bits)
    if want.dtype.kind == "f":
        differs &= ~(np.isnan(want) & np.isnan(got))
    if not differs.any():
        return ""
    at = tuple(np.argwhere(differs)[0])
    return f"element {[int(each) for each in at]}: expected {want[at]!r}, got {got[at]!r} ({differs.sum()} differ)"
