"""Rows on the Vulkan device against the reference: results, and that nothing else in memory is touched."""

from __future__ import annotations

import numpy as np
from guarded import run_guarded

from nnvk.check.comparison import difference
from nnvk.check.rows import Row, empty_like, execute, parse, reference
from nnvk.driver.vulkan import VulkanDevice


def check_like_the_reference(device: VulkanDevice, row: str | Row, what: str = "") -> None:
    """Outputs agree, also where every tensor has a buffer of its own between guards."""
    row = parse(row) if isinstance(row, str) else row
    expected = reference(row)
    outputs, guarded = empty_like(expected), empty_like(expected)
    result = execute(device, row, outputs)
    assert [shape.dimensions for shape in result.output_shapes] == [array.shape for array in expected]
    assert run_guarded(device, row.model, row.inputs, guarded) == []
    for want, got, alone in zip(expected, outputs, guarded, strict=True):
        agree(want, got, what)
        assert got.tobytes() == alone.tobytes(), "the result depends on where tensors lie"


def agree(want: np.ndarray, got: np.ndarray, what: str = "") -> None:
    """A result passes that `nnvk check` would let pass."""
    assert want.dtype == got.dtype, what
    found = difference(want, got)
    assert not found, f"{what}{': ' if what else ''}{found}"
