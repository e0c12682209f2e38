"""Every kernel on drawn cases, against the reference: all types, options and overloads, amid guards."""

from __future__ import annotations

import pytest
from against_reference import check_like_the_reference
from kernel_cases import KERNELS, supported

from nnvk.driver.vulkan import VulkanDevice
from nnvk.types.codes import OperandCode, OperationCode


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 8), marks=pytest.mark.numbers)], ids=str)
@pytest.mark.parametrize(("code", "leading"), KERNELS)
def test_like_the_reference(vulkan: VulkanDevice, code: OperationCode, leading: OperandCode, seeds: range) -> None:
    """Nothing is written past a tensor, and nothing read that nobody wrote."""
    for seed, row in supported(vulkan, code, leading, seeds):
        check_like_the_reference(vulkan, row, f"seed {seed}")


@pytest.mark.parametrize(("code", "leading"), KERNELS)
@pytest.mark.crossed
def test_parameters_that_come_with_the_execution(
    vulkan: VulkanDevice, code: OperationCode, leading: OperandCode
) -> None:
    for seed, row in supported(vulkan, code, leading, range(300, 302), late=True):
        check_like_the_reference(vulkan, row, f"seed {seed}")
