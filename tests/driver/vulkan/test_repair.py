"""Other strategies, which compute again what a device has computed wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from faults import without_command
from samples import execution
from verified import VERIFIED, plan_of, run

import nnvk
from nnvk.check.model_rows import Row, empty_like, parse, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.commands import Command, Dispatch
from nnvk.runtime.devices import Device
from nnvk.types.request import PrepareOptions, Redundancy

ROWS = """
CONV_2D i8[2,9,7,16]*0.05+12 #pc0[24,1,1,16] #i32[24] SAME 1 1 NONE -> i8*0.3-10
CONV_2D u8[1,13,11,8]*0.05+120 #pc0[16,3,3,8] #i32[16] SAME 1 1 RELU -> u8*0.08+100
DEPTHWISE_CONV_2D i8[1,57,56,32]*0.05-3 #pc3[1,3,3,32] #i32[32] SAME 1 1 1 NONE -> i8*0.08-20
FULLY_CONNECTED i8[19,33]*0.05-7 #i8[8,33]*0.02 #i32[8] RELU -> i8*0.08-20
BATCH_MATMUL i8[3,9,22]*0.5+3 i8[3,22,5]*0.25-7 -> i8*9.5-20
CONV_2D f32[2,9,7,16] #f32[24,3,3,16] #f32[24] SAME 1 1 NONE nhwc
""".strip().splitlines()
PRODUCTS = "gemm", "depthwise_conv2d"


def product(plan: Plan) -> int:
    """The position of the dispatch that computes the result, not of what verifies it."""
    return next(
        place
        for place, each in enumerate(plan.commands)
        if isinstance(each, Dispatch) and each.shader.family in PRODUCTS
    )


def kernel(command: Command) -> tuple[str, bytes]:
    assert isinstance(command, Dispatch)
    return command.shader.name, command.specialization


def has_several(device: VulkanDevice, place: int) -> bool:
    """Whether a device has several strategies for a row: CPUs have one for convolutions by channel."""
    return not (device.profile.is_cpu and ROWS[place].startswith("DEPTHWISE"))


def chosen(device: VulkanDevice, row: Row, options: PrepareOptions) -> list[str]:
    return [choice.chosen for choice in plan_of(device, row.model, row.inputs, options).choices]


@pytest.mark.parametrize("redundancy", list(Redundancy), ids=lambda each: each.name)
@pytest.mark.parametrize("place", range(len(ROWS)))
def test_other_strategies_give_the_same(device: VulkanDevice, place: int, redundancy: Redundancy) -> None:
    row = parse(ROWS[place])
    usual, other = (PrepareOptions(redundancy=redundancy, other_strategies=each) for each in (False, True))
    before, after = (chosen(device, row, options) for options in (usual, other))
    assert bool(before) == has_several(device, place)
    assert len(before) == len(after)
    assert all(one != another for one, another in zip(before, after, strict=True))
    right = run(device, row.model, row.inputs, reference(row), options=usual)
    for ours, theirs in zip(run(device, row.model, row.inputs, right, options=other), right, strict=True):
        if ours.dtype == np.float32:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(ours, theirs)


def test_a_second_computation_takes_neither_of_both(as_gpu: VulkanDevice) -> None:
    row = parse(ROWS[4])
    usual, plan = (
        plan_of(as_gpu, row.model, row.inputs, PrepareOptions(redundancy=Redundancy.DUPLICATION, other_strategies=each))
        for each in (False, True)
    )
    first, second = (
        kernel(each) for each in plan.commands if isinstance(each, Dispatch) and each.shader.family == "gemm"
    )
    assert first != second
    assert kernel(usual.commands[product(usual)]) not in (first, second)


def without_kernel(usual: Plan, by_buffer: bool) -> Callable[[Plan], Plan]:
    """Leave out of plans the product that is computed as in the usual one, as if its shader stored nothing."""
    wrong = kernel(usual.commands[product(usual)])

    def change(plan: Plan) -> Plan:
        place = product(plan)
        return without_command(plan, place, by_buffer=by_buffer) if kernel(plan.commands[place]) == wrong else plan

    return change


def computed(device: VulkanDevice, row: Row) -> list[np.ndarray]:
    """The outputs of a compilation that repairs."""
    compilation = nnvk.Compilation(nnvk.Model.of(row.model), [Device(device)])
    compilation.set_verified("repair")
    compilation.finish()
    outputs = empty_like(reference(row))
    execution(compilation, row.inputs, outputs).compute()
    return outputs


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_a_strategy_that_is_wrong_each_time_is_replaced(
    device: VulkanDevice, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    row = parse(ROWS[place])
    right = run(device, row.model, row.inputs, reference(row))
    usual, plan = plan_of(device, row.model, row.inputs, VERIFIED), device.planner.plan
    change = without_kernel(usual, device.profile.barriers_by_buffer)
    asked: list[PrepareOptions] = []

    def wrong_plan(model: Any, shapes: Any, options: PrepareOptions, values: Any = None) -> Plan:
        asked.append(options)
        return change(plan(model, shapes, options, values))

    monkeypatch.setattr(device.planner, "plan", wrong_plan)
    before = nnvk.stats()
    for ours, theirs in zip(computed(device, row), right, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    now = nnvk.stats()
    assert [options.other_strategies for options in asked] == [False, True]
    by_device = has_several(device, place)
    assert now.failed_verifications - before.failed_verifications == (1 if by_device else 2)
    assert now.repaired_by_device - before.repaired_by_device == int(by_device)
    assert now.repaired_by_cpu - before.repaired_by_cpu == int(not by_device)
