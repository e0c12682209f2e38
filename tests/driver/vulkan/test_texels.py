"""Loads through texel buffers and through storage buffers give the same numbers, whichever the device prefers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import KERNELS, supported

from nnvk.base.settings import override
from nnvk.check.model_rows import empty_like, execute, reference
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.lowering.lowering import TEXELS
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.types.codes import OperandCode, OperationCode


@pytest.fixture(scope="module")
def other(own: VulkanDevice) -> VulkanDevice:
    """The device, with loads of the kind that it does not choose."""
    with override():
        device = find_devices()[0][0]
    profile = replace(device.profile, texel_loads=not own.profile.texel_loads)
    device.gpu.profile = device.planner.profile = profile
    return device


@pytest.mark.parametrize(("code", "leading"), KERNELS)
@pytest.mark.crossed
def test_the_same_numbers(own: VulkanDevice, other: VulkanDevice, code: OperationCode, leading: OperandCode) -> None:
    """Only sums of floats may have another order, as the cost of loads decides which strategy is chosen."""
    for seed, row in supported(own, code, leading, [200]):
        want, got = empty_like(reference(row)), empty_like(reference(row))
        execute(own, row, want)
        execute(other, row, got)
        for one, two in zip(got, want, strict=True):
            if one.dtype.kind == "f":
                np.testing.assert_allclose(
                    one, two, rtol=1e-5 if one.itemsize == 4 else 2e-3, atol=1e-5, err_msg=f"{seed}"
                )
            else:
                np.testing.assert_array_equal(one, two, err_msg=f"{seed}")


def test_the_profile_decides(own: VulkanDevice, other: VulkanDevice) -> None:
    seed, row = next(iter(supported(own, *KERNELS[0].values, range(500, 510))))
    for device in (own, other):
        plan = device.planner.lower(row.model, [array.shape for array in row.inputs])
        dispatches = [command for command in plan.commands if isinstance(command, Dispatch)]
        chosen = [each.shader.constant(each.specialization, TEXELS) for each in dispatches]
        assert chosen == [device.profile.texel_loads] * len(chosen), seed
