"""Rows on the Vulkan device against the reference: results, and that nothing else in memory is touched."""

from __future__ import annotations

import numpy as np
from guarded import plan_for, run_plan_guarded
from rows import Row, empty_like, execute, parse, reference

from nnvk.conformance.compare import FLOAT16_TOLERANCE
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.commands import Dispatch


def check_like_the_reference(device: VulkanDevice, row: str | Row, what: str = "") -> None:
    """Outputs agree, also where every tensor has a buffer of its own between guards."""
    row = parse(row) if isinstance(row, str) else row
    expected = reference(row)
    outputs, guarded = empty_like(expected), empty_like(expected)
    result = execute(device, row, outputs)
    assert [shape.dimensions for shape in result.output_shapes] == [array.shape for array in expected]
    plan = plan_for(device, row.model, row.inputs)
    assert run_plan_guarded(device, plan, row.inputs, guarded) == []
    for want, got, alone in zip(expected, outputs, guarded, strict=True):
        agree(want, got, what, in_16_bits=adds_in_16_bits(plan))
        assert got.tobytes() == alone.tobytes(), "the result depends on where tensors lie"


def adds_in_16_bits(plan: Plan) -> bool:
    """Whether GEMMs or depthwise convolutions of a plan sum 16-bit floats in 16 bits, which only GPUs do."""
    return any(isinstance(each, Dispatch) and ".half." in each.shader.name for each in plan.commands)


def agree(want: np.ndarray, got: np.ndarray, what: str = "", *, in_16_bits: bool = False) -> None:
    """Floats agree to 1e-5 and 5 units in the last place, as Android's tests ask; the rest is equal.

    16-bit floats agree to a unit, or as Android's tests ask where they are summed in 16 bits.
    """
    if want.dtype == np.float32:
        np.testing.assert_allclose(got, want, rtol=6e-7, atol=1e-5, err_msg=what)
    elif want.dtype == np.float16:
        relative, absolute = (FLOAT16_TOLERANCE, FLOAT16_TOLERANCE) if in_16_bits else (2**-10, 2**-17)
        np.testing.assert_allclose(got, want, rtol=relative, atol=absolute, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, what)
