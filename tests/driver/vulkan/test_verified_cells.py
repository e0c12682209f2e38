"""Recurrent cells of floats in verified plans: GEMMs compute their products, and another shader verifies these."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import supported
from verified import FLOAT_CELLS, VERIFIED, families, outcome, plan_of, run, with_wrong_products

from nnvk.base.errors import VerificationError
from nnvk.check.model_rows import empty_like, parse, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm.verification.exact import EXACT
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.request import PrepareOptions

LARGE = """
UNIDIRECTIONAL_SEQUENCE_GRU f32[3,2,7]~1 3:#f32[141,7]~1 3:#f32[141,141]~1/16 4:#f32[141]~1 f32[2,141]~1 4 true
UNIDIRECTIONAL_SEQUENCE_RNN f32[3,2,7]~1 #f32[263,7]~1 #f32[263,263]~1/16 #f32[263]~1 f32[2,263]~1 4 1
UNIDIRECTIONAL_SEQUENCE_RNN f32[2,3,7]~1 #f32[263,7]~1 #f32[263,263]~1/16 #f32[263]~1 f32[2,263]~1 1 0
""".strip().splitlines()
"""Cells whose time steps are dispatches of their own; in the second one the batches come first."""


@pytest.mark.parametrize(
    "leading", [OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16], ids=lambda code: code.name
)
@pytest.mark.parametrize("code", FLOAT_CELLS, ids=lambda code: code.name)
def test_cells_are_verified_by_another_shader(device: VulkanDevice, code: OperationCode, leading: OperandCode) -> None:
    effects = set()
    for _, row in supported(device, code, leading, range(300, 303)):
        assert families(plan_of(device, row.model, row.inputs, VERIFIED))[EXACT.name] >= 1
        right = run(device, row.model, row.inputs, reference(row), options=PrepareOptions())
        for ours, theirs in zip(run(device, row.model, row.inputs, right), right, strict=True):
            tolerance = 1e-4 if leading is OperandCode.TENSOR_FLOAT32 else 5e-3
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
        effects.add(outcome(device, row.model, row.inputs, right, with_wrong_products))
    assert "found" in effects
    assert "missed" not in effects


@pytest.mark.parametrize("place", range(len(LARGE)))
def test_each_time_step_is_verified(device: VulkanDevice, place: int) -> None:
    row = parse(LARGE[place])
    found = families(plan_of(device, row.model, row.inputs, VERIFIED))
    products = 1 + 3  # of the inputs, and of each of three time steps
    assert (found[EXACT.name], found["gemm"] + found["fully_connected"]) == (products, products)
    for ours, theirs in zip(run(device, row.model, row.inputs, reference(row)), reference(row), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    with pytest.raises(VerificationError, match=r"UNIDIRECTIONAL_SEQUENCE_.*: element"):
        run(device, row.model, row.inputs, empty_like(reference(row)), with_wrong_products)
