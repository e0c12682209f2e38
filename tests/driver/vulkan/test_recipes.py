"""Every kernel on drawn cases, against the reference: all types, options and overloads, amid guards."""

from __future__ import annotations

import pytest
from against_reference import agree
from guarded import run_guarded
from kernel_cases import KERNELS, supported
from rows import empty_like, execute

from nnvk.driver.vulkan import VulkanDevice
from nnvk.types.codes import OperandCode, OperationCode


@pytest.mark.parametrize(("code", "leading"), KERNELS)
def test_like_the_reference(vulkan: VulkanDevice, code: OperationCode, leading: OperandCode) -> None:
    """Nothing is written past a tensor, and nothing read that nobody wrote."""
    for seed, row, expected in supported(vulkan, code, leading, range(8)):
        outputs, guarded = empty_like(expected), empty_like(expected)
        execute(vulkan, row, outputs)
        for want, got in zip(expected, outputs, strict=True):
            agree(want, got, f"seed {seed}")
        assert run_guarded(vulkan, row.model, row.inputs, guarded) == []
        assert [array.tobytes() for array in outputs] == [array.tobytes() for array in guarded]


@pytest.mark.parametrize(("code", "leading"), KERNELS)
def test_parameters_that_come_with_the_execution(
    vulkan: VulkanDevice, code: OperationCode, leading: OperandCode
) -> None:
    for seed, row, expected in supported(vulkan, code, leading, range(300, 303), late=True):
        outputs = empty_like(expected)
        execute(vulkan, row, outputs)
        for want, got in zip(expected, outputs, strict=True):
            agree(want, got, f"seed {seed}")
