"""Rows on the Vulkan device against the reference: results, and that nothing else in memory is touched."""

from __future__ import annotations

import numpy as np
from guarded import run_guarded

from nnvk.check.comparison import difference
from nnvk.check.device import shaders_of
from nnvk.check.model_rows import Row, empty_like, execute, parse, reference
from nnvk.conformance.compare import FLOAT16_TOLERANCE, Tolerance, difference_beyond
from nnvk.driver.vulkan import VulkanDevice


def check_like_the_reference(device: VulkanDevice, row: str | Row, what: str = "") -> None:
    """Outputs agree, also where every tensor has a buffer of its own between guards."""
    row = parse(row) if isinstance(row, str) else row
    expected = reference(row)
    outputs, guarded = empty_like(expected), empty_like(expected)
    result = execute(device, row, outputs)
    assert [shape.dimensions for shape in result.output_shapes] == [array.shape for array in expected]
    assert run_guarded(device, row.model, row.inputs, guarded) == []
    in_16_bits = sums_in_16_bits(device, row)
    for want, got, alone in zip(expected, outputs, guarded, strict=True):
        agree(want, got, what, in_16_bits=in_16_bits)
        assert got.tobytes() == alone.tobytes(), "the result depends on where tensors lie"


def sums_in_16_bits(device: VulkanDevice, row: Row) -> bool:
    """Whether the device sums products of 16-bit floats in 16 bits for a row, which only plans for GPUs do."""
    return any(".half." in name for name in shaders_of(device.planner, row))


def agree(want: np.ndarray, got: np.ndarray, what: str = "", *, in_16_bits: bool = False) -> None:
    """A result passes that `nnvk check` would let pass; 16-bit floats summed in 16 bits as Android's tests ask."""
    assert want.dtype == got.dtype, what
    if in_16_bits and want.dtype == np.float16:
        allowed = Tolerance(FLOAT16_TOLERANCE, FLOAT16_TOLERANCE)
        found = difference_beyond(allowed, want, got, nan_is_equal=True)
    else:
        found = difference(want, got)
    assert not found, f"{what}{': ' if what else ''}{found}"
