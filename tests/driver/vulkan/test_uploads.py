"""Constants on their way to the device: made and uploaded by threads, while shaders are compiled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnvk.check.model_rows import empty_like, execute, parse, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.running import constants
from nnvk.driver.vulkan.running.resident_plan import ResidentPlan
from nnvk.driver.vulkan.running.workspaces import Workspaces
from nnvk.types.constant import Constant, deferred_bytes
from nnvk.types.request import PrepareOptions

ROW = "CONV_2D u8[1,7,9,13]*0.05+120 #u8[67,3,3,13]*0.02+131 #i32[67] SAME 1 1 RELU nhwc -> u8*0.08+100"


@pytest.fixture(params=["by threads", "at once", "in portions"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways to upload, whatever the size."""
    monkeypatch.setattr(constants, "_MUCH", 0 if request.param == "by threads" else 1 << 40)
    if request.param == "in portions":
        monkeypatch.setattr(constants, "_STAGED", 300)


def plan_of(device: VulkanDevice, row: str = ROW) -> Plan:
    model = parse(row).model
    return device.planner.plan(model, [type_.dimensions for type_ in model.input_types()], PrepareOptions())


@pytest.mark.usefixtures("way")
def test_results(own: VulkanDevice) -> None:
    row = parse(ROW)
    expected = reference(row)
    outputs = empty_like(expected)
    execute(own, row, outputs)
    np.testing.assert_array_equal(outputs[0], expected[0])


@pytest.mark.usefixtures("way")
def test_what_can_not_be_made(own: VulkanDevice) -> None:
    def failing() -> np.ndarray:
        raise MemoryError("no memory for weights")

    plan = plan_of(own)
    constants: list[tuple[object, Constant]] = [
        (address, deferred_bytes(address.nbytes, failing)) for address, _ in plan.constants
    ]
    plan = replace(plan, constants=tuple(constants))
    with pytest.raises(Exception, match="no memory for weights"):
        ResidentPlan(own.gpu, own._buffers, Workspaces(), parse(ROW).model, plan).warm_up()


@pytest.mark.parametrize(
    "row",
    [
        "FULLY_CONNECTED f32[{},256] #f32i8[320,256]+3 #f32[320] NONE",
        "CONV_2D f32[1,{},3,256] #f32u8[320,1,1,256]*0.02+131 #f32[320] SAME 1 1 NONE nhwc",
    ],
)
@pytest.mark.parametrize("rows", [1, 40])
def test_weights_of_8_bits_stay_so_on_the_device(vulkan: VulkanDevice, row: str, rows: int) -> None:
    constants = plan_of(vulkan, row.format(rows)).constants
    assert sum(data.nbytes for _, data in constants) == 320 * 256 + 2 * 4 * 320


@pytest.mark.parametrize("scale", [f"0.{0:029}1", "1e30"], ids=["small", "large"])
def test_weights_of_8_bits_with_extreme_scales_become_floats(vulkan: VulkanDevice, scale: str) -> None:
    row = f"FULLY_CONNECTED f32[3,8] #f32i8[32,8]*{scale} #f32[32] NONE"
    constants = plan_of(vulkan, row).constants
    assert sum(data.nbytes for _, data in constants) == 4 * (32 * 8 + 32)
