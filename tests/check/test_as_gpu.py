"""Cases of ``nnvk check`` on a device that is taken for a GPU, where 16-bit floats may be summed in 16 bits."""

from __future__ import annotations

import pytest

from nnvk import Device
from nnvk.base.settings import override
from nnvk.check.checks import Kind, Status
from nnvk.check.device import Checked
from nnvk.driver.vulkan import find_devices


@pytest.mark.parametrize("operation", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV_2D"])
def test_16_bit_floats_pass(operation: str) -> None:
    with override(device_profile="gpu"):
        found, reason = find_devices()
    if not found:
        pytest.skip(reason)
    checks = [each for each in Checked(Device(found[0])).checks() if each.kind is Kind.CASE and each.name == operation]
    outcomes = {each.details: each.run() for each in checks if "f16" in each.details}
    assert outcomes
    assert {details: each.reason for details, each in outcomes.items() if each.status is not Status.PASSED} == {}
