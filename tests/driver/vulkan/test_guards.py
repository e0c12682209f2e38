"""Every kernel on drawn cases between guards: nothing is written past a tensor, nothing read that nobody wrote.

The draws and the references' results are those of ``tests/support/recipes``.
"""

from __future__ import annotations

import numpy as np
import pytest
from guarded import run_guarded
from recipes import Draw, draw_case, frozen, run_case

from nnvk.conformance.compare import first_difference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.ops import registry
from nnvk.types.codes import OperandCode, OperationCode

CASES = [
    pytest.param(code, leading, id=f"{code.name}-{leading.name}")
    for code in sorted(kernels())
    for leading in registry.lookup(code).types
]
SEEDS = range(100, 104)


@pytest.mark.parametrize(("code", "leading"), CASES)
def test_nothing_else_is_touched(vulkan: VulkanDevice, code: OperationCode, leading: OperandCode) -> None:
    for seed in SEEDS:
        case = draw_case(Draw(seed), code, leading)
        model = frozen(case)
        (support,) = vulkan.get_supported_operations(model)
        if not support.supported:
            continue
        expected = run_case(case)
        actual = [np.full(array.shape, 77, array.dtype) for array in expected]
        inputs = [case.inputs[index].data for index in model.inputs]
        assert not any(array is None for array in inputs)
        assert run_guarded(vulkan, model, inputs, actual) == [], f"seed {seed}"  # type: ignore[arg-type]
        for want, got, type_ in zip(expected, actual, model.output_types(), strict=True):
            if want.dtype.kind == "f":  # what has no result here and there, SQRT of -1 say, agrees on that
                both = np.isnan(want) & np.isnan(got)
                want, got = np.where(both, 0, want), np.where(both, 0, got)
            assert first_difference(want, got, type_.code) is None, f"seed {seed}"
